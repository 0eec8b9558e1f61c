"""A guest that has an engine's code in it: held to the bounds of engines where the engine is known, else to its own."""

from __future__ import annotations

from typing import Any

import pytest
import wasmtime

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import KIB, HostLimits, Limits
from rho_wasm.manifest import embed
from rho_wasm.results import Ok
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.abi import ENGINE_EXTENSION
from rho_wasm.sandbox.admission_engine import claimed_engine
from rho_wasm.wasm import CUSTOM, encode_name, encode_section
from tests.fixture_build import FIXTURES
from tests.sandbox.guests import called
from tests.sandbox.toy_engine import MANIFEST, find, toy

pytestmark = pytest.mark.anyio

FEW_FUNCTIONS = HostLimits(functions=2)


def standalone(*, code: str = "i32.const 16000", engine: Any = None, more: str = "") -> bytes:
    """The toy engine with the source ``-r`` in it, which recurses deeper than the stack of guests is."""
    text = (FIXTURES / "engines" / "toy.wat").read_text(encoding="utf-8")
    for name in ("rho_load", "rho:global:0", "rho:global:1"):
        text = text.replace(f'(export "{name}")', "")
    text = text.replace("i32.const 16000", code).replace(
        "(memory (", f'(data (i32.const 65532) "\\02\\00\\00\\00-r") {more} (memory ('
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
    [
        standalone(code="i32.const 16001"),
        standalone(more="(global i32 (i32.const 1))"),
        standalone(more="(type (func (param f64)))"),
        standalone(more="(table 1 funcref)"),
        standalone(engine="text"),
        standalone(engine=b""),
        standalone(engine=toy().sha256 + b"1"),
        standalone(engine=b"1" * 60_000),
    ],
    ids=["code", "global", "type", "table", "text", "empty", "longer", "long"],
)
async def test_who_only_says_so_is_held_to_the_bounds_of_guests(
    anyio_backend: str, shared_cache: NativeCache, claim: bytes
) -> None:
    async with Sandbox(cache=shared_cache, engines=find, limits=FEW_FUNCTIONS) as sandbox:
        with pytest.raises(ModuleRejected) as refused:
            await sandbox.load(claim)
    assert refused.value.reason == "functions"
    async with Sandbox(cache=shared_cache, engines=find) as sandbox:
        assert (await called(sandbox, claim)).reason == "trapped"


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ({"data_segments": 3}, "data_segments"),
        ({"exports": 2}, "exports"),
        ({"custom_sections": 2}, "custom_sections"),
        ({"module_bytes": 1, "image_bytes": 64 * KIB}, "too_large"),
    ],
)
async def test_what_is_not_its_engines_is_held_to_the_bounds_of_guests(
    anyio_backend: str, shared_cache: NativeCache, bounds: dict[str, int], reason: str
) -> None:
    """100,000 data segments took 129 s and 2.9 GB to load."""
    wasm = standalone() + encode_section(CUSTOM, encode_name("x") + bytes(64 * KIB))
    async with Sandbox(cache=shared_cache, engines=find, limits=HostLimits(functions=2, **bounds)) as sandbox:
        with pytest.raises(ModuleRejected) as refused:
            await sandbox.load(wasm)
    assert refused.value.reason == reason
    enough = {name: bound + 1 for name, bound in bounds.items() if name != "module_bytes"}
    enough |= {"module_bytes": 1, "image_bytes": 66 * KIB}
    async with Sandbox(cache=shared_cache, engines=find, limits=HostLimits(functions=2, **enough)) as sandbox:
        (await sandbox.load(wasm)).close()


async def test_an_engine_is_missed_only_where_it_would_help(anyio_backend: str, shared_cache: NativeCache) -> None:
    many = HostLimits(functions=2, data_segments=2)
    async with Sandbox(cache=shared_cache, limits=many) as sandbox:
        with pytest.raises(ModuleRejected) as refused:
            await sandbox.load(standalone())
    assert refused.value.reason == "data_segments"
    async with Sandbox(cache=shared_cache, limits=FEW_FUNCTIONS) as sandbox:
        with pytest.raises(ModuleRejected, match="that the module needs is not installed") as missing:
            await sandbox.load(standalone())
    assert (missing.value.reason, missing.value.name) == ("engine_missing", toy().sha256.hex())


async def test_a_module_says_whether_its_engine_was_found_in_it(anyio_backend: str, shared_cache: NativeCache) -> None:
    for finder, found in ((find, True), (None, False)):
        async with Sandbox(cache=shared_cache, engines=finder) as sandbox:
            with await sandbox.load(standalone()) as module:
                assert module.standalone is found


def test_only_the_manifest_can_claim_an_engine() -> None:
    claim = standalone()
    limits = HostLimits()
    assert claimed_engine(claim, limits=limits) == toy().sha256
    assert claimed_engine(claim, limits=HostLimits(manifest_bytes=40)) is None
    elsewhere = embed(bytes(wasmtime.wat2wasm("(module)")), MANIFEST)
    text = encode_section(CUSTOM, encode_name("x") + ENGINE_EXTENSION.encode() + toy().sha256)
    assert claimed_engine(elsewhere + text, limits=limits) is None
    assert claimed_engine(b"no module", limits=limits) is None
