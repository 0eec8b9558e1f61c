"""A guest that declares itself is asked once, inside the sandbox, and its answer is read as a stranger's."""

from __future__ import annotations

from typing import Any

import pytest
import wasmtime

from rho_wasm import plain
from rho_wasm.errors import BuildError, ModuleRejected
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import Manifest
from rho_wasm.toolchains import build
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.declared import declared_manifest, read_declaration, without_declaration

_TOOL = {"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}
_AT = 4096


@pytest.fixture
def anyio_backend() -> str:
    """One: each test starts a compiler, and what it waits for is tested with both elsewhere (tests/sandbox)."""
    return "trio"


def _text(data: bytes, *, body: str | None = None, more: str = "") -> str:
    """WebAssembly text of a guest whose declaration is ``data``."""
    escaped = "".join(f"\\{byte:02x}" for byte in data)
    return f"""(module
      (memory (export "memory") 3)
      (data (i32.const {_AT}) "{escaped}")
      (func (export "rho_alloc") (param i32) (result i32) (i32.const 1024))
      (func (export "rho_call") (param i32 i32) (result i64) (i64.const 0))
      {more}
      (func (export "rho_manifest") (result i64) {body or f"(i64.const {_AT << 32 | len(data)})"}))"""


def _wasm(data: bytes = b"", *, body: str | None = None, more: str = "") -> bytes:
    return bytes(wasmtime.wat2wasm(_text(data, body=body, more=more)))


async def _declared(wasm: bytes, *, limits: HostLimits | None = None) -> tuple[bytes, Manifest | None]:
    return await declared_manifest(wasm, language="wat", file="t.wat", limits=limits or HostLimits())


def _read(data: bytes) -> Manifest:
    return read_declaration(data, language="wat", file="t.wat", limits=HostLimits())


def _unreadable(data: bytes) -> str:
    with pytest.raises(BuildError) as refused:
        _read(data)
    assert refused.value.reason == "bad_manifest"
    return str(refused.value)


async def _refused(wasm: bytes, *, limits: HostLimits | None = None) -> str:
    with pytest.raises(BuildError) as refused:
        await _declared(wasm, limits=limits)
    assert refused.value.reason == "bad_manifest"
    assert refused.value.diagnostics[0].file == "t.wat"
    assert len(str(refused.value)) < 5_000
    return str(refused.value)


async def test_what_a_guest_declares_is_its_manifest_and_the_export_is_gone() -> None:
    declared = {"tools": [_TOOL], "capabilities": ["clock.now"], "extensions": {"a": [1.5, b"\0", None]}}
    wasm, manifest = await _declared(_wasm(plain.encode(declared)))
    assert manifest is not None
    assert [tool.name for tool in manifest.tools] == ["t"]
    assert (manifest.language, manifest.capabilities) == ("wat", ("clock.now",))
    assert [each.name for each in read_module(wasm).exports] == ["memory", "rho_alloc", "rho_call"]


async def test_the_language_that_a_guest_says_it_is_in_is_kept() -> None:
    _, manifest = await _declared(_wasm(plain.encode({"abi": 1, "language": "by hand", "tools": [_TOOL]})))
    assert manifest is not None
    assert manifest.language == "by hand"


async def test_it_is_asked_after_initialize_and_its_memory_is_not_kept() -> None:
    data = plain.encode({"tools": [_TOOL]})
    length = f"""(i64.or (i64.const {_AT << 32}) (global.get $length))"""
    start = f"""(global $length (mut i64) (i64.const 0))
      (func (export "_initialize") (global.set $length (i64.const {len(data)})))"""
    given = _wasm(data, body=f"(i32.store (i32.const 64) (i32.const 7)) {length}", more=start)
    wasm, manifest = await _declared(given)
    assert manifest is not None
    assert read_module(wasm).data == read_module(given).data


async def test_a_guest_that_declares_nothing_is_left_as_it_is() -> None:
    wasm = bytes(wasmtime.wat2wasm('(module (memory (export "memory") 1) (data (i32.const 0) "rho_manifest"))'))
    assert await _declared(wasm) == (wasm, None)
    assert without_declaration(wasm) == wasm


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("(loop (br 0)) (i64.const 0)", "ended in out_of_fuel"),
        ("(i64.const 0xffffffff00000002)", "outside the guest's memory"),
        ("(i64.const 0x000000ff_00010001)", "65537 bytes, of 65536"),
        ("(call $exit (i32.const 3)) (i64.const 0)", "ended the guest with status 3"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                ("unreachable", "ended in trapped"),
                ("(drop (i32.load (i32.const -4))) (i64.const 0)", "ended in trapped"),
                ("(call $deep (i32.const 0)) (i64.const 0)", "the guest recurses too deeply"),
                ("(i64.const 0)", "answered nothing"),
                ("(i64.const 0x0003000000000001)", "outside the guest's memory"),
                ("(i64.const 0x00000000_ffffffff)", "4294967295 bytes, of 65536"),
                ("(i64.const 0x0000100000000001)", "not plain CBOR"),
                ("(i64.extend_i32_u (call $ask (i32.const 0) (i32.const 0)))", "not plain CBOR"),
            )
        ),
    ],
)
async def test_a_declaration_that_goes_wrong_says_how(body: str, said: str) -> None:
    more = "(func $deep (param i32) (call $deep (local.get 0)) (call $deep (local.get 0)))"
    text = _text(b"\xff", body=body, more=more).replace(
        "(module",
        """(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (import "rho" "host_call" (func $ask (param i32 i32) (result i32)))""",
        1,
    )
    message = await _refused(bytes(wasmtime.wat2wasm(text)), limits=HostLimits(call=Limits(fuel=2_000_000)))
    assert said in message


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ([], "is no map"),
        ({}, "tools: "),
        ({"tools": []}, "tools: "),
        ({"tools": [_TOOL, _TOOL]}, "two tools are named t"),
        ({"tools": [_TOOL | {"name": "no name"}]}, "tools[0].name: "),
        ({"tools": [_TOOL | {"input_schema": {"type": "nonsense"}}]}, "tools[0].input_schema: "),
        ({"tools": [_TOOL | {"manual": True}]}, "tools[0]: a guest's tool cannot be manual"),
        ({"tools": [_TOOL | {"surprise": 1}]}, "tools[0].surprise: is no key of a manifest"),
        ({"tools": [_TOOL | {"description": "a\u202eb"}]}, "tools[0].description: "),
        ({"tools": [_TOOL | {"description": "d" * 5_000}]}, "description of t is too long (limit 4096, found 5000)"),
        ({"tools": [_TOOL], "abi": 2}, "ABI version 2"),
        ({"tools": [_TOOL], "engine": bytes(32)}, "engine: "),
        ({"tools": [_TOOL], "requires": ["\x1b[2Jthreads"]}, "\\x1b[2Jthreads"),
    ],
)
def test_a_manifest_that_is_none_is_refused_with_its_path(declared: Any, said: str) -> None:
    message = _unreadable(plain.encode(declared))
    assert said in message
    assert "\x1b" not in message


