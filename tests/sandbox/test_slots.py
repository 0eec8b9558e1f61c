"""Who waits for whom when slots are taken."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.slots import Overloaded, Slots

SOON = 60  # seconds: a bound for what must not hang


async def hold(slots: Slots, tool: str, memory: int, release: anyio.Event, order: list[str]) -> None:
    async with slots.taken(tool, memory=memory):
        order.append(tool)
        await release.wait()


async def settled() -> None:
    for _ in range(10):
        await checkpoint()


def make(**limits: int) -> Slots:
    return Slots(HostLimits(**limits))


async def test_calls_beyond_the_bound_wait_in_order() -> None:
    slots, order, release = make(max_concurrent_calls=1), list[str](), anyio.Event()
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            for tool in "abc":
                tasks.start_soon(hold, slots, tool, 1, release, order)
                await settled()
            assert (order, slots.running, slots.waiting) == (["a"], 1, 2)
            release.set()
    assert (order, slots.running, slots.waiting) == (["a", "b", "c"], 0, 0)


async def test_a_tool_with_its_slots_taken_does_not_hold_up_others() -> None:
    slots, order, release = make(max_concurrent_calls=3, max_concurrent_per_tool=1), list[str](), anyio.Event()
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            for tool in "aab":
                tasks.start_soon(hold, slots, tool, 1, release, order)
                await settled()
            assert order == ["a", "b"]
            release.set()
    assert order == ["a", "b", "a"]


async def test_a_large_call_is_not_overtaken_for_ever_by_small_ones() -> None:
    slots, order, release = make(total_memory_bytes=10), list[str](), anyio.Event()
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            for tool, memory in (("small", 6), ("large", 10), ("late", 1)):
                tasks.start_soon(hold, slots, tool, memory, release, order)
                await settled()
            assert order == ["small"]
            release.set()
    assert order == ["small", "large", "late"]


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        ({"max_concurrent_calls": 1}, "max_concurrent_calls"),
        ({"max_concurrent_per_tool": 1}, "max_concurrent_per_tool"),
        ({"total_memory_bytes": 9}, "total_memory_bytes"),
    ],
)
async def test_a_call_that_waited_too_long_names_the_bound(limits: dict[str, int], limit: str) -> None:
    slots = make(queue_ms=1, **limits)
    async with slots.taken("a", memory=5):
        with pytest.raises(Overloaded) as caught:
            async with slots.taken("a", memory=5):
                pytest.fail("there was a slot")
    assert (caught.value.limit, caught.value.value) == (limit, limits[limit])
    assert (slots.running, slots.waiting) == (0, 0)


async def test_a_call_that_can_never_fit_does_not_wait() -> None:
    slots = make(total_memory_bytes=9, queue_ms=10**9)
    with anyio.fail_after(SOON), pytest.raises(Overloaded):
        async with slots.taken("a", memory=10):
            pytest.fail("there was a slot")


async def test_whoever_is_cancelled_while_waiting_leaves_no_trace() -> None:
    slots, order, release = make(max_concurrent_calls=1), list[str](), anyio.Event()
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold, slots, "a", 1, release, order)
            await settled()
            async with anyio.create_task_group() as impatient:
                impatient.start_soon(hold, slots, "b", 1, release, order)
                await settled()
                assert slots.waiting == 1
                impatient.cancel_scope.cancel()
            assert (slots.running, slots.waiting) == (1, 0)
            release.set()
    assert (order, slots.running) == (["a"], 0)


async def test_calls_for_which_others_wait_come_before_those_for_which_nobody_does() -> None:
    slots, order, release = make(max_concurrent_calls=2), list[str](), anyio.Event()
    assert slots.take_now("parent", 1)

    async def child() -> None:
        await slots.take("child", 1, holding=1)
        order.append("child")
        slots.give_back("child", 1)

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            for tool in ("a", "late"):
                tasks.start_soon(hold, slots, tool, 1, release, order)
                await settled()
            tasks.start_soon(child)
            await settled()
            release.set()
    assert order == ["a", "child", "late"]


async def test_where_all_slots_are_kept_by_calls_that_wait_the_latest_of_them_gives_up_at_once() -> None:
    slots, order, stuck = make(max_concurrent_calls=2, queue_ms=600_000), list[str](), list[Overloaded]()

    async def parent(name: str) -> None:
        async with slots.taken(name, memory=1):
            await settled()
            try:
                await slots.take(f"child of {name}", 1, holding=1)
            except Overloaded as error:
                stuck.append(error)
            else:
                order.append(f"child of {name}")
                slots.give_back(f"child of {name}", 1)

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            for name in ("one", "other"):
                tasks.start_soon(parent, name)
    assert [error.limit for error in stuck] == ["max_concurrent_calls"]
    assert len(order) == 1
    assert (slots.running, slots.waiting) == (0, 0)


async def test_what_is_stuck_only_once_another_call_ended_gives_up_then() -> None:
    slots, release, order = make(total_memory_bytes=10), anyio.Event(), list[str]()
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks, slots.taken("parent", memory=6):
            tasks.start_soon(hold, slots, "other", 4, release, order)
            await settled()

            async def child() -> None:
                with pytest.raises(Overloaded):
                    await slots.take("child", 5, holding=1)
                order.append("gave up")

            tasks.start_soon(child)
            await settled()
            assert order == ["other"]
            release.set()
            await settled()
    assert order == ["other", "gave up"]
