"""Calls of one tool wait in line for one another, and for nobody else."""

from __future__ import annotations

import anyio
import pytest

from rho_wasm.server.lanes import Lanes

pytestmark = pytest.mark.anyio


async def test_a_tools_calls_take_turns_and_another_tools_do_not_wait_for_them() -> None:
    lanes = Lanes(per_tool=2)
    order: list[int] = []
    let_go = anyio.Event()

    async def take(number: int) -> None:
        async with lanes.turn("slow"):
            order.append(number)
            await let_go.wait()

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(take, number)
            await anyio.wait_all_tasks_blocked()
        assert order == [0, 1]
        async with lanes.turn("quick"):
            let_go.set()
    # Those who were let in together begin in any order: trio shuffles them.
    assert (order[:2], sorted(order[2:])) == ([0, 1], [2, 3])
    assert lanes.open == 0


async def test_who_stops_waiting_keeps_nobody_waiting() -> None:
    lanes = Lanes(per_tool=1)
    async with lanes.turn("t"):
        with anyio.move_on_after(0.01) as scope:
            async with lanes.turn("t"):
                raise AssertionError
        assert scope.cancelled_caught
    with anyio.fail_after(60):
        async with lanes.turn("t"):
            assert lanes.open == 1
