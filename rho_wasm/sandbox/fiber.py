"""An instance whose calls run on a stack of their own, so that a guest can be left there and gone on with later.

On the event loop's thread a handler of a signal may raise after any call (entry.py). So what wasmtime hands out for it
to be given back, a store and a future, is stored by a ``for``: between its two halves Python does not look for signals.
And it is given back by :meth:`_Frame.let_go`, which runs to its end.
"""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from time import monotonic
from typing import Any

from rho_wasm.limits import Limits
from rho_wasm.sandbox.abi import MEMORY
from rho_wasm.sandbox.capi import (
    Trampolines,
    check,
    equip,
    ffi,
    forget_fault,
    get_fuel,
    memory_data,
    memory_grow,
    memory_size,
    raise_fault,
)
from rho_wasm.sandbox.entry import sure_entry
from rho_wasm.sandbox.module import Linked
from rho_wasm.sandbox.native import (
    export_nth,
    func_call_async,
    future_delete,
    future_poll,
    future_poll_in_thread,
    global_get,
    instantiate_async,
    set_yield_interval,
    store_delete,
    store_delete_in_thread,
    store_new,
)

__all__ = ["ENGINE_FUEL_OF_A_POLL", "FUEL_OF_A_POLL", "FiberInstance", "Frames"]

FUEL_OF_A_POLL = 2_000
"""Fuel after which a guest on the event loop's thread is left for a look at the clock. About 2 µs of arithmetic; but a
guest that touches a new page with each few units needs 0.5 ms for it, and no epoch would end that sooner."""
ENGINE_FUEL_OF_A_POLL = 20_000
"""The same for an image. Its engine's code does not touch a page with each few units, whatever it interprets, and to
leave it 200 times a call took half as long as the call."""

_I32, _I64 = 0, 1
_A = ctypes.addressof


class _Frame:
    """What wasmtime reads and writes during a call, with the addresses of all of it: made once, used for many calls.

    ``store`` and ``future`` are wasmtime's, 0 where there is none: the future of a call that was begun and is not done.
    Wasmtime demands that it is deleted before the store, and each once. A frame that is lost with them (whoever had it
    was interrupted) lets them go when it is collected.

    ``new_store``, ``new_instance`` and ``new_call`` make a call of C at each step, with what the list of their
    arguments says then.
    """

    __slots__ = (
        "arguments",
        "error",
        "error_at",
        "export",
        "exported",
        "first",
        "fuel",
        "fuel_at",
        "future",
        "instance",
        "kept",
        "length",
        "memory",
        "name",
        "new_call",
        "new_call_of",
        "new_instance",
        "new_instance_of",
        "new_store",
        "new_store_of",
        "reference",
        "result_kind",
        "result_of",
        "results",
        "second",
        "store",
        "trap",
        "trap_at",
    )

    @sure_entry
    def __init__(self) -> None:
        self.store = self.future = 0
        instance, export, memory = ffi.wasmtime_instance_t(), ffi.wasmtime_extern_t(), ffi.wasmtime_extern_t()
        values = (ffi.wasmtime_val_t * 2)()
        result = ffi.wasmtime_val_t()
        fuel = ctypes.c_uint64()
        trap, error, name, length = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        inside = ffi.wasmtime_extern_t.of.offset
        for value in values:
            value.kind = _I32
        self.kept = (instance, export, memory, values, name, length)
        self.instance = _A(instance)
        self.export = _A(export)
        self.exported = _A(export) + inside
        self.memory = _A(memory)
        self.reference = _A(memory) + inside
        self.name, self.length = _A(name), _A(length)
        self.arguments = _A(values)
        self.first: Any = values[0].of
        self.second: Any = values[1].of
        self.results = _A(result)
        self.result_of: Any = result.of
        self.result_kind: Any = result
        self.fuel: Any = fuel
        self.fuel_at = _A(fuel)
        self.trap: Any = trap
        self.error: Any = error
        self.trap_at, self.error_at = _A(trap), _A(error)
        ends = (self.trap_at, self.error_at)
        self.new_store_of: list[int | None] = [0, 0, None]
        self.new_instance_of: list[int | None] = [0, 0, self.instance, *ends]
        self.new_call_of: list[int | None] = [0, self.exported, self.arguments, 0, self.results, 0, *ends]
        self.new_store: Iterator[int] = starmap(store_new, repeat(self.new_store_of))
        self.new_instance: Iterator[int] = starmap(instantiate_async, repeat(self.new_instance_of))
        self.new_call: Iterator[int] = starmap(func_call_async, repeat(self.new_call_of))

    @sure_entry
    def let_go(self, delete: Callable[[int], None] = store_delete) -> None:
        """Deletes the future and the store, where there are any. Idempotent, and from any thread."""
        try:
            future, self.future = self.future, 0
            if future:
                future_delete(future)
        finally:
            store, self.store = self.store, 0
            if store:
                delete(store)

    __del__ = let_go


