"""Whose turn it is at the bench: a session that is there often keeps nobody else waiting for long."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest
from anyio import lowlevel

from rho_wasm import Failed
from rho_wasm.workshop.places import Places

pytestmark = pytest.mark.anyio


async def test_whoever_finds_no_place_is_sent_away_at_once_and_a_session_has_half_of_what_others_leave() -> None:
    places = Places(at_once=1, waiting=3)
    inside: list[str] = []
    leave = anyio.Event()

    async def stay(session_id: str) -> None:
        async with places.one(session_id):
            inside.append(session_id)
            await leave.wait()

    async with anyio.create_task_group() as group:
        for session_id in ("one", "one", "two"):
            group.start_soon(stay, session_id)
        await anyio.wait_all_tasks_blocked()
        assert len(inside) == 1
        for session_id, own in (("one", 2), ("two", 1)):
            with pytest.raises(Failed, match=f"{own} of them of this session") as refused:
                async with places.one(session_id):
                    pass
            assert refused.value.details["reason"] == "busy"
        group.start_soon(stay, "three")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(Failed, match="4 builds and tests"):
            async with places.one("four"):
                pass
        leave.set()
    assert sorted(inside) == ["one", "one", "three", "two"]
    async with places.one("one"):
        pass


async def test_between_two_steps_another_session_has_its_turn_and_of_the_waiting_the_one_that_runs_least() -> None:
    places = Places(at_once=2, waiting=14)
    steps: list[str] = []

    async def work(session_id: str, count: int) -> None:
        async with places.one(session_id) as place:
            for number in range(count):
                if number:
                    await place.pause()
                steps.append(session_id)
                await lowlevel.checkpoint()

    async with AsyncExitStack() as held, anyio.create_task_group() as group:
        await held.enter_async_context(places.one("builds for long"))
        for _ in range(4):
            group.start_soon(work, "greedy", 4)
        group.start_soon(work, "modest", 2)
    # Trio begins tasks in any order, so either may be first.
    assert steps[:2] == steps[2:4]
    assert set(steps[:2]) == {"greedy", "modest"}
    assert steps.count("greedy") == 16


async def test_who_gives_up_waiting_leaves_no_place_taken() -> None:
    places = Places(at_once=1, waiting=3)
    async with places.one("one") as place:
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with places.one("two"):
                pass
        await place.pause()
    async with places.one("two"):
        pass
