"""What a verb that goes on until it is told to end waits for."""

from __future__ import annotations

import signal

import anyio
from anyio.abc import TaskStatus

__all__ = ["until_signal"]


async def until_signal(scope: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
    """Cancels ``scope`` at the first SIGINT or SIGTERM, so that the host closes its store and its guests.

    It has started once these are waited for: whoever is told that a verb runs may end it at once.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
            return
