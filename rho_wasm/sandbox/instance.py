"""What one call asks of an instance in a store of its own, and the instance that runs on its thread's own stack."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import wasmtime

from rho_wasm.limits import Limits
from rho_wasm.sandbox.abi import MEMORY
from rho_wasm.sandbox.capi import (
    LONG,
    SHORT,
    Trampolines,
    check,
    equip,
    ffi,
    get_fuel,
    memory_data,
    memory_grow,
    memory_size,
    prototype,
    raise_fault,
    set_data,
)
from rho_wasm.sandbox.module import Linked

__all__ = ["GuestInstance", "OwnStackInstance"]

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_call = prototype(LONG, "wasmtime_func_call", _P, _P, _P, _P, _SIZE, _P, _SIZE, _P)
_instantiate = prototype(LONG, "wasmtime_instance_pre_instantiate", _P, _P, _P, _P, _P)
_export = prototype(SHORT, "wasmtime_instance_export_get", ctypes.c_bool, _P, _P, ctypes.c_char_p, _SIZE, _P)
_get_global = prototype(SHORT, "wasmtime_global_get", None, _P, _P, _P)

_I32, _I64 = 0, 1
_FUNC, _GLOBAL, _MEMORY = 0, 1, 3
_NUMBER_BYTES = {0: 4, 1: 8, 2: 4, 3: 8, 4: 16}
"""Of a value of each kind that is a number: i32, i64, f32, f64, v128."""


class GuestInstance(Protocol):
    """One instance and its store. Used by one thread at a time; closed once, by whoever made it.

    What runs the guest answers what its function did, 0 where that answers nothing. None says that the guest was left
    on its stack: then :meth:`go_on`, when there is time again, is what it is asked next, or :meth:`abandon`.
    """

    def instantiate(self) -> None:
        """Raises :class:`GuestFault` if memories or tables are over the store's limits, or a segment does not fit."""

    def call(self, export: str, *arguments: int) -> int | None:
        """Calls an exported function of the ABI with i32 arguments. Raises :class:`GuestFault`."""

    def go_on(self) -> int | None:
        """Goes on with what was left. Raises :class:`GuestFault`."""

    def abandon(self) -> None:
        """Forgets what was left: the guest never goes on."""

    def span(self) -> tuple[int, int]:
        """Where the guest's memory is now, and its size."""

    def grow(self, pages: int) -> bool:
        """Makes the memory larger by so many pages, while the guest stands still. False where it may not be."""

    def fuel_left(self) -> int:
        """Fuel that the store has left."""

    def flag(self, export: str) -> bool:
        """Whether the exported i32 global is there and not 0."""

    def move(self) -> None:
        """From here on the call has a thread to itself. Only while the guest is left."""

    def close(self) -> None:
        """Lets the store go, and all that is in it."""


class OwnStackInstance:
    """An instance that runs where it is called, to its end. It is never left; its host functions may do what they like.

    Exports are looked up by name, as wasmtime's public API does: this is the way for every wasmtime.
    """

    __slots__ = ("_context", "_instance", "_linked", "_memory", "_store", "_trampolines")

    def __init__(
        self, engine: wasmtime.Engine, linked: Linked, *, call_id: int, trampolines: Trampolines, limits: Limits
    ) -> None:
        self._linked = linked
        self._trampolines = trampolines
        self._store = wasmtime.Store(engine)
        self._memory: Any = None
        self._instance = ffi.wasmtime_instance_t()
        try:
            self._context = equip(
                self._store.ptr(),
                call_id=call_id,
                trampolines=trampolines,
                fuel=limits.fuel,
                memory_bytes=limits.memory_bytes,
                table_elements=limits.table_elements,
            )
            set_data(self._context, call_id)
        except BaseException:
            self.close()
            raise

    def instantiate(self) -> None:
        trap = _P()
        error = _instantiate(self._linked.pre.ptr(), self._context, ctypes.byref(self._instance), ctypes.byref(trap))
        self._stands_still(error, trap.value)
        if (item := self._exported(MEMORY, _MEMORY)) is not None:
            self._memory = ctypes.byref(item.memory)

    def call(self, export: str, *arguments: int) -> int:
        item = self._exported(export, _FUNC)
        if item is None:
            raise LookupError(export)
        given = (ffi.wasmtime_val_t * len(arguments))()
        for value, argument in zip(given, arguments, strict=True):
            value.kind = _I32
            value.of.i32 = argument
        results = (ffi.wasmtime_val_t * self._linked.exports[export].results)()
        trap = _P()
        error = _call(
            self._context, ctypes.byref(item.func), given, len(given), results, len(results), ctypes.byref(trap)
        )
        self._stands_still(error, trap.value)
        if not results:
            return 0
        answer: int = results[0].of.i64 if results[0].kind == _I64 else results[0].of.i32
        return answer

    def go_on(self) -> int:
        raise AssertionError("a guest on its thread's own stack is never left")

    def abandon(self) -> None:
        return

    def span(self) -> tuple[int, int]:
        return memory_data(self._context, self._memory) or 0, memory_size(self._context, self._memory)

    def grow(self, pages: int) -> bool:
        return memory_grow(self._context, self._memory, pages)

    def fuel_left(self) -> int:
        left = ctypes.c_uint64()
        check(get_fuel(self._context, ctypes.byref(left)))
        return left.value

    def flag(self, export: str) -> bool:
        item = self._exported(export, _GLOBAL)
        return item is not None and bool(self._value(item).of.i32)

    def number(self, export: str) -> bytes:
        """The kind and the bits of an exported global of a number's type, to be compared."""
        item = self._exported(export, _GLOBAL)
        if item is None:
            raise LookupError(export)
        value = self._value(item)
        return bytes([value.kind]) + ctypes.string_at(ctypes.addressof(value.of), _NUMBER_BYTES.get(value.kind, 0))

    def move(self) -> None:
        return  # It has one from the start.

    def close(self) -> None:
        self._store.close()

    def _stands_still(self, error: int | None, trap: int | None) -> None:
        try:
            raise_fault(error, trap)
        finally:
            if self._trampolines.interrupted:
                self._trampolines.raise_interruption()

    def _value(self, item: Any) -> Any:
        value = ffi.wasmtime_val_t()
        _get_global(self._context, ctypes.byref(item.global_), ctypes.byref(value))
        return value

    def _exported(self, name: str, kind: int) -> Any | None:
        raw = name.encode()
        item = ffi.wasmtime_extern_t()
        found = _export(self._context, ctypes.byref(self._instance), raw, len(raw), ctypes.byref(item))
        return item.of if found and item.kind == kind else None
