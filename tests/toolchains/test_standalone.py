"""An engine and an image joined are one guest: it answers what the image answers, on a host that has no engine."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import pytest

from rho_wasm import plain, wasm
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError, ModuleRejected
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.abi import ENGINE_EXTENSION
from rho_wasm.sandbox.admission_engine import is_standalone_of
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.toolchains import build
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.interpreted import image_of
from rho_wasm.toolchains.standalone import standalone
from tests.toolchains.conftest import MINIMAL_WAT
from tests.toolchains.engines.toy import TOY_WASM

pytestmark = pytest.mark.anyio

_ENGINE = EngineBinary(sha256=hashlib.sha256(TOY_WASM).digest(), wasm=TOY_WASM, name="toy")


@pytest.fixture
async def sandbox(anyio_backend: str, shared_cache: NativeCache) -> AsyncIterator[Sandbox]:
    async with Sandbox(cache=shared_cache, way="public") as opened:
        yield opened


async def _image(sandbox: Sandbox, source: str) -> bytes:
    made = await image_of(sandbox, _ENGINE, source, file="t", language="python", limits=HostLimits())
    return made.wasm


@pytest.mark.parametrize("source", ["--hello", "g-grown", "-g"])
async def test_it_answers_on_a_host_without_engines(sandbox: Sandbox, source: str) -> None:
    joined = standalone(await _image(sandbox, source), TOY_WASM)
    with await sandbox.load(joined) as module:
        result = await sandbox.call(
            module, tool="t", arguments={}, context={}, limits=Limits(), meter=CallMeter(CallClock(9_000))
        )
    assert isinstance(result, Ok)
    assert result.value == [source, 1, 1]


async def test_it_is_a_plain_guest_that_says_which_engine_is_in_it(sandbox: Sandbox) -> None:
    image = await _image(sandbox, "--")
    joined = standalone(image, TOY_WASM)
    assert joined == standalone(image, TOY_WASM)
    artifact = Artifact.from_wasm(joined)
    assert artifact.manifest.engine is None
    assert artifact.manifest.extensions == {ENGINE_EXTENSION: _ENGINE.sha256}
    assert [each.name for each in read_module(joined).exports] == ["memory", "rho_alloc", "rho_call"]
    same = {1, 3, 10}
    sections = [
        [data[section.start : section.end] for section in wasm.sections(data) if section.id in same]
        for data in (joined, TOY_WASM)
    ]
    assert sections[0] == sections[1]
    assert is_standalone_of(joined, _ENGINE)


async def test_another_engine_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(ModuleRejected) as refused:
        standalone(await _image(sandbox, "--"), TOY_WASM + wasm.encode_section(0, b"\1x"))
    assert refused.value.reason == "engine_hash"


async def test_only_what_is_interpreted_can_be_joined() -> None:
    with pytest.raises(BuildError) as refused:
        await build(MINIMAL_WAT, language="wat", standalone=True)
    assert refused.value.reason == "standalone_already"


def test_an_artifact_may_be_large_only_if_it_says_that_an_engine_is_in_it() -> None:
    tools = [{"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}]
    large = wasm.HEADER + wasm.encode_section(0, wasm.encode_name("padding") + bytes(17 * 1024 * 1024))
    with_engine = {"abi": 1, "tools": tools, "extensions": {ENGINE_EXTENSION: bytes(32)}}
    assert Artifact.from_wasm(wasm.with_custom(large, "rho.manifest", plain.encode(with_engine))).tools == ("t",)
    with pytest.raises(ModuleRejected) as refused:
        Artifact.from_wasm(wasm.with_custom(large, "rho.manifest", plain.encode({"abi": 1, "tools": tools})))
    assert refused.value.reason == "module_bytes"
