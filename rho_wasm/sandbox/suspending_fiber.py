"""An instance on a stack of its own that is left in a host function too, until the host's answer is there."""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Iterator
from itertools import repeat, starmap
from typing import Any

from rho_wasm.sandbox.abi import MEMORY
from rho_wasm.sandbox.capi import Trampolines, check, ffi
from rho_wasm.sandbox.entry import sure_entry
from rho_wasm.sandbox.fiber import ENGINE_INTERVAL, INTERVAL, FiberInstance
from rho_wasm.sandbox.native import (
    Argument,
    export_nth,
    future_delete,
    future_poll,
    instantiate_async,
    set_yield_interval,
    store_delete,
)
from rho_wasm.sandbox.suspending import GOES_ON, STAYS, flag_address, new_flag

__all__ = ["SuspendingFiber"]

_I32 = 0


class SuspendingFiber(FiberInstance):
    """As :class:`FiberInstance`. It answers None also where the guest was left in a host function (:meth:`suspend`).

    That host function's answer is then given with :meth:`answer`, if it has none yet, before :meth:`go_on`.
    """

    __slots__ = ("_at_flag", "_begin_of", "_begins", "_flag", "_goes_on_until", "_results")

    @sure_entry
    def __init__(self, engine: int, trampolines: Trampolines, free: deque[Any]) -> None:
        self.store = self.future = 0  # Before anything is called: one that was interrupted there is collected too.
        FiberInstance.__init__(self, engine, trampolines, free)
        self._flag = new_flag()
        self._at_flag = flag_address(self._flag)
        self._results: int | None = None
        self._goes_on_until = math.inf
        """What ``_slice_ends`` is again after a host function in which the guest was left, which ends the slice."""
        pre, context, instance, trap = self._new_instance_of
        self._begin_of: list[Argument] = [pre, context, instance, trap, ctypes.byref(self._error)]
        self._begins: Iterator[int] = starmap(instantiate_async, repeat(self._begin_of))

    def instantiate(self) -> None:
        # A store with such host functions is asked nothing any other way.
        linked, given, begin = self._linked, self._begin_of, self._begins
        self._results, self._goes_on_until = None, self._slice_ends
        given[0], given[1] = linked.suspending(), self._context
        for self.future in begin:
            break
        done = self._poll(self.future)
        future, self.future = self.future, 0
        future_delete(future)
        if self._error or self._trap:
            self._raise_fault()
        if not done:
            raise RuntimeError("an instantiation that runs nothing of a guest was not done at once")
        self._set_interval()
        self._memory_of[2] = linked.exports[MEMORY].place_argument
        export_nth(*self._memory_of)

    def suspend(self, results: int | None) -> int:
        """The guest is to be left in its host function. The address of the flag that will say when it goes on.

        ``results``: where wasmtime takes the host function's answer from, then.
        """
        self._flag[0] = STAYS
        self._results = results
        self._slice_ends = -math.inf
        return self._at_flag

    def answer(self, number: int) -> None:
        """What the host function answers in which the guest was left."""
        if self._results is not None:
            result = ffi.wasmtime_val_t.from_address(self._results)
            result.kind = _I32
            result.of.i32 = number

    def move(self) -> None:
        FiberInstance.move(self)
        self._goes_on_until = math.inf

    def come_back(self, slice_ends: float) -> None:
        """The call goes on on the event loop's thread, until then. Only while the guest is left in a host function."""
        self._poll, self._delete, self._moved = future_poll, store_delete, False
        self._goes_on_until = slice_ends
        # In a host function wasmtime has written down how much fuel there is, so it may be counted anew from there.
        self._set_interval()

    def go_on(self) -> int | None:
        self._results = None
        self._flag[0] = GOES_ON
        self._slice_ends = self._goes_on_until
        return FiberInstance.go_on(self)

    def _set_interval(self) -> None:
        check(set_yield_interval(self._context, INTERVAL if self._linked.engine is None else ENGINE_INTERVAL))
