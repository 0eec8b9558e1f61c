"""What a verb that goes on until it is told to end waits for."""

from __future__ import annotations

import signal

import anyio

__all__ = ["until_signal"]


async def until_signal(scope: anyio.CancelScope) -> None:
    """Cancels ``scope`` at the first SIGINT or SIGTERM, so that the host closes its store and its guests."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return