def test_a_manifest_of_the_largest_size_is_read_and_one_byte_more_is_not() -> None:
    whole = {"abi": 1, "language": "wat", "tools": [_TOOL], "extensions": {"x": b""}}
    room = 65_536 - len(plain.encode(whole)) - 2
    largest = plain.encode(whole | {"extensions": {"x": b"x" * room}})
    assert len(_read(largest).encode()) == 65_536
    assert "too large" in _unreadable(plain.encode(whole | {"extensions": {"x": b"x" * (room + 1)}}))
    # What is left out has to fit too.
    assert "too large" in _unreadable(plain.encode({"tools": [_TOOL], "extensions": {"x": b"x" * (room + 8)}}))


@pytest.mark.parametrize(
    ("export", "said"),
    [
        ('(func (export "rho_manifest") (param i32) (result i64) (i64.const 0))', "must have the type () -> (i64)"),
        ('(func (export "rho_manifest") (result i32) (i32.const 0))', "must have the type () -> (i64)"),
        ('(func (export "rho_manifest"))', "must have the type () -> (i64)"),
        ('(global (export "rho_manifest") i64 (i64.const 0))', "is no function"),
        (
            '(func (export "rho_manifest") (result i64) (i64.const 0)) (func (export "_initialize") (param i32))',
            "_initialize must have the type () -> ()",
        ),
    ],
)
async def test_an_export_of_another_type_is_not_called(export: str, said: str) -> None:
    wasm = bytes(wasmtime.wat2wasm(f'(module (memory (export "memory") 1) {export})'))
    assert said in await _refused(wasm)


async def test_what_a_runtime_wrote_before_it_gave_up_is_told_bounded_and_inert() -> None:
    said = "panic: no such tool\\1b[31m\\n" + "z" * 5_000 + "\\n"
    text = f"""(module
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 16) "\\40\\00\\00\\00\\9e\\13\\00\\00")  ;; 5022 bytes at 64
      (data (i32.const 64) "{said}")
      (func (export "rho_manifest") (result i64)
        (drop (call $write (i32.const 2) (i32.const 16) (i32.const 1) (i32.const 32))) unreachable))"""
    message = await _refused(bytes(wasmtime.wat2wasm(text)))
    assert "note: panic: no such tool\\x1b[31m" in message
    assert "z" * 400 not in message


async def test_an_import_that_no_guest_is_given_is_named_before_anything_runs() -> None:
    text = _text(b"\xa0", body="unreachable").replace("(module", '(module (import "env" "system" (func))', 1)
    with pytest.raises(ModuleRejected) as refused:
        await _declared(bytes(wasmtime.wat2wasm(text)))
    assert (refused.value.reason, refused.value.name) == ("import_forbidden", "env.system")


async def test_a_module_without_a_memory_has_no_declaration_to_read() -> None:
    with pytest.raises(ModuleRejected) as refused:
        await _declared(bytes(wasmtime.wat2wasm('(module (func (export "rho_manifest") (result i64) (i64.const 0)))')))
    assert refused.value.reason == "export_missing"


async def test_a_manifest_that_is_given_holds_over_the_declared_one_which_is_not_asked(
    manifest: dict[str, Any],
) -> None:
    artifact = await build(_text(b"", body="unreachable"), language="wat", manifest=manifest)
    assert artifact.tools == ("nothing",)
    assert "rho_manifest" not in [each.name for each in read_module(artifact.wasm).exports]


async def test_a_source_that_declares_itself_needs_no_manifest_beside_it() -> None:
    artifact = await build(_text(plain.encode({"tools": [_TOOL]})), language="wat")
    assert artifact.tools == ("t",)
    assert artifact.manifest.language == "wat"
