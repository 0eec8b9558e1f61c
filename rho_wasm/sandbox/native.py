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
from typing import Any, NamedTuple

import wasmtime

from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.capi import LONG, SHORT, ffi, make_engine, prototype
from rho_wasm.sandbox.config import EngineConfig

__all__ = [
    "FIBER_EXTRA_BYTES",
    "Pool",
    "export_nth",
    "func_call_async",
    "future_delete",
    "future_poll",
    "future_poll_in_thread",
    "global_get",
    "instantiate_async",
    "make_native_engine",
    "set_yield_interval",
    "store_delete",
    "store_delete_in_thread",
    "store_new",
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

export_nth = prototype(SHORT, "wasmtime_instance_export_nth", ctypes.c_bool, _P, _P, _SIZE, _P, _P, _P)
func_call_async = prototype(SHORT, "wasmtime_func_call_async", _P, _P, _P, _P, _SIZE, _P, _SIZE, _P, _P)
future_delete = prototype(SHORT, "wasmtime_call_future_delete", None, _P)
# A poll of the event loop ends within a slice. It keeps the interpreter lock, because with busy threads around each
# letting go would cost up to 5 ms; one in a thread may last as long as the call.
future_poll = prototype(SHORT, "wasmtime_call_future_poll", ctypes.c_bool, _P)
future_poll_in_thread = prototype(LONG, "wasmtime_call_future_poll", ctypes.c_bool, _P)
global_get = prototype(SHORT, "wasmtime_global_get", None, _P, _P, _P)
instantiate_async = prototype(SHORT, "wasmtime_instance_pre_instantiate_async", _P, _P, _P, _P, _P, _P)
set_yield_interval = prototype(SHORT, "wasmtime_context_fuel_async_yield_interval", _P, _P, ctypes.c_uint64)
# Giving back 64 MiB that a guest touched takes up to 20 ms: not with the interpreter lock.
store_delete = prototype(SHORT, "wasmtime_store_delete", None, _P)
store_delete_in_thread = prototype(LONG, "wasmtime_store_delete", None, _P)
store_new = prototype(SHORT, "wasmtime_store_new", _P, _P, _P, _P)

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
