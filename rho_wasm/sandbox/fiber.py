"""An instance whose calls run on a stack of their own, so that a guest can be left there and gone on with later.

On the event loop's thread a handler of a signal may raise after any call (entry.py). So what wasmtime hands out for it
to be given back, a store, a future, an error, is stored by a ``for``: between its two halves Python does not look for
signals. And it is given back by :meth:`FiberInstance.let_go`, which runs to its end.

Every call passes through here, and ctypes takes longer to convert an argument than most of these functions run. So what
is handed to wasmtime again and again was converted once (:data:`rho_wasm.sandbox.native.Argument`).
"""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from time import monotonic
from typing import Any, Generic, TypeVar

from rho_wasm.limits import Limits
from rho_wasm.sandbox.abi import MEMORY
from rho_wasm.sandbox.capi import Trampolines, check, ffi, forget_fault, memory_grow, raise_fault
from rho_wasm.sandbox.entry import sure_entry
from rho_wasm.sandbox.module import Linked
from rho_wasm.sandbox.native import (
    Argument,
    export_nth,
    func_call_async,
    future_delete,
    future_poll,
    future_poll_in_thread,
    get_fuel,
    global_get,
    i64,
    instantiate,
    memory_data,
    memory_size,
    on_epoch,
    pointer,
    set_epoch,
    set_fuel,
    set_limits,
    set_yield_interval,
    store_context,
    store_delete,
    store_delete_in_thread,
    store_new,
    u64,
)

__all__ = [
    "ENGINE_FUEL_OF_A_POLL",
    "ENGINE_INTERVAL",
    "FUEL_OF_A_POLL",
    "INTERVAL",
    "NO_INTERVAL",
    "FiberInstance",
    "Fibers",
]

FUEL_OF_A_POLL = 2_000
"""Fuel after which a guest on the event loop's thread is left for a look at the clock. About 2 µs of arithmetic; but a
guest that touches a new page with each few units needs 0.5 ms for it, and no epoch would end that sooner."""
ENGINE_FUEL_OF_A_POLL = 20_000
"""The same for an image. Its engine's code does not touch a page with each few units, whatever it interprets, and to
leave it 200 times a call took half as long as the call."""

_I32 = 0  # Every function of the ABI answers such a one, or an i64.
_NULL = pointer(0)
_ONE = i64(1)
_FIRST_TICK, NO_INTERVAL = u64(1), u64(0)
INTERVAL, ENGINE_INTERVAL = u64(FUEL_OF_A_POLL), u64(ENGINE_FUEL_OF_A_POLL)


