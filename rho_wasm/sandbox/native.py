"""What the native way needs of wasmtime's C API beyond capi.py: the asynchronous calls, and the pool of slots.

The Python bindings declare neither. Their types were read in wasmtime 50's sources (``crates/c-api/src/async.rs``), and
ways.py sees to it that nothing here is used with another version. Misuse does not raise, it ends the process: a future
polled after it was done or by two threads, a store deleted before its future, a configuration that cannot be. fiber.py
and slices.py are what keep that from happening.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any, NamedTuple, TypeAlias

import wasmtime

from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.capi import LONG, SHORT, ffi, make_engine, prototype
from rho_wasm.sandbox.config import EngineConfig

__all__ = [
    "FIBER_EXTRA_BYTES",
    "Argument",
    "Pool",
    "export_nth",
    "func_call_async",
    "future_delete",
    "future_poll",
    "future_poll_in_thread",
    "get_fuel",
    "global_get",
    "i64",
    "instantiate",
    "instantiate_async",
    "make_native_engine",
    "memory_data",
    "memory_size",
    "on_epoch",
    "pointer",
    "set_epoch",
    "set_fuel",
    "set_limits",
    "set_yield_interval",
    "store_context",
    "store_delete",
    "store_delete_in_thread",
    "store_new",
    "u64",
]

FIBER_EXTRA_BYTES = 4 * 1024 * 1024
"""Of a fiber's stack beyond WebAssembly's own part: host functions run there. Half a MiB overflowed where a callback
recursed in C, and address space costs nothing."""
_KEPT_BYTES = 64 * 1024
"""Of a slot's memory and table that are cleared in place when a call ends; the rest is given back to the system. Giving
back the first pages and faulting them in again takes longer than a small guest runs; clearing many takes even longer.
"""
_GIB = 1024 * 1024 * 1024

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t

Argument: TypeAlias = Any
"""What ctypes hands to C as it is, made once for many calls: by the three below, or by ``ctypes.byref``."""
pointer = _P.from_param
i64, u64 = ctypes.c_int64.from_param, ctypes.c_uint64.from_param


def _bare(name: str, result: Any) -> Any:
    """A function of C that is called with nothing but :data:`Argument`: converting one takes as long as most of them.

    Its parameters in C are the comment beside it.
    """
    function = SHORT[name]
    function.restype = result
    return function


export_nth = _bare("wasmtime_instance_export_nth", ctypes.c_bool)  # context, instance, size, name, length, extern
func_call_async = _bare("wasmtime_func_call_async", _P)  # context, func, values, size, values, size, trap, error
get_fuel = _bare("wasmtime_context_get_fuel", _P)  # context, u64
global_get = _bare("wasmtime_global_get", None)  # context, global, value
instantiate = _bare("wasmtime_instance_pre_instantiate", _P)  # pre, context, instance, trap
instantiate_async = _bare("wasmtime_instance_pre_instantiate_async", _P)  # pre, context, instance, trap, error
memory_data = _bare("wasmtime_memory_data", _P)  # context, memory
memory_size = _bare("wasmtime_memory_data_size", _SIZE)  # context, memory
on_epoch = _bare("wasmtime_store_epoch_deadline_callback", None)  # store, callback, data, finalizer
set_epoch = _bare("wasmtime_context_set_epoch_deadline", None)  # context, u64
set_fuel = _bare("wasmtime_context_set_fuel", _P)  # context, u64
set_limits = _bare("wasmtime_store_limiter", None)  # store, five of i64
set_yield_interval = _bare("wasmtime_context_fuel_async_yield_interval", _P)  # context, u64
store_context = _bare("wasmtime_store_context", _P)  # store
store_new = _bare("wasmtime_store_new", _P)  # engine, data, finalizer

future_delete = prototype(SHORT, "wasmtime_call_future_delete", None, _P)
# A poll of the event loop ends within a slice. It keeps the interpreter lock, because with busy threads around each
# letting go would cost up to 5 ms; one in a thread may last as long as the call.
future_poll = prototype(SHORT, "wasmtime_call_future_poll", ctypes.c_bool, _P)
future_poll_in_thread = prototype(LONG, "wasmtime_call_future_poll", ctypes.c_bool, _P)
# Giving back 64 MiB that a guest touched takes up to 20 ms: not with the interpreter lock.
store_delete = prototype(SHORT, "wasmtime_store_delete", None, _P)
store_delete_in_thread = prototype(LONG, "wasmtime_store_delete", None, _P)

_set_async_stack = prototype(SHORT, "wasmtime_config_async_stack_size_set", None, _P, _SIZE)


class Pool(NamedTuple):
    """How many calls a pool of slots holds at once, and how large a guest's table may be there.

    Memories may be as large as WebAssembly allows: a store's own limits bound them, and unused addresses cost nothing.
    """

    slots: int
    table_elements: int
    kept_bytes: int = _KEPT_BYTES
    """Of a slot's memory that are cleared in place. For engines 0: theirs begins as a mapped image of megabytes, and
    copying its first pages back takes longer (1,496 µs against 19) than mapping it anew."""

    @classmethod
    def of(cls, limits: HostLimits, *, interpreters: bool = False) -> Pool:
        if interpreters:
            return cls(limits.max_concurrent_calls, limits.engine_call.table_elements, 0)
        return cls(limits.max_concurrent_calls, limits.call.table_elements)


def make_native_engine(config: EngineConfig, pool: Pool) -> wasmtime.Engine:
    """An engine for ``config`` whose instances take slots of a pool, where there is address space for one.

    Making instances without a pool takes 10 µs longer; nothing else differs.
    """
    # wasmtime ends the process where it cannot reserve a pool, so it is asked for only what was just seen to be there.
    reserved = config["memory_reservation"] + 2 * config["memory_guard_size"]
    pooled = _addresses_left(2 * pool.slots * reserved)

    def further(raw: wasmtime.Config) -> None:
        _set_async_stack(raw.ptr(), config["max_wasm_stack"] + FIBER_EXTRA_BYTES)
        if pooled:
            _use_pool(raw, pool)

    return make_engine(config, further)


def _use_pool(raw: wasmtime.Config, pool: Pool) -> None:
    sizes = {
        # An image is a second instance of the same call.
        "total_core_instances": 2 * pool.slots,
        "total_memories": pool.slots,
        "total_tables": pool.slots,
        "total_stacks": pool.slots,
        "max_memory_size": 4 * _GIB,
        "table_elements": pool.table_elements,
        "linear_memory_keep_resident": pool.kept_bytes,
        "table_keep_resident": _KEPT_BYTES,
    }
    settings: Any = ffi.wasmtime_pooling_allocation_config_new()
    try:
        for name, value in sizes.items():
            getattr(ffi, f"wasmtime_pooling_allocation_config_{name}_set")(settings, value)
        ffi.wasmtime_pooling_allocation_strategy_set(raw.ptr(), settings)
    finally:
        ffi.wasmtime_pooling_allocation_config_delete(settings)


def _addresses_left(size: int) -> bool:
    """Whether ``size`` bytes of addresses can be reserved in this process (``ulimit -v`` bounds them, for one)."""
    no_access = 0
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if sys.platform == "linux":
        flags |= getattr(mmap, "MAP_NORESERVE", 0)  # The oldest stubs do not know it.
    try:
        mmap.mmap(-1, size, flags=flags, prot=no_access).close()
    except (OSError, OverflowError, ValueError):
        return False
    return True
