"""What takes long for a guest's host call, done off the event loop's thread and put down to the guest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from rho_wasm.calls import CallMeter
from rho_wasm.errors import CapabilityError
from rho_wasm.host_threads import NoThread
from rho_wasm.long_work import in_turn_in_thread

__all__ = ["charged_in_thread"]

_T = TypeVar("_T")


async def charged_in_thread(meter: CallMeter, function: Callable[..., _T], *arguments: Any, long: bool = False) -> _T:
    """``function(*arguments)`` in a thread; its CPU time is ``meter``'s.

    ``long``: it is a call into C for more than :data:`rho_wasm.long_work.LONG_ITEMS`, so the guest has its turn.
    Cancellation leaves at once. Raises :class:`CapabilityError` (``unavailable``) where no thread can be had.
    """

    def charged() -> _T:
        began = time.thread_time()
        try:
            return function(*arguments)
        finally:
            meter.host_cpu_ms += (time.thread_time() - began) * 1000

    try:
        return await in_turn_in_thread(charged, long=long)
    except NoThread:
        raise CapabilityError("unavailable", "the host is overloaded: try again later", fault=True) from None
