"""Many pieces of work in one task group, some at a time, and the event loop in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from rho_wasm.cancellation import leaves, let_through

__all__ = ["side_by_side"]


async def side_by_side(work: Callable[[int], Awaitable[None]], count: int, *, at_once: int) -> None:
    """Awaits ``work(0)`` to ``work(count - 1)``, begun in this order, no more than ``at_once`` of them at a time.

    What never waits is work too: after each piece the event loop has its turn. The first that raises cancels the
    others, and leaves this by itself, never inside an exception group; what has not begun by then does not begin.
    """
    if count == 1:
        await work(0)
        return
    places = iter(range(count))

    async def worker() -> None:
        for place in places:
            await work(place)
            await anyio.lowlevel.checkpoint()

    try:
        async with anyio.create_task_group() as group:
            for _ in range(min(count, at_once)):
                group.start_soon(worker)
    except BaseExceptionGroup as error:
        let_through(error, None)
        raise next(leaves(error)) from None