class Frames:
    """Frames that no call uses now. From any thread."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: deque[_Frame] = deque()

    def take(self) -> _Frame:
        try:
            return self._free.pop()
        except IndexError:
            return _Frame()

    def give_back(self, frame: _Frame) -> None:
        if frame.error or frame.trap:  # Of a call whose end nobody read.
            forget_fault(frame.error.value, frame.trap.value)
            frame.trap.value = frame.error.value = None
        self._free.append(frame)


class FiberInstance:
    """An instance in a slot of the pool. The guest is left once ``slice_ends`` (of the monotonic clock) has passed,
    until it is moved.
    """

    __slots__ = (
        "_context",
        "_found_memory",
        "_frame",
        "_frames",
        "_linked",
        "_moved",
        "_poll",
        "_slice_ends",
        "_trampolines",
        "_wanted",
    )

    def __init__(
        self,
        engine: int,
        trampolines: Trampolines,
        frames: Frames,
        linked: Linked,
        call_id: int,
        limits: Limits,
        slice_ends: float,
    ) -> None:
        _have_room()
        self._linked = linked
        self._trampolines = trampolines
        self._frames = frames
        self._frame = frame = frames.take()
        self._poll: Callable[[int], bool] = future_poll
        self._slice_ends = slice_ends
        self._moved = False
        """It has moved to a thread, and still is suspended again and again."""
        self._wanted = 0
        self._found_memory = False
        given, begin = frame.new_store_of, frame.new_store
        given[0], given[1] = engine, call_id
        for frame.store in begin:
            break
        try:
            self._context = context = equip(
                frame.store,
                call_id=call_id,
                trampolines=trampolines,
                fuel=limits.fuel,
                memory_bytes=limits.memory_bytes,
                table_elements=limits.table_elements,
            )
            check(set_yield_interval(context, FUEL_OF_A_POLL if linked.engine is None else ENGINE_FUEL_OF_A_POLL))
        except BaseException:
            self.close()
            raise

    def move(self) -> None:
        self._poll = future_poll_in_thread
        self._slice_ends = math.inf
        self._moved = True

    def instantiate(self) -> bool:
        frame = self._frame
        given, begin = frame.new_instance_of, frame.new_instance
        given[0], given[1] = self._linked.address, self._context
        for frame.future in begin:
            break
        return self.go_on()

    def call(self, export: str, *arguments: int) -> bool:
        frame, context = self._frame, self._context
        place, self._wanted = self._linked.exports[export]
        export_nth(context, frame.instance, place, frame.name, frame.length, frame.export)
        if arguments:
            frame.first.i32 = arguments[0]
            if len(arguments) > 1:
                frame.second.i32 = arguments[1]
        given, begin = frame.new_call_of, frame.new_call
        given[0], given[3], given[5] = context, len(arguments), self._wanted
        for frame.future in begin:
            break
        return self.go_on()

    def go_on(self) -> bool:
        frame = self._frame
        future = frame.future
        while not self._poll(future):
            if self._trampolines.interrupted:
                self._trampolines.raise_interruption()
            if self._moved:
                # In a thread only fuel suspends it, and only so suspended does it read its fuel anew. An interval
                # that is set while it is suspended by the epoch takes all of its fuel away.
                check(set_yield_interval(self._context, 0))
                self._moved = False
            elif monotonic() >= self._slice_ends:
                return False
        frame.future = 0
        future_delete(future)
        if self._trampolines.interrupted:
            self._trampolines.raise_interruption()
        if frame.error or frame.trap:
            error, trap = frame.error.value, frame.trap.value
            frame.error.value = frame.trap.value = None
            raise_fault(error, trap)
        return True

    def result(self) -> int:
        if not self._wanted:
            return 0
        frame = self._frame
        result: int = frame.result_of.i64 if frame.result_kind.kind == _I64 else frame.result_of.i32
        return result

    def span(self) -> tuple[int, int]:
        frame, context = self._frame, self._context
        if not self._found_memory:
            export_nth(context, frame.instance, self._linked.exports[MEMORY][0], frame.name, frame.length, frame.memory)
            self._found_memory = True
        reference = frame.reference
        return memory_data(context, reference) or 0, memory_size(context, reference)

    def grow(self, pages: int) -> bool:
        self.span()  # It has been found then.
        return memory_grow(self._context, self._frame.reference, pages)

    def fuel_left(self) -> int:
        frame = self._frame
        check(get_fuel(self._context, frame.fuel_at))
        left: int = frame.fuel.value
        return left

    def flag(self, export: str) -> bool:
        found = self._linked.exports.get(export)
        if found is None:
            return False
        frame = self._frame
        export_nth(self._context, frame.instance, found[0], frame.name, frame.length, frame.export)
        global_get(self._context, frame.exported, frame.results)
        return bool(frame.result_of.i32)

    def abandon(self) -> None:
        frame = self._frame
        future, frame.future = frame.future, 0
        if future:
            future_delete(future)

    @sure_entry
    def close(self) -> None:
        frame = self._frame
        frame.let_go(store_delete if self._poll is future_poll else store_delete_in_thread)
        self._frames.give_back(frame)


def _have_room(calls: int = 3) -> None:
    """Raises RecursionError where Python would have no room for a callback: there it would end the process."""
    if calls:
        _have_room(calls - 1)
