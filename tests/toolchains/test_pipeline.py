"""What build takes as a source, where it finds the manifest, what it refuses before and after a toolchain ran."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from rho_wasm import wasm
from rho_wasm.errors import BuildError, ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.abi import MANIFEST_SECTION
from rho_wasm.toolchains import BuildLimits, build, languages
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.pipeline import missing, read_suffixes
from tests.toolchains.conftest import MINIMAL_WAT


def test_the_languages_are_named_with_their_suffixes() -> None:
    known = languages()
    assert {
        "c": ".c",
        "wat": ".wat",
        "python": ".py",
        "javascript": ".js",
        "typescript": ".ts",
    }.items() <= known.items()
    assert len(set(known.values())) == len(known)


def test_what_can_change_a_folder_is_every_main_file_and_what_its_language_reads_beside() -> None:
    assert {".py", ".c", ".as.ts"} <= set(read_suffixes("python"))
    assert ".txt" not in read_suffixes("python")
    assert ".manifest.json" not in read_suffixes("python")
    assert {".py", ".c", ".h", ".manifest.json"} <= set(read_suffixes("c"))
    assert {".txt", "go.mod", ".h", ".manifest.json"} <= set(read_suffixes(None))


def test_a_language_says_what_it_is_missing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing("wat") is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    lacking = missing("go")
    assert lacking is not None
    assert (lacking.reason, lacking.hint) == ("missing_extra", "pip install 'rho-wasm[go]'")
    with pytest.raises(BuildError):
        missing("cobol")


@pytest.mark.anyio
async def test_text_bytes_and_a_path_give_the_same_artifact(tmp_path: Path, manifest: dict[str, Any]) -> None:
    (tmp_path / "tool.wat").write_text(MINIMAL_WAT)
    built = [
        await build(MINIMAL_WAT, language="wat", manifest=manifest),
        await build(MINIMAL_WAT.encode(), language="wat", manifest=Manifest.from_json(manifest)),
        await build(tmp_path / "tool.wat", manifest=manifest),
    ]
    assert len({artifact.sha256 for artifact in built}) == 1
    artifact = built[0]
    assert artifact.provenance == "built here"
    assert (artifact.language, artifact.source) == ("wat", MINIMAL_WAT)
    assert artifact.toolchain is not None
    assert artifact.toolchain.startswith("wasmtime ")
    assert artifact.manifest.language == "wat"
    assert artifact.tools == ("nothing",)


@pytest.mark.anyio
async def test_one_byte_order_mark_is_dropped(manifest: dict[str, Any]) -> None:
    plain, text, data = [
        await build(source, language="wat", manifest=manifest)
        for source in (MINIMAL_WAT, "\ufeff" + MINIMAL_WAT, b"\xef\xbb\xbf" + MINIMAL_WAT.encode())
    ]
    assert (text.wasm, data.wasm, text.source, data.source) == (plain.wasm, plain.wasm, MINIMAL_WAT, MINIMAL_WAT)
    with pytest.raises(BuildError):
        await build("\ufeff\ufeff" + MINIMAL_WAT, language="wat", manifest=manifest)


@pytest.mark.anyio
async def test_the_manifest_is_found_beside_the_source(tmp_path: Path, manifest: dict[str, Any]) -> None:
    (tmp_path / "tool.wat").write_text(MINIMAL_WAT)
    (tmp_path / "tool.manifest.json").write_text(json.dumps(manifest))
    artifact = await build(tmp_path / "tool.wat")
    payload = wasm.custom(artifact.wasm, MANIFEST_SECTION)
    assert payload is not None
    assert Manifest.decode(payload).tools[0].name == "nothing"


@pytest.mark.anyio
@pytest.mark.parametrize("as_path", [True, False])
async def test_a_missing_manifest_is_an_error_that_says_how_to_give_one(tmp_path: Path, as_path: bool) -> None:
    (tmp_path / "tool.wat").write_text(MINIMAL_WAT)
    with pytest.raises(BuildError) as caught:
        await build(tmp_path / "tool.wat" if as_path else MINIMAL_WAT, language="wat")
    assert caught.value.reason == "manifest_missing"
    assert "STEM.manifest.json" in caught.value.hint


@pytest.mark.anyio
async def test_a_manifest_that_is_none_is_refused_with_its_fault(manifest: dict[str, Any]) -> None:
    manifest["tools"][0]["surprise"] = 1
    with pytest.raises(ModuleRejected) as caught:
        await build(MINIMAL_WAT, language="wat", manifest=manifest)
    assert caught.value.reason == "manifest_invalid"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("source", "language"),
    [("tool.wat", None), (Path("tool.cob"), None), (Path("tool"), None), ("int x;", "cobol"), ("x", "\x1b[31m")],
)
async def test_an_unknown_language_is_refused_and_the_known_ones_are_named(
    source: str | Path, language: str | None, manifest: dict[str, Any]
) -> None:
    with pytest.raises(BuildError) as caught:
        await build(source, language=language, manifest=manifest)
    assert caught.value.reason == "language_unknown"
    assert "wat (.wat)" in caught.value.hint
    assert "\x1b" not in str(caught.value)


@pytest.mark.anyio
async def test_text_never_names_a_file(tmp_path: Path, manifest: dict[str, Any]) -> None:
    """A str is text even where a file of that name exists: a model's text must not make the host read a file."""
    (tmp_path / "tool.wat").write_text(MINIMAL_WAT)
    with pytest.raises(BuildError) as caught:
        await build(str(tmp_path / "tool.wat"), language="wat", manifest=manifest)
    assert caught.value.reason == "build_failed"


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["missing", "link", "pipe"])
async def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str, manifest: dict[str, Any]) -> None:
    path = tmp_path / "tool.wat"
    if kind == "link":
        (tmp_path / "secret").write_text(MINIMAL_WAT)
        path.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(BuildError) as caught:
        await build(path, manifest=manifest)
    assert caught.value.reason == "source_unreadable"
    assert caught.value.diagnostics[0].file == "tool.wat"


