"""Loading a source into an engine: bounded as a call is, and what it changed is told exactly."""

from __future__ import annotations

import ctypes

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rho_wasm import plain
from rho_wasm.errors import BuildError, Closed, ModuleRejected, ToolError
from rho_wasm.limits import MIB, HostLimits, Limits
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.data_segments import InitialMemory
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.sandbox.loading import changes
from tests.sandbox.toy_engine import engine, load, loading, toy

LIMITS = HostLimits().loading()
PAGE = 65_536


async def failure(sandbox: Sandbox, source: str, limits: Limits | None = None) -> ToolError:
    with pytest.raises(ToolError) as failed:
        await load(sandbox, source, limits=limits or LIMITS.lowest({"fuel": 1_000_000}))
    return failed.value


@pytest.mark.anyio
async def test_the_reply_the_memory_and_what_changed_are_answered(sandbox: Sandbox) -> None:
    loaded = await load(sandbox, "--source")
    assert plain.decode(loaded.reply, max_bytes=1_000)["ok"]["tools"][0]["name"] == "t"
    assert loaded.pages == 4
    # The request, and what rho_load kept of it.
    assert loaded.changes == ((4_096, loading("--source")), (65_532, b"\x08"), (65_536, b"--source"))


@pytest.mark.anyio
async def test_memory_that_grew_is_compared_with_zeros(sandbox: Sandbox) -> None:
    loaded = await load(sandbox, "g-")
    assert loaded.pages == 6
    assert loaded.changes[-1] == (6 * PAGE - 8, b"\xff" * 8)


@pytest.mark.anyio
@pytest.mark.parametrize(("letter", "reason"), [("l", "out_of_fuel"), ("t", "trapped"), ("m", "out_of_memory")])
async def test_a_source_that_loads_badly_fails_as_a_call_would(sandbox: Sandbox, letter: str, reason: str) -> None:
    failed = await failure(sandbox, f"{letter}-")
    assert (failed.reason, failed.tool) == (reason, "toy")
    assert (await load(sandbox, "--")).pages == 4


@pytest.mark.anyio
async def test_a_source_that_loads_for_ever_ends_at_the_deadline(sandbox: Sandbox) -> None:
    assert (await failure(sandbox, "l-", LIMITS.lowest({"deadline_ms": 30}))).reason == "deadline"


@pytest.mark.anyio
async def test_an_engine_may_recurse_deeper_than_a_guest(sandbox: Sandbox) -> None:
    assert (await load(sandbox, "r-")).pages == 4


@pytest.mark.anyio
async def test_a_global_that_is_not_as_it_was_is_a_bad_answer(sandbox: Sandbox) -> None:
    failed = await failure(sandbox, "c-")
    assert failed.reason == "bad_answer"
    assert "rho:global:1" in failed.detail


@pytest.mark.anyio
async def test_host_calls_are_denied_while_a_source_is_loaded(sandbox: Sandbox) -> None:
    assert plain.decode((await load(sandbox, "h-")).reply, max_bytes=1_000)["error"]["kind"] == "denied"


@pytest.mark.anyio
async def test_a_source_that_changes_more_than_an_image_holds_is_a_build_error(sandbox: Sandbox) -> None:
    with pytest.raises(BuildError) as refused:
        await load(sandbox, "f-")
    assert refused.value.reason == "image_too_large"
    assert refused.value.hint


@pytest.mark.anyio
async def test_a_request_over_its_bound_is_refused_before_anything_runs(sandbox: Sandbox) -> None:
    failed = await failure(sandbox, "--", LIMITS.lowest({"request_bytes": 10}))
    assert (failed.reason, failed.limit) == ("invalid_arguments", "request_bytes")


@pytest.mark.anyio
async def test_cancellation_stops_the_engine(here: Sandbox) -> None:
    endless = Limits(fuel=10**15, deadline_ms=60_000, memory_bytes=MIB)
    with anyio.move_on_after(0.05) as scope:
        await here.load_source(toy(), loading("l-"), limits=endless)
    assert scope.cancelled_caught
    assert here.statistics().running == 0


@pytest.mark.anyio
async def test_many_load_at_once_and_the_engine_is_compiled_once(anyio_backend: str) -> None:
    async with Sandbox() as sandbox, anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(load, sandbox, f"--{number}")
    assert sandbox.statistics().compiled == 1


@pytest.mark.anyio
async def test_an_engine_that_is_none_is_refused(anyio_backend: str, shared_cache: NativeCache) -> None:
    async with Sandbox(cache=shared_cache) as sandbox:
        with pytest.raises(ModuleRejected, match="engine_hash"):
            await sandbox.load_source(EngineBinary(b"\0" * 32, toy().wasm, "toy"), b"\xa0")
    with pytest.raises(Closed):
        await sandbox.load_source(toy(), b"\xa0")


@pytest.mark.anyio
async def test_a_reply_outside_the_memory_is_a_bad_answer(anyio_backend: str, shared_cache: NativeCache) -> None:
    liar = engine(
        """(module (memory (export "memory") 1)
             (func (export "rho_alloc") (param i32) (result i32) i32.const 8)
             (func (export "rho_load") (param i32 i32) (result i64) i64.const 0xffffffff00000010)
             (func (export "rho_call") (param i32 i32) (result i64) i64.const 0))"""
    )
    async with Sandbox(cache=shared_cache) as sandbox:
        with pytest.raises(ToolError) as failed:
            await sandbox.load_source(liar, b"\xa0")
    assert failed.value.reason == "bad_answer"


RUN = st.tuples(st.integers(0, 3 * PAGE - 300), st.binary(min_size=1, max_size=300))


@given(st.lists(RUN, max_size=30), st.lists(RUN, max_size=30), st.integers(0, 1))
def test_what_differs_laid_over_what_was_there_is_what_is_there(
    before: list[tuple[int, bytes]], after: list[tuple[int, bytes]], grown: int
) -> None:
    initial = bytearray(3 * PAGE)
    for offset, data in before:
        initial[offset : offset + len(data)] = data
    memory = initial + bytearray(grown * PAGE)
    for offset, data in after:
        memory[offset + grown * PAGE : offset + grown * PAGE + len(data)] = data
    kept = bytes(memory)
    found = list(changes(ctypes.addressof((ctypes.c_char * len(memory)).from_buffer(memory)), len(memory), initial))
    rebuilt = initial + bytearray(grown * PAGE)
    end = 0
    for offset, data in found:
        assert offset >= end
        end = offset + len(data)
        rebuilt[offset:end] = data
    assert rebuilt == kept


def test_memory_changed_in_very_many_places_is_told_page_by_page() -> None:
    size = 64 * MIB // 4
    memory = bytearray(b"\1" + bytes(99)) * (size // 100)
    memory = memory[: len(memory) // PAGE * PAGE]
    found = list(changes(ctypes.addressof((ctypes.c_char * len(memory)).from_buffer(memory)), len(memory), bytearray()))
    assert len(found) < 70_000
    rebuilt = bytearray(len(memory))
    for offset, data in found:
        rebuilt[offset : offset + len(data)] = data
    assert rebuilt == memory


def test_an_engines_first_memory_follows_from_its_data_segments() -> None:
    memory = InitialMemory(toy().wasm)
    whole = memory.whole()
    assert (memory.pages, len(whole)) == (4, 4 * PAGE)
    assert whole[64:69] == b"\xa1\x62ok\xa1"
    for offset, length in ((0, 300), (60, 10), (100, 100), (4 * PAGE - 5, 10)):
        assert memory.read(offset, length) == bytes(whole[offset : offset + length]).ljust(length, b"\0")
