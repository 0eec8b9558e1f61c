"""The floor: wasmtime's C API through ctypes, and nothing round it but what every call needs.

Pooled instances, reused call frames, unchecked calls, fuel, an epoch deadline, a memory limit, CBOR both ways. What a
host adds (a schema, a gate, a deadline that somebody watches, typed errors) is not in it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import wasmtime
from wasmtime import _ffi

from rho_wasm import Host
from tests.benchmarks.guests import Absent, rho_guest
from tests.benchmarks.jobs import Job
from tests.benchmarks.measure import SyncContender
from tests.benchmarks.peers.peer import Enter
from tests.benchmarks.peers.wire import FUEL, MEMORY_BYTES, answer_of, request_of

__all__ = ["c_api"]

_P = ctypes.c_void_p
_FAR = 1_000_000
_POOL = 16


class _Library:
    """The C functions, with prototypes of their own. Calls that run a guest let go of the interpreter lock."""

    def __init__(self) -> None:
        ffi: Any = _ffi
        path = str(ffi.filename)
        self._long, self._short = ctypes.CDLL(path), ctypes.PyDLL(path)
        self.config = ffi
        size, u64, boolean = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_bool
        try:
            self.store_new = self._function("wasmtime_store_new", _P, _P, _P, _P)
            self.store_context = self._function("wasmtime_store_context", _P, _P)
            self.store_delete = self._function("wasmtime_store_delete", None, _P)
            self.limiter = self._function("wasmtime_store_limiter", None, _P, *(ctypes.c_int64,) * 5)
            self.set_fuel = self._function("wasmtime_context_set_fuel", _P, _P, u64)
            self.set_epoch = self._function("wasmtime_context_set_epoch_deadline", None, _P, u64)
            self.instantiate = self._function("wasmtime_instance_pre_instantiate", _P, _P, _P, _P, _P, guest=True)
            self.export = self._function("wasmtime_instance_export_get", boolean, _P, _P, ctypes.c_char_p, size, _P)
            self.call = self._function("wasmtime_func_call_unchecked", _P, _P, _P, _P, size, _P, guest=True)
            self.memory_data = self._function("wasmtime_memory_data", _P, _P, _P)
            self.memory_size = self._function("wasmtime_memory_data_size", size, _P, _P)
            self.error_delete = self._function("wasmtime_error_delete", None, _P)
            self.trap_delete = self._function("wasm_trap_delete", None, _P)
        except AttributeError as error:
            raise Absent(f"this wasmtime's C API is another one: {error}") from None

    def _function(self, name: str, result: Any, *arguments: Any, guest: bool = False) -> Any:
        function = (self._long if guest else self._short)[name]
        function.restype = result
        function.argtypes = arguments
        return function


class _Prepared:
    """The module, compiled and linked once, in an engine that keeps a pool of instances."""

    def __init__(self, library: _Library, wasm: bytes) -> None:
        ffi = library.config
        config = wasmtime.Config()
        config.consume_fuel = True
        config.epoch_interruption = True
        pool = ffi.wasmtime_pooling_allocation_config_new()
        for name, value in (
            ("total_memories", _POOL),
            ("total_tables", _POOL),
            ("total_core_instances", 2 * _POOL),
            ("max_memory_size", MEMORY_BYTES),
        ):
            getattr(ffi, f"wasmtime_pooling_allocation_config_{name}_set")(pool, value)
        ffi.wasmtime_pooling_allocation_strategy_set(config.ptr(), pool)
        ffi.wasmtime_pooling_allocation_config_delete(pool)
        self.engine = wasmtime.Engine(config)
        module = wasmtime.Module(self.engine, wasm)
        linker = wasmtime.Linker(self.engine)
        linker.define_unknown_imports_as_traps(module)
        self.pre = linker.instantiate_pre(module)
        self.engine_address = _address(self.engine.ptr())
        self.pre_address = _address(self.pre.ptr())


class _Caller:
    """One caller's frames, which every call of it uses again, and its instance."""

    def __init__(self, library: _Library, prepared: _Prepared, job: Job) -> None:
        ffi = library.config
        self._c = library
        self._prepared = prepared
        self._job = job
        self._instance, self._trap = ffi.wasmtime_instance_t(), ctypes.c_void_p()
        self._exports = tuple(ffi.wasmtime_extern_t() for _ in range(3))
        self._values = (ctypes.c_uint64 * 4)()
        at = ctypes.addressof
        inside = ffi.wasmtime_extern_t.of.offset
        self._at_instance, self._at_trap, self._at_values = at(self._instance), at(self._trap), at(self._values)
        self._at_exports = tuple(at(export) for export in self._exports)
        self._alloc, self._run, self._memory = (address + inside for address in self._at_exports)
        self._store = 0

    def fresh(self) -> object:
        self.open()
        try:
            return self._once()
        finally:
            self.close()

    def reused(self) -> object:
        """Guests never free, so the instance is made anew once its memory is half used up."""
        if self._store and self._c.memory_size(self._context, self._memory) > MEMORY_BYTES // 2:
            self.close()
        if not self._store:
            self.open()
        return self._once()

    def open(self) -> None:
        c = self._c
        self._store = c.store_new(self._prepared.engine_address, None, None)
        self._context = context = c.store_context(self._store)
        c.limiter(self._store, MEMORY_BYTES, 10_000, 1, 1, 1)
        self._refuel()
        self._check(c.instantiate(self._prepared.pre_address, context, self._at_instance, self._at_trap))
        for name, export in zip((b"rho_alloc", b"rho_call", b"memory"), self._at_exports, strict=True):
            if not c.export(context, self._at_instance, name, len(name), export):
                raise RuntimeError(f"the guest has no {name.decode()}")

    def close(self) -> None:
        self._c.store_delete(self._store)
        self._store = 0

    def _once(self) -> object:
        c, context, values = self._c, self._context, self._values
        self._refuel()
        request = request_of(self._job)
        size = len(request)
        values[0] = size
        self._check(c.call(context, self._alloc, self._at_values, 2, self._at_trap))
        pointer = values[0] & 0xFFFFFFFF
        ctypes.memmove(self._span(pointer, size), request, size)
        values[0], values[2] = pointer, size
        self._check(c.call(context, self._run, self._at_values, 4, self._at_trap))
        start, size = values[0] >> 32, values[0] & 0xFFFFFFFF
        return answer_of(ctypes.string_at(self._span(start, size), size))

    def _refuel(self) -> None:
        self._check(self._c.set_fuel(self._context, FUEL))
        self._c.set_epoch(self._context, _FAR)

    def _span(self, start: int, size: int) -> int:
        if start + size > self._c.memory_size(self._context, self._memory):
            raise RuntimeError("the guest answered a span outside its memory")
        return int(self._c.memory_data(self._context, self._memory)) + start

    def _check(self, error: int | None) -> None:
        if error:
            self._c.error_delete(error)
            raise RuntimeError("wasmtime answered an error")
        if self._trap.value:
            self._c.trap_delete(self._trap.value)
            self._trap.value = None
            raise RuntimeError("the guest trapped")


def _address(pointer: Any) -> int:
    return int(ctypes.cast(pointer, _P).value or 0)


def c_api(*, fresh: bool) -> Enter[Job]:
    async def enter(host: Host | None, job: Job, callers: int) -> SyncContender:
        library = _Library()
        prepared = _Prepared(library, (await rho_guest(job)).wasm)
        mine = [_Caller(library, prepared, job) for _ in range(callers)]
        calls: list[Callable[[], object]] = [caller.fresh if fresh else caller.reused for caller in mine]
        for call in calls:
            job.check(call())
        return SyncContender(calls)

    return enter
