"""What one call asks of an instance in a store of its own, and the instance that runs on its thread's own stack."""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from typing import Any, Protocol, TypeAlias

import wasmtime

from rho_wasm.limits import Limits
from rho_wasm.sandbox.abi import MEMORY
from rho_wasm.sandbox.capi import LONG, SHORT, Trampolines, equip, ffi, fuel_left, memory_span, prototype, raise_fault
from rho_wasm.sandbox.module import Linked

__all__ = ["GuestInstance", "OwnStackInstance", "Steps"]

Steps: TypeAlias = Generator[None, None, int]
"""A call into a guest. It yields where the guest was left on its stack: go on when there is time again."""

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_call = prototype(LONG, "wasmtime_func_call", _P, _P, _P, _P, _SIZE, _P, _SIZE, _P)
_instantiate = prototype(LONG, "wasmtime_instance_pre_instantiate", _P, _P, _P, _P, _P)
_export = prototype(SHORT, "wasmtime_instance_export_get", ctypes.c_bool, _P, _P, ctypes.c_char_p, _SIZE, _P)
_get_global = prototype(SHORT, "wasmtime_global_get", None, _P, _P, _P)

_I32, _I64 = 0, 1
_FUNC, _GLOBAL, _MEMORY = 0, 1, 3


class GuestInstance(Protocol):
    """One instance and its store. Used by one thread at a time; closed once, by whoever made it."""

    def instantiate(self) -> Steps:
        """Raises :class:`GuestFault` if memories or tables are over the store's limits, or a segment does not fit."""

    def call(self, export: str, *arguments: int) -> Steps:
        """Calls an exported function of the ABI with i32 arguments. Its integer result, 0 where it has none.

        Raises :class:`GuestFault`.
        """

    def span(self) -> tuple[int, int]:
        """Where the guest's memory is now, and its size."""

    def fuel_left(self) -> int:
        """Fuel that the store has left."""

    def flag(self, export: str) -> bool:
        """Whether the exported i32 global is there and not 0."""

    def move(self) -> None:
        """From here on the call has a thread to itself. Only while the guest is left."""

    def close(self) -> None:
        """Lets the store go, and all that is in it."""


class OwnStackInstance:
    """An instance that runs where it is called, to its end. It never yields; its host functions may do what they like.

    Exports are looked up by name, as wasmtime's public API does: this is the way for every wasmtime.
    """

    __slots__ = ("_context", "_instance", "_linked", "_memory", "_store")

    def __init__(
        self, engine: wasmtime.Engine, linked: Linked, *, call_id: int, trampolines: Trampolines, limits: Limits
    ) -> None:
        self._linked = linked
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
        except BaseException:
            self.close()
            raise

    def instantiate(self) -> Steps:
        yield from ()
        trap = _P()
        error = _instantiate(self._linked.pre.ptr(), self._context, ctypes.byref(self._instance), ctypes.byref(trap))
        raise_fault(error, trap.value)
        if (item := self._exported(MEMORY, _MEMORY)) is not None:
            self._memory = ctypes.byref(item.memory)
        return 0

    def call(self, export: str, *arguments: int) -> Steps:
        yield from ()
        item = self._exported(export, _FUNC)
        if item is None:
            raise LookupError(export)
        given = (ffi.wasmtime_val_t * len(arguments))()
        for value, argument in zip(given, arguments, strict=True):
            value.kind = _I32
            value.of.i32 = argument
        results = (ffi.wasmtime_val_t * self._linked.exports[export][1])()
        trap = _P()
        error = _call(
            self._context, ctypes.byref(item.func), given, len(given), results, len(results), ctypes.byref(trap)
        )
        raise_fault(error, trap.value)
        if not results:
            return 0
        return int(results[0].of.i64 if results[0].kind == _I64 else results[0].of.i32)

    def span(self) -> tuple[int, int]:
        return memory_span(self._context, self._memory)

    def fuel_left(self) -> int:
        return fuel_left(self._context, ctypes.c_uint64())

    def flag(self, export: str) -> bool:
        item = self._exported(export, _GLOBAL)
        if item is None:
            return False
        value = ffi.wasmtime_val_t()
        _get_global(self._context, ctypes.byref(item.global_), ctypes.byref(value))
        return bool(value.of.i32)

    def move(self) -> None:
        return  # It has one from the start.

    def close(self) -> None:
        self._store.close()

    def _exported(self, name: str, kind: int) -> Any | None:
        raw = name.encode()
        item = ffi.wasmtime_extern_t()
        found = _export(self._context, ctypes.byref(self._instance), raw, len(raw), ctypes.byref(item))
        return item.of if found and item.kind == kind else None
