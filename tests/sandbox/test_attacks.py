"""Modules that are hostile and admitted: compiling them is bounded, and running them costs only themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import Sandbox
from rho_wasm.wasm import encode_u32
from tests.sandbox.guests import MEBIBYTE, Granting, answering, called, guest
from tests.sandbox.module_bytes import I32, Guest, body, function_type


def _with_functions(*bodies: bytes) -> bytes:
    """A guest with functions ``(i32) -> ()`` of these bodies."""
    hostile = Guest()
    hostile.types.append(function_type([I32]))
    for each in bodies:
        hostile.add_function(each, type_index=3)
    return hostile.build()


LOOPS = body(b"\x03\x40\x20\x00\x0d\x00\x0b" * 500)
"""As many loops as one function may have, each with a branch back."""
BRANCH_TABLES = body(
    b"\x02\x40" * 20
    + (b"\x02\x40\x20\x00\x0e" + encode_u32(100) + bytes(range(20)) * 5 + b"\x00\x0b") * 20
    + b"\x0b" * 20
)
LIVE_LOCALS = body(
    b"".join(b"\x20\x00\x21" + encode_u32(n) for n in range(1, 1_000))
    + b"".join(b"\x03\x40\x20" + encode_u32(n) + b"\x0d\x00\x0b" for n in range(1, 500))
    + b"".join(b"\x20" + encode_u32(n) + b"\x1a" for n in range(1, 1_000)),
    [encode_u32(999) + b"\x7f"],
)


@pytest.mark.parametrize(
    "bomb",
    [_with_functions(*[LOOPS] * 60), _with_functions(*[BRANCH_TABLES] * 400), _with_functions(*[LIVE_LOCALS] * 20)],
    ids=["loops", "branch tables", "live locals"],
)
async def test_an_admitted_module_that_is_dear_to_compile_is_given_up_and_costs_nobody_else(bomb: bytes) -> None:
    limits = HostLimits(compile_cpu_ms=120, compile_cpu_ms_per_mib=1)
    async with Sandbox(limits=limits) as sandbox:
        good = await sandbox.load(answering({"ok": 1}))
        with pytest.raises(ModuleRejected) as caught:
            await sandbox.load(bomb)
        assert caught.value.reason == "compile_timeout"
        with pytest.raises(ModuleRejected):
            await sandbox.load(bomb)
        statistics = sandbox.statistics()
        assert (statistics.compiled, statistics.refused) == (1, 2)
        good.close()


@pytest.mark.slow
async def test_the_worst_that_admission_lets_through_stays_within_the_budget() -> None:
    async with Sandbox() as sandbox:
        reasons = set[str]()
        for bomb in (_with_functions(*[LOOPS] * 60), _with_functions(*[LIVE_LOCALS] * 20)):
            try:
                (await sandbox.load(bomb)).close()
            except ModuleRejected as refused:
                reasons.add(refused.reason)
    assert reasons <= {"compile_timeout", "compile_memory"}


async def test_many_data_segments_load_in_bounded_time(sandbox: Sandbox) -> None:
    segments = " ".join(f'(data (i32.const {n}) "x")' for n in range(1_900))
    assert (await called(sandbox, answering({"ok": 1}, extra=segments))).result == Ok(1)


async def test_bulk_operations_cost_fuel_by_the_byte(sandbox: Sandbox) -> None:
    fill = f"(loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const {MEBIBYTE})) (br $l)) unreachable"
    ended = await called(sandbox, guest(fill, memory="16"), limits=Limits(fuel=10 * MEBIBYTE))
    assert ended.reason == "out_of_fuel"


async def test_a_thousand_small_grows_are_cheap(sandbox: Sandbox) -> None:
    grows = """(loop $l (drop (memory.grow (i32.const 1)))
                 (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000))))"""
    ended = await called(sandbox, answering({"ok": 1}, before=grows), limits=Limits(deadline_ms=60_000))
    assert ended.result == Ok(1)
    assert ended.meter.guest_cpu_ms < 2_000


class _Ours(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


async def test_an_exception_of_one_call_never_surfaces_in_another(sandbox: Sandbox) -> None:
    # wasmtime-py keeps it in one global of the process: with 8 threads, 2 % of the calls raised another's.
    ask = b"\xa2\x69arguments\xa0\x6acapability\x65clock"
    segment = '(data (i32.const 0) "\\a2\\69arguments\\a0\\6acapability\\65clock")'
    wasm = guest(
        f"(drop (call $host_call (i32.const 0) (i32.const {len(ask)}))) unreachable",
        extra=segment,
        capabilities=("clock",),
    )
    seen: list[tuple[int, int]] = []

    async def one(number: int) -> None:
        def capabilities(capability: str, arguments: Mapping[str, Any]) -> Any:
            raise _Ours(number)

        for _ in range(15):
            ended = await called(sandbox, wasm, capabilities=Granting(capabilities))
            assert ended.error is not None
            assert isinstance(ended.error.cause, _Ours)
            seen.append((number, ended.error.cause.number))

    with await sandbox.load(wasm):
        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(one, number)
    assert len(seen) == 90
    assert all(mine == raised for mine, raised in seen)
