"""A guest that has an engine's code in it: held to the bounds of engines where the engine is known, else to its own."""

from __future__ import annotations

from typing import Any

import pytest
import wasmtime

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import embed
from rho_wasm.results import Ok
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.abi import ENGINE_EXTENSION
from tests.fixture_build import FIXTURES
from tests.sandbox.guests import called
from tests.sandbox.toy_engine import MANIFEST, find, toy

pytestmark = pytest.mark.anyio

FEW_FUNCTIONS = HostLimits(functions=2)


def standalone(*, code: str = "i32.const 16000", engine: Any = None) -> bytes:
    """The toy engine with the source ``-r`` in it, which recurses deeper than the stack of guests is."""
    text = (FIXTURES / "engines" / "toy.wat").read_text(encoding="utf-8")
    for name in ("rho_load", "rho:global:0", "rho:global:1"):
        text = text.replace(f'(export "{name}")', "")
    text = text.replace("i32.const 16000", code).replace(
        "(memory (", '(data (i32.const 65532) "\\02\\00\\00\\00-r") (memory ('
    )
    extensions = {ENGINE_EXTENSION: toy().sha256 if engine is None else engine}
    return embed(bytes(wasmtime.wat2wasm(text)), MANIFEST.model_copy(update={"extensions": extensions}))


async def test_a_standalone_tool_runs_as_its_engine_does(sandbox: Sandbox) -> None:
    ended = await called(sandbox, standalone(), limits=Limits.for_engines())
    assert isinstance(ended.result, Ok), ended.error
    assert ended.result.value == ["-r", 1, 1]


async def test_where_its_engine_is_not_known_it_is_a_guest_like_any_other(
    anyio_backend: str, shared_cache: NativeCache
) -> None:
    async with Sandbox(cache=shared_cache) as sandbox:
        assert (await called(sandbox, standalone())).reason == "trapped"


async def test_its_code_is_not_held_to_the_bounds_of_guests(anyio_backend: str, shared_cache: NativeCache) -> None:
    async with Sandbox(cache=shared_cache, engines=find, limits=FEW_FUNCTIONS) as sandbox:
        (await sandbox.load(standalone())).close()


async def test_without_its_engine_it_is_told_what_is_missing_and_may_come_again(
    anyio_backend: str, shared_cache: NativeCache
) -> None:
    installed: dict[bytes, Any] = {}
    async with Sandbox(cache=shared_cache, engines=installed.get, limits=FEW_FUNCTIONS) as sandbox:
        with pytest.raises(ModuleRejected, match="engine_missing"):
            await sandbox.load(standalone())
        installed[toy().sha256] = toy()
        (await sandbox.load(standalone())).close()


@pytest.mark.parametrize(
    "claim",
    [standalone(code="i32.const 16001"), standalone(engine="text"), standalone(engine=b"")],
    ids=["code", "text", "empty"],
)
async def test_who_only_says_so_is_held_to_the_bounds_of_guests(
    anyio_backend: str, shared_cache: NativeCache, claim: bytes
) -> None:
    async with Sandbox(cache=shared_cache, engines=find, limits=FEW_FUNCTIONS) as sandbox:
        with pytest.raises(ModuleRejected) as refused:
            await sandbox.load(claim)
    assert refused.value.reason in ("functions", "engine_missing")
    async with Sandbox(cache=shared_cache, engines=find) as sandbox:
        assert (await called(sandbox, claim)).reason == "trapped"
