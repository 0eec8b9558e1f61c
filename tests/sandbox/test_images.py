"""Calls of images: in a clean engine each time, within the limits of engines, whatever the image is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.errors import CapabilityError, ModuleRejected
from rho_wasm.limits import MIB, HostLimits, Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.sandbox.ways import Way
from tests.sandbox.guests import Ended, Granting, answering, called
from tests.sandbox.toy_engine import MANIFEST, engine, find, image, image_of, load, raw_image, segment, toy

pytestmark = pytest.mark.anyio

LIMITS = Limits.for_engines().lowest({"fuel": 50_000_000})
FEW_FUEL = Limits.for_engines().lowest({"fuel": 1_000_000})


async def outcome(sandbox: Sandbox, source: str, *, limits: Limits = LIMITS, **options: Any) -> Ended:
    return await called(sandbox, await image(sandbox, source), limits=limits, **options)


def value(ended: Ended) -> Any:
    assert isinstance(ended.result, Ok), ended.error
    return ended.result.value


async def test_a_call_finds_the_source_that_was_loaded_in_an_engine_that_was_never_called(sandbox: Sandbox) -> None:
    first, second = await image(sandbox, "--first"), await image(sandbox, "--second")
    for wasm, source in ((first, "--first"), (second, "--second"), (first, "--first"), (first, "--first")):
        assert value(await called(sandbox, wasm, limits=LIMITS)) == [source, 1, 1]


async def test_calls_of_many_images_at_once_share_one_engine_and_nothing_else(sandbox: Sandbox) -> None:
    sources = [f"--{number}" for number in range(6)]
    images = [await image(sandbox, source) for source in sources]
    ended: list[Any] = []

    async def call(wasm: bytes) -> None:
        ended.append(value(await called(sandbox, wasm, limits=LIMITS)))

    async with anyio.create_task_group() as tasks:
        for wasm in images * 3:
            tasks.start_soon(call, wasm)
    assert sorted(ended) == sorted([source, 1, 1] for source in sources * 3)
    assert sandbox.statistics().engines == 1


async def test_an_image_is_a_module_like_any_other(sandbox: Sandbox) -> None:
    wasm = await image(sandbox, "--")
    with await sandbox.load(wasm) as module, await sandbox.load(wasm) as again:
        assert module.sha256 == again.sha256 == hashlib.sha256(wasm).hexdigest()
        assert module.manifest.engine == toy().sha256
        assert sandbox.statistics().modules == 1
    assert sandbox.statistics().modules == 0


@pytest.mark.parametrize(
    ("letter", "reason"), [("l", "out_of_fuel"), ("t", "trapped"), ("m", "out_of_memory"), ("r", None)]
)
async def test_what_a_tool_does_ends_as_it_does_in_a_guest(sandbox: Sandbox, letter: str, reason: str | None) -> None:
    """The recursion is deeper than guests may: engines have a stack of 2 MiB."""
    source = f"-{letter}"
    wasm = await image(sandbox, source)
    ended = await called(sandbox, wasm, limits=FEW_FUEL)
    assert ended.reason == reason, ended.error
    assert ended.meter.backtrace == ()
    if reason is None:
        assert value(ended) == [source, 1, 1]
    assert value(await outcome(sandbox, "--after")) == ["--after", 1, 1]


async def test_a_loop_ends_at_the_deadline(sandbox: Sandbox) -> None:
    limits = Limits.for_engines().lowest({"deadline_ms": 30})
    assert (await outcome(sandbox, "-l", limits=limits)).reason == "deadline"


async def test_memory_that_loading_grew_is_there_again(sandbox: Sandbox) -> None:
    loaded = await load(sandbox, "g-")
    assert loaded.pages == 6
    assert value(await called(sandbox, image_of(loaded), limits=LIMITS)) == ["g-", 1, 1]


async def test_an_image_that_needs_more_memory_than_the_call_has_is_out_of_memory(sandbox: Sandbox) -> None:
    wasm = image_of(await load(sandbox, "g-"))
    ended = await called(sandbox, wasm, limits=LIMITS.lowest({"memory_bytes": 5 * 65_536}))
    assert ended.error is not None
    assert (ended.reason, ended.error.limit) == ("out_of_memory", "memory_bytes")
    assert value(await called(sandbox, wasm, limits=LIMITS.lowest({"memory_bytes": 6 * 65_536}))) == ["g-", 1, 1]


async def test_an_engine_whose_own_memory_is_bounded_is_out_of_memory_too(
    anyio_backend: str, shared_cache: NativeCache, way: Way
) -> None:
    bounded = engine(
        """(module (memory (export "memory") 1 2)
             (func (export "rho_alloc") (param i32) (result i32) i32.const 8)
             (func (export "rho_load") (param i32 i32) (result i64) i64.const 0)
             (func (export "rho_call") (param i32 i32) (result i64) i64.const 0))"""
    )
    manifest = MANIFEST.model_copy(update={"engine": bounded.sha256})
    async with Sandbox(cache=shared_cache, way=way, engines=lambda _: bounded) as sandbox:
        assert (await called(sandbox, raw_image(pages=3, manifest=manifest))).reason == "out_of_memory"


async def test_capabilities_are_answered_inside_a_tool_of_an_image(sandbox: Sandbox) -> None:
    asked: list[str] = []

    def answer(capability: str, arguments: Mapping[str, Any]) -> Any:
        asked.append(capability)
        raise CapabilityError("denied", "not today")

    declared = MANIFEST.model_copy(update={"capabilities": ("x",)})
    wasm = image_of(await load(sandbox, "-h"), declared)
    assert value(await called(sandbox, wasm, limits=LIMITS, capabilities=Granting(answer))) == ["-h", 1, 1]
    assert asked == ["x"]


@pytest.mark.parametrize("content", [b"\xff", b"\x00", bytes(range(1, 256))], ids=["ones", "zeros", "garbage"])
async def test_an_image_over_all_of_its_engines_memory_hurts_only_itself(sandbox: Sandbox, content: bytes) -> None:
    size = 4 * 65_536
    wasm = raw_image([segment(0, (content * size)[:size])])
    for _ in range(2):
        ended = await called(sandbox, wasm, limits=FEW_FUEL)
        assert ended.reason in ("trapped", "bad_answer", "out_of_fuel", None)
        assert value(await outcome(sandbox, "--well")) == ["--well", 1, 1]


async def test_a_large_image_is_copied_in_a_thread(here: Sandbox) -> None:
    """8 MiB take milliseconds to copy, in which an event loop must not stand still."""
    size = 8 * MIB - 4_096
    wasm = raw_image([segment(131_072, b"\0" * size)], pages=132)
    with await here.load(wasm) as module:
        native = module.held()
        assert native.linked.overruns > 1_000  # As if its calls had held the loop's thread that often.
        native.release()
    assert (await called(here, wasm, limits=LIMITS)).reason is None


async def test_a_host_without_the_engine_refuses_the_image_and_takes_it_once_it_is_there(
    anyio_backend: str, shared_cache: NativeCache
) -> None:
    installed: dict[bytes, EngineBinary] = {}
    async with Sandbox(cache=shared_cache, engines=installed.get) as sandbox:
        wasm = raw_image()
        for _ in range(2):
            with pytest.raises(ModuleRejected) as refused:
                await sandbox.load(wasm)
            assert refused.value.reason == "engine_missing"
            assert refused.value.name == toy().sha256.hex()
            assert "rho-wasm engines install" in refused.value.hint
        installed[toy().sha256] = toy()
        (await sandbox.load(wasm)).close()
    async with Sandbox(cache=shared_cache) as sandbox:
        with pytest.raises(ModuleRejected, match="is not installed"):
            await sandbox.load(wasm)


@pytest.mark.parametrize("wrong", ["other", "raises", "bytes"])
async def test_a_shelf_that_answers_something_else_is_not_believed(
    anyio_backend: str, shared_cache: NativeCache, wrong: str
) -> None:
    other = EngineBinary(b"\1" * 32, toy().wasm, "other")

    def finder(sha256: bytes) -> EngineBinary | None:
        if wrong == "raises":
            raise OSError("\x1b[31m a text of anybody's")
        return other if wrong == "other" else EngineBinary(sha256, toy().wasm + b"\0\1\0", "toy")

    async with Sandbox(cache=shared_cache, engines=finder) as sandbox:
        with pytest.raises(ModuleRejected) as refused:
            await sandbox.load(raw_image())
    assert refused.value.reason == ("engine_hash" if wrong == "bytes" else "engine_missing")
    assert "\x1b" not in str(refused.value)


async def test_an_image_stays_in_the_sandbox_that_loaded_it(here: Sandbox, shared_cache: NativeCache) -> None:
    wasm = raw_image()
    async with Sandbox(cache=shared_cache, engines=find) as other:
        with await other.load(wasm), await here.load(wasm) as module:
            meter = CallMeter(CallClock(1_000))
            with pytest.raises(ValueError, match="another sandbox"):
                await other.call(module, tool="t", arguments={}, context={}, limits=LIMITS, meter=meter)


async def test_a_host_without_images_makes_nothing_for_engines(here: Sandbox) -> None:
    assert value(await called(here, answering({"ok": 1}))) == 1
    assert here.statistics().engines == 0


async def test_a_second_process_takes_the_engine_from_the_cache(anyio_backend: str, tmp_path_factory: Any) -> None:
    cache = NativeCache(tmp_path_factory.mktemp("native"), tmp_path_factory.mktemp("key") / "host.key")
    for compiled in (1, 0):
        async with Sandbox(cache=cache, engines=find, limits=HostLimits()) as sandbox:
            assert value(await outcome(sandbox, "--")) == ["--", 1, 1]
            assert sandbox.statistics().compiled == compiled
    (entry,) = cache.folder.glob("*.native")
    native = bytearray(entry.read_bytes())
    native[-1] ^= 1
    entry.write_bytes(native)
    async with Sandbox(cache=cache, engines=find) as sandbox:
        assert value(await outcome(sandbox, "--")) == ["--", 1, 1]
        assert sandbox.statistics().compiled == 1
    assert cache.statistics().rejected == 1