class FiberInstance:
    """An instance in a slot of the pool, in a store of its own, from :meth:`open` to :meth:`close`; then another.

    The guest is left once ``slice_ends`` (of the monotonic clock) has passed, until it is moved.

    What wasmtime reads and writes during a call is made once, for many calls. ``store`` and ``future`` are wasmtime's,
    0 where there is none: the future of a call that was begun and is not done. Wasmtime demands that it is deleted
    before the store, and each once. An instance that is lost with them (whoever had it was interrupted) lets them go
    when it is collected.

    ``new_store``, ``new_instance`` and ``new_call`` make a call of C at each step, with what the list of their
    arguments says then.
    """

    __slots__ = (
        "_all_fuel",
        "_at_fuel",
        "_at_result",
        "_bounds",
        "_context",
        "_delete",
        "_epoch",
        "_error",
        "_export_of",
        "_exported",
        "_first",
        "_free",
        "_fuel",
        "_limits",
        "_linked",
        "_memory",
        "_memory_of",
        "_moved",
        "_new_call",
        "_new_call_of",
        "_new_instance",
        "_new_instance_of",
        "_new_store",
        "_new_store_of",
        "_poll",
        "_result",
        "_second",
        "_slice_ends",
        "_trampolines",
        "_trap",
        "_wanted",
        "future",
        "store",
    )

    @sure_entry
    def __init__(self, engine: int, trampolines: Trampolines, free: deque[Any]) -> None:
        self.store = self.future = 0
        self._delete: Callable[[int], None] = store_delete
        self._poll: Callable[[int], bool] = future_poll
        self._moved = False
        """It has moved to a thread, and still is suspended again and again."""
        self._free = free
        self._trampolines = trampolines
        self._limits: Limits | None = None
        self._epoch = pointer(trampolines.epoch_address)
        instance, export, memory = ffi.wasmtime_instance_t(), ffi.wasmtime_extern_t(), ffi.wasmtime_extern_t()
        values = (ffi.wasmtime_val_t * 2)()
        for value in values:
            value.kind = _I32
        self._first: Any = values[0].of
        self._second: Any = values[1].of
        self._result: Any = ffi.wasmtime_val_t()
        self._fuel: Any = ctypes.c_uint64()
        self._trap: Any = ctypes.c_void_p()
        self._error: Any = ctypes.c_void_p()
        # Whoever has one of these references keeps what it refers to.
        of, inside = ctypes.byref(instance), ffi.wasmtime_extern_t.of.offset
        named = (ctypes.byref(ctypes.c_void_p()), ctypes.byref(ctypes.c_size_t()))
        self._exported, self._memory = ctypes.byref(export, inside), ctypes.byref(memory, inside)
        self._export_of: list[Argument] = [_NULL, of, _NULL, *named, ctypes.byref(export)]
        self._memory_of: list[Argument] = [_NULL, of, _NULL, *named, ctypes.byref(memory)]
        self._at_fuel, self._at_result = ctypes.byref(self._fuel), ctypes.byref(self._result)
        trap, error = ctypes.byref(self._trap), ctypes.byref(self._error)
        self._new_store_of: list[Argument] = [pointer(engine), _NULL, _NULL]
        self._new_instance_of: list[Argument] = [_NULL, _NULL, of, trap]
        given = [_NULL, self._exported, ctypes.byref(values), _NULL, self._at_result, _NULL, trap, error]
        self._new_call_of: list[Argument] = given
        self._new_store: Iterator[int] = starmap(store_new, repeat(self._new_store_of))
        self._new_instance: Iterator[int | None] = starmap(instantiate, repeat(self._new_instance_of))
        self._new_call: Iterator[int] = starmap(func_call_async, repeat(given))

    def open(self, linked: Linked, call_id: int, limits: Limits, slice_ends: float) -> None:
        """Makes a store for one call, with nothing in it yet. Where this raises, it is closed."""
        _have_room()
        self._linked = linked
        self._slice_ends = slice_ends
        if self._limits is not limits:
            bounds = (i64(limits.memory_bytes), i64(limits.table_elements), _ONE, _ONE, _ONE)
            fuel = u64(limits.fuel)
            # At once: whoever is interrupted in between would leave bounds to a call that has others.
            self._limits, self._bounds, self._all_fuel = limits, bounds, fuel
        try:
            number = pointer(call_id)
            given, begin = self._new_store_of, self._new_store
            given[1] = number
            for self.store in begin:
                break
            store = pointer(self.store)
            self._context = context = pointer(store_context(store))
            self._new_instance_of[1] = self._new_call_of[0] = self._export_of[0] = self._memory_of[0] = context
            # What capi.equip does.
            on_epoch(store, self._epoch, number, _NULL)
            set_epoch(context, _FIRST_TICK)
            set_limits(store, *self._bounds)
            if error := set_fuel(context, self._all_fuel):
                check(error)
        except BaseException:
            self.close()
            raise

    def move(self) -> None:
        self._poll = future_poll_in_thread
        self._delete = store_delete_in_thread
        self._slice_ends = math.inf
        self._moved = True

    def instantiate(self) -> None:
        # Nothing of the guest runs in it (admission lets in no start section), so it needs no stack to be left on. A
        # store is asked this way before it has an interval, and never after.
        linked, begin = self._linked, self._new_instance
        self._new_instance_of[0] = linked.argument
        for self._error.value in begin:
            break
        if self._error or self._trap:
            self._raise_fault()
        if error := set_yield_interval(self._context, INTERVAL if linked.engine is None else ENGINE_INTERVAL):
            check(error)
        self._memory_of[2] = linked.exports[MEMORY].place_argument
        export_nth(*self._memory_of)

    def call(self, export: str, *arguments: int) -> int | None:
        found, given, begin = self._export_of, self._new_call_of, self._new_call
        found[2], given[3], given[5], _, self._wanted = self._linked.exports[export]
        export_nth(*found)
        if arguments:
            self._first.i32 = arguments[0]
            self._second.i32 = arguments[-1]
        for self.future in begin:
            break
        return self.go_on()

    def go_on(self) -> int | None:
        future, trampolines = self.future, self._trampolines
        while not self._poll(future):
            if trampolines.interrupted:
                trampolines.raise_interruption()
            if self._moved:
                # In a thread only fuel suspends it, and only so suspended does it read its fuel anew. An interval
                # that is set while it is suspended by the epoch takes all of its fuel away.
                check(set_yield_interval(self._context, NO_INTERVAL))
                self._moved = False
            elif monotonic() >= self._slice_ends:
                return None
        self.future = 0
        future_delete(future)
        if trampolines.interrupted:
            trampolines.raise_interruption()
        if self._error or self._trap:
            self._raise_fault()
        if not self._wanted:
            return 0
        result = self._result
        answer: int = result.of.i64 if result.kind else result.of.i32
        return answer

    def span(self) -> tuple[int, int]:
        return memory_data(self._context, self._memory) or 0, memory_size(self._context, self._memory)

    def grow(self, pages: int) -> bool:
        return memory_grow(self._context, self._memory, pages)

    def fuel_left(self) -> int:
        if error := get_fuel(self._context, self._at_fuel):
            check(error)
        left: int = self._fuel.value
        return left

    def flag(self, export: str) -> bool:
        found = self._linked.exports.get(export)
        if found is None:
            return False
        self._export_of[2] = found.place_argument
        export_nth(*self._export_of)
        global_get(self._context, self._exported, self._at_result)
        return bool(self._result.of.i32)

    def abandon(self) -> None:
        future, self.future = self.future, 0
        if future:
            future_delete(future)

    @sure_entry
    def close(self) -> None:
        self.let_go()
        if self._error or self._trap:  # Of a call whose end nobody read.
            forget_fault(self._error.value, self._trap.value)
            self._error.value = self._trap.value = None
        if self._poll is not future_poll:
            self._poll, self._delete, self._moved = future_poll, store_delete, False
        del self._linked  # An image may hang on it.
        self._free.append(self)

    @sure_entry
    def let_go(self) -> None:
        """Deletes the future and the store, where there are any. Idempotent, and from any thread."""
        try:
            future, self.future = self.future, 0
            if future:
                future_delete(future)
        finally:
            store, self.store = self.store, 0
            if store:
                self._delete(store)

    __del__ = let_go

    def _raise_fault(self) -> None:
        error, trap = self._error.value, self._trap.value
        self._error.value = self._trap.value = None
        raise_fault(error, trap)


_F = TypeVar("_F", bound=FiberInstance)


class Fibers(Generic[_F]):
    """Instances of one ``kind`` that no call uses now. From any thread."""

    __slots__ = ("_engine", "_free", "_kind", "_trampolines")

    def __init__(self, kind: type[_F], engine: int, trampolines: Trampolines) -> None:
        self._kind = kind
        self._engine = engine
        self._trampolines = trampolines
        self._free: deque[Any] = deque()

    def take(self) -> _F:
        """One to be opened. When it is closed it is here again."""
        try:
            taken: _F = self._free.pop()
            return taken
        except IndexError:
            return self._kind(self._engine, self._trampolines, self._free)


def _have_room(calls: int = 1) -> None:
    """Raises RecursionError where Python would have no room for a callback: there it would end the process.

    It goes as deep as a callback of the first poll is, and one deeper. What that calls in turn it may be refused.
    """
    if calls:
        _have_room(calls - 1)
