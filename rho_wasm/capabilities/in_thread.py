"""What takes long for a guest's host call, done off the event loop's thread and put down to the guest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import anyio.to_thread

from rho_wasm.calls import CallMeter
from rho_wasm.long_work import in_turn

__all__ = ["charged_in_thread"]

_T = TypeVar("_T")


async def charged_in_thread(meter: CallMeter, function: Callable[..., _T], *arguments: Any) -> _T:
    """``function(*arguments)`` in a thread, one at a time; its CPU time is ``meter``'s. Cancellation waits for it."""

    def charged() -> _T:
        began = time.thread_time()
        try:
            with in_turn():
                return function(*arguments)
        finally:
            meter.host_cpu_ms += (time.thread_time() - began) * 1000

    return await anyio.to_thread.run_sync(charged)