@pytest.mark.anyio
@pytest.mark.parametrize("source", [b"\xff\xfe", b"(module)\x00", "(module \udc80)"])
async def test_a_source_that_is_no_text_is_refused(source: str | bytes, manifest: dict[str, Any]) -> None:
    with pytest.raises(BuildError) as caught:
        await build(source, language="wat", manifest=manifest)
    assert caught.value.reason == "source_unreadable"


@pytest.mark.anyio
@pytest.mark.parametrize("as_path", [True, False])
async def test_a_source_over_its_bound_is_refused(tmp_path: Path, as_path: bool, manifest: dict[str, Any]) -> None:
    path = tmp_path / "tool.wat"
    path.write_text(MINIMAL_WAT)
    limits = BuildLimits(source_bytes=len(MINIMAL_WAT) - 1)
    with pytest.raises(BuildError) as caught:
        await build(path if as_path else MINIMAL_WAT, language="wat", manifest=manifest, limits=limits)
    assert caught.value.reason == "source_too_large"


@pytest.mark.anyio
async def test_a_module_that_no_host_lets_in_is_refused_at_once(manifest: dict[str, Any]) -> None:
    foreign = MINIMAL_WAT.replace("(module", '(module (import "env" "system" (func (param i32)))', 1)
    with pytest.raises(ModuleRejected):
        await build(foreign, language="wat", manifest=manifest)


@pytest.mark.anyio
async def test_a_module_with_a_wrong_type_is_refused_at_once_in_one_line(manifest: dict[str, Any]) -> None:
    wrong = MINIMAL_WAT.replace("i32.const 1024", "i64.const 1024")
    with pytest.raises(ModuleRejected) as caught:
        await build(wrong, language="wat", manifest=manifest)
    assert caught.value.reason == "invalid"
    assert caught.value.detail == "type mismatch: expected i32, found i64, in function 0 (rho_alloc)"


@pytest.mark.anyio
async def test_a_host_with_lower_limits_refuses_more(manifest: dict[str, Any]) -> None:
    with pytest.raises(ModuleRejected):
        await build(MINIMAL_WAT, language="wat", manifest=manifest, host_limits=HostLimits(functions=1))


@pytest.mark.anyio
async def test_a_temporary_folder_that_cannot_be_had_is_a_build_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, manifest: dict[str, Any]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(BuildError) as caught:
        await build("int x;", language="c", manifest=manifest, trusted=True)
    assert caught.value.reason == "build_unavailable"
    assert str(tmp_path) not in str(caught.value)


_STARTING = """(module (memory (export "memory") 1) (global $ran (mut i32) (i32.const 0))
  (data (i32.const 16) "\\\\a1\\\\62ok\\\\00")
  (func (export "_initialize") {start})
  (func (export "rho_alloc") (param i32) (result i32) i32.const 1024)
  (func (export "rho_call") (param i32 i32) (result i64)
    (i32.store8 (i32.const 20) (global.get $ran)) (i64.const 0x1000000005)))"""


async def test_what_a_guest_does_at_its_start_may_be_done_once_and_for_all(manifest: dict[str, Any]) -> None:
    source = _STARTING.format(start="(global.set $ran (i32.const 7))")
    artifact = await build(source, language="wat", manifest=manifest, snapshot=True)
    module = read_module(artifact.wasm)
    assert "_initialize" not in [each.name for each in module.exports]
    assert module.globals[0].initial == b"\x41\x07\x0b"
    assert artifact.source == source
    plain = await build(source, language="wat", manifest=manifest)
    assert "_initialize" in [each.name for each in read_module(plain.wasm).exports]


async def test_a_start_that_fails_fails_the_build(manifest: dict[str, Any]) -> None:
    with pytest.raises(BuildError) as failed:
        await build(_STARTING.format(start="unreachable"), language="wat", manifest=manifest, snapshot=True)
    assert failed.value.reason == "snapshot_failed"
    assert "_initialize ended in trapped" in str(failed.value)
