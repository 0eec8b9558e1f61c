"""Which way guest calls take: ``native`` where this Python and this wasmtime are known to bear it, else ``public``.

``native`` calls wasmtime's asynchronous C API, which the Python bindings do not declare: a short call is over before a
thread could have been woken. ``public`` runs each call in a thread, through calls that the bindings declare. What a
call comes to is the same on both.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import sys
import sysconfig
from typing import Literal, TypeAlias, get_args

from rho_wasm.sandbox.capi import LONG, ffi

__all__ = ["WAY_VARIABLE", "Way", "choose_way", "why_not_native"]

Way: TypeAlias = Literal["native", "public"]

WAY_VARIABLE = "RHO_WASM_WAY"
"""The environment variable that says which way is taken where the host's own code does not."""

_KNOWN_WASMTIME = "50."
"""Nothing declares the asynchronous functions, so their types are those that were read in this version's source."""
_NEEDED = (
    "wasmtime_call_future_delete",
    "wasmtime_call_future_poll",
    "wasmtime_config_async_stack_size_set",
    "wasmtime_context_fuel_async_yield_interval",
    "wasmtime_func_call_async",
    "wasmtime_instance_export_nth",
    "wasmtime_instance_pre_instantiate",
    "wasmtime_instance_pre_instantiate_async",
    "wasmtime_linker_define_async_func",
    "wasmtime_pooling_allocation_strategy_set",
)
_SIZES = {"wasmtime_extern_t": 32, "wasmtime_func_t": 16, "wasmtime_instance_t": 16, "wasmtime_val_t": 32}
"""Structures that native.py hands to functions, in bytes."""


def choose_way(asked: str | None) -> Way:
    """``asked``, or what the environment asks, or the best that there is.

    Raises ValueError for a way that there is not, RuntimeError for ``native`` where it cannot be had.
    """
    way = asked if asked is not None else os.environ.get(WAY_VARIABLE) or None
    if way is not None and way not in get_args(Way):
        raise ValueError(f"there is no way {way!r} of calling guests: {' or '.join(get_args(Way))}")
    if way == "public":
        return "public"
    reason = why_not_native()
    if reason is None:
        return "native"
    if way == "native":
        raise RuntimeError(f"guests cannot be called the native way here: {reason}")
    return "public"


def why_not_native() -> str | None:
    """What is in the way of ``native``; None if nothing is."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 14):
        # 3.14 compares the stack pointer with the thread's own stack, and a fiber's lies elsewhere.
        return f"Python {platform.python_version()} may not run on the stack of a fiber"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it relies on the interpreter lock, which this Python does without"
    if sys.platform not in ("linux", "darwin"):
        return f"it was never tried on {sys.platform}"
    version = importlib.metadata.version("wasmtime")
    if not version.startswith(_KNOWN_WASMTIME):
        return f"wasmtime {version} is not one whose asynchronous C API is known"
    missing = [name for name in _NEEDED if not hasattr(LONG, name)]
    if missing:
        return f"wasmtime {version} lacks {missing[0]}"
    from rho_wasm.sandbox.suspending import SuspendingTrampolines

    if not SuspendingTrampolines.cannot_be_interrupted():
        return f"Python {platform.python_version()} enters functions in another way than those that are known"
    sizes = {name: ctypes.sizeof(getattr(ffi, name)) for name in _SIZES}
    if sizes != _SIZES:
        return f"wasmtime {version} has other structures than those that are known"
    return None
