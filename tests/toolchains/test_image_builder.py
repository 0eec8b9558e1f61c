"""A source in an interpreted language becomes an image, by an engine that is made at the first need and kept warm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError, Closed
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.toolchains import EngineShelf, ImageBuilder
from rho_wasm.toolchains.engines import EngineSpec
from rho_wasm.toolchains.engines.spec import Prepared
from rho_wasm.toolchains.limits import BuildLimits
from tests.toolchains.engines.toy import install_toy, toy_spec

pytestmark = pytest.mark.anyio


def _limits(source: str) -> HostLimits:
    """A short time for what never ends alone: a busy machine is late with what ends by something else."""
    deadline_ms = 300 if source == "l-" else 60_000
    return HostLimits(engine_call=Limits(deadline_ms=deadline_ms, memory_bytes=32 * 1024 * 1024))


@pytest.fixture
def shelf(tmp_path: Path, shared_cache: NativeCache, monkeypatch: pytest.MonkeyPatch) -> EngineShelf:
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    install_toy(tmp_path / "site")
    return EngineShelf(tmp_path / "engines", tmp_path / "key" / "host.key", cache=shared_cache)


def _builder(shelf: EngineShelf, **options: Any) -> ImageBuilder:
    spec: EngineSpec = toy_spec(languages=("python",))
    return ImageBuilder(shelf=shelf, specs=[options.pop("spec", spec)], **options)


def _file(tmp_path: Path, text: str) -> Path:
    # What the toy engine reads of a request is where it is for a name of one letter.
    path = tmp_path / "t"
    path.write_text(text)
    return path


async def test_an_image_is_built_and_answers(shelf: EngineShelf, tmp_path: Path) -> None:
    stages: list[str] = []
    async with _builder(shelf, progress=lambda stage, _: stages.append(stage)) as builder:
        artifact = await builder.build(_file(tmp_path, "--hello"), language="python")
        assert stages[-1] == "ready"
        stages.clear()
        again = await builder.build(_file(tmp_path, "--hello"), language="python")
    assert stages == []
    assert artifact.wasm == again.wasm
    assert (artifact.source, artifact.language, artifact.provenance) == ("--hello", "python", "built here")
    assert artifact.toolchain == "toy (revision 1, toy-engine 1.0)"
    assert artifact.manifest.language == "python"
    assert artifact.manifest.extensions == {"rho_wasm.file": "t"}
    assert artifact.manifest.engine is not None
    async with Sandbox(cache=shelf.cache, engines=shelf.find) as sandbox:
        with await sandbox.load(artifact.wasm) as module:
            result = await sandbox.call(
                module, tool="t", arguments={}, context={}, limits=Limits(), meter=CallMeter(CallClock(9_000))
            )
    assert isinstance(result, Ok)
    assert result.value == ["--hello", 1, 1]


async def test_a_sandbox_may_be_lent(shelf: EngineShelf, tmp_path: Path) -> None:
    async with Sandbox(cache=shelf.cache) as sandbox:
        async with _builder(shelf, sandbox=sandbox) as builder:
            await builder.build(_file(tmp_path, "--"), language="python")
        assert (await builder_closed(builder, tmp_path)).reason == "closed"
        async with _builder(shelf, sandbox=sandbox) as builder:
            await builder.build(_file(tmp_path, "--"), language="python")


async def builder_closed(builder: ImageBuilder, tmp_path: Path) -> Closed:
    with pytest.raises(Closed) as closed:
        await builder.build(_file(tmp_path, "--"), language="python")
    return closed.value


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("e-", "build_failed"),
        ("l-", "build_timeout"),
        ("t-", "build_failed"),
        ("m-", "build_memory"),
        ("h-", "bad_reply"),
        ("c-", "build_failed"),
        ("f-", "image_too_large"),
    ],
)
async def test_a_source_that_cannot_be_loaded_says_why(
    shelf: EngineShelf, tmp_path: Path, source: str, reason: str
) -> None:
    async with _builder(shelf, host_limits=_limits(source)) as builder:
        with pytest.raises(BuildError) as failed:
            await builder.build(_file(tmp_path, source), language="python")
    assert failed.value.reason == reason
    if source == "e-":
        [diagnostic] = failed.value.diagnostics
        assert (diagnostic.file, diagnostic.line, diagnostic.message) == ("t", 3, "no")
    assert str(failed.value).startswith("python: t:"), "it names what was built, not the engine"


async def test_a_source_is_bounded_and_is_text(shelf: EngineShelf) -> None:
    async with _builder(shelf, limits=BuildLimits(source_bytes=10)) as builder:
        for source, reason in (("x" * 11, "source_too_large"), (b"\xff", "source_unreadable")):
            with pytest.raises(BuildError) as refused:
                await builder.build(source, language="python")
            assert refused.value.reason == reason


async def test_a_manifest_beside_the_source_must_say_the_same(shelf: EngineShelf, tmp_path: Path) -> None:
    async with _builder(shelf) as builder:
        built = await builder.build(_file(tmp_path, "--"), language="python")
        # What a host does to see whether a claimed artifact is what its source makes.
        again = await builder.build("--", language="python", manifest=built.manifest)
        assert again.wasm == built.wasm
        other = {"tools": [{"name": "other", "description": "Another.", "input_schema": {"type": "object"}}]}
        with pytest.raises(BuildError) as refused:
            await builder.build(_file(tmp_path, "--"), language="python", manifest=other)
    assert refused.value.reason == "manifest_differs"


async def test_a_byte_order_mark_is_no_part_of_a_source(shelf: EngineShelf, tmp_path: Path) -> None:
    async with _builder(shelf) as builder:
        plain = await builder.build("--x", language="python")
        for marked in ("\ufeff--x", b"\xef\xbb\xbf--x"):
            built = await builder.build(marked, language="python")
            assert (built.wasm, built.source) == (plain.wasm, "--x")


async def test_a_source_may_be_prepared_first(shelf: EngineShelf, tmp_path: Path) -> None:
    async def prepare(source: str, file: str, language: str) -> Prepared:
        assert (file, language) == ("t", "python")
        return Prepared(source.replace(":int", ""), file)

    spec = toy_spec(languages=("python",), prepare=prepare)
    async with _builder(shelf, spec=spec) as builder:
        artifact: Artifact = await builder.build(_file(tmp_path, "--x:int"), language="python")
    assert artifact.source == "--x:int"
    assert b"--x" in artifact.wasm
    assert b"--x:int" not in artifact.wasm
