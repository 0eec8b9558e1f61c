"""Every call of C that wasmtime's public Python API lacks, in this one file. Each error that C answers is raised here.

The public wrappers will not do for calls into a guest: they keep the exception of a host callback in one global of the
process (with 8 threads, 2 % of the calls raised another thread's exception), look up one export by making all of them
(quadratic), and do not know the epoch callback. The objects handed round are the public ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import wasmtime
from wasmtime import _ffi

from rho_wasm.sandbox.abi import ValueType
from rho_wasm.sandbox.config import EngineConfig

__all__ = [
    "MAX_FRAMES",
    "Frame",
    "GuestFault",
    "HostCalls",
    "Instance",
    "Trampolines",
    "fuel_left",
    "leaked_ticks",
    "library_path",
    "make_engine",
    "memory_span",
    "raise_epoch",
]

MAX_FRAMES = 32
"""Frames of a backtrace that are read, innermost first."""
_MESSAGE_BYTES = 2_000

ffi: Any = _ffi
_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t

# Calls that run a guest let go of the interpreter lock. All others keep it: they take less than a microsecond, and
# with busy threads around each letting go would mean up to 5 ms a thread until the lock is back.
_LONG: Any = ctypes.CDLL(str(ffi.filename))
_SHORT: Any = ctypes.PyDLL(str(ffi.filename))


def _function(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = library[name]  # A new object each time: the prototypes of the public API stay as they are.
    function.restype = result
    function.argtypes = arguments
    return function


_call = _function(_LONG, "wasmtime_func_call", _P, _P, _P, _P, _SIZE, _P, _SIZE, _P)
_instantiate = _function(_LONG, "wasmtime_instance_pre_instantiate", _P, _P, _P, _P, _P)
_caller_context = _function(_SHORT, "wasmtime_caller_context", _P, _P)
_define = _function(_SHORT, "wasmtime_linker_define_func", _P, _P, _P, _SIZE, _P, _SIZE, _P, _P, _P, _P)
_engine_clone = _function(_SHORT, "wasmtime_engine_clone", _P, _P)
_error_delete = _function(_SHORT, "wasmtime_error_delete", None, _P)
_error_message = _function(_SHORT, "wasmtime_error_message", None, _P, _P)
_error_new = _function(_SHORT, "wasmtime_error_new", _P, ctypes.c_char_p)
_error_trace = _function(_SHORT, "wasmtime_error_wasm_trace", None, _P, _P)
_export = _function(_SHORT, "wasmtime_instance_export_get", ctypes.c_bool, _P, _P, ctypes.c_char_p, _SIZE, _P)
_frame_number = _function(_SHORT, "wasm_frame_func_index", ctypes.c_uint32, _P)
_frame_offset = _function(_SHORT, "wasm_frame_func_offset", _SIZE, _P)
_frames_delete = _function(_SHORT, "wasm_frame_vec_delete", None, _P)
_get_data = _function(_SHORT, "wasmtime_context_get_data", _P, _P)
_get_fuel = _function(_SHORT, "wasmtime_context_get_fuel", _P, _P, _P)
_get_global = _function(_SHORT, "wasmtime_global_get", None, _P, _P, _P)
_increment_epoch = _function(_SHORT, "wasmtime_engine_increment_epoch", None, _P)
_memory_data = _function(_SHORT, "wasmtime_memory_data", _P, _P, _P)
_memory_size = _function(_SHORT, "wasmtime_memory_data_size", _SIZE, _P, _P)
_on_epoch = _function(_SHORT, "wasmtime_store_epoch_deadline_callback", None, _P, _P, _P, _P)
_set_data = _function(_SHORT, "wasmtime_context_set_data", None, _P, _P)
_set_epoch = _function(_SHORT, "wasmtime_context_set_epoch_deadline", None, _P, ctypes.c_uint64)
_set_fuel = _function(_SHORT, "wasmtime_context_set_fuel", _P, _P, ctypes.c_uint64)
_set_limits = _function(_SHORT, "wasmtime_store_limiter", None, _P, *(ctypes.c_int64,) * 5)
_store_context = _function(_SHORT, "wasmtime_store_context", _P, _P)
_trap_code = _function(_SHORT, "wasmtime_trap_code", ctypes.c_bool, _P, _P)
_trap_delete = _function(_SHORT, "wasm_trap_delete", None, _P)
_trap_new = _function(_SHORT, "wasmtime_trap_new", _P, ctypes.c_char_p, _SIZE)
_trap_trace = _function(_SHORT, "wasm_trap_trace", None, _P, _P)
_vec_delete = _function(_SHORT, "wasm_byte_vec_delete", None, _P)

_HOST_CALLBACK: Any = ctypes.CFUNCTYPE(_P, _P, _P, _P, _SIZE, _P, _SIZE)
_EPOCH_CALLBACK: Any = ctypes.CFUNCTYPE(_P, _P, _P, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint8))
_I32, _I64 = 0, 1
_FUNC, _GLOBAL, _MEMORY = 0, 1, 3
_CONTINUE = 0


def library_path() -> str:
    """The shared library that wasmtime's package carries."""
    return str(ffi.filename)


def make_engine(config: EngineConfig) -> wasmtime.Engine:
    """An engine with exactly the settings of ``config``."""
    raw = wasmtime.Config()
    for name, _kind, value in config.settings:
        getattr(ffi, f"wasmtime_config_{name}_set")(raw.ptr(), value)
    return wasmtime.Engine(raw)


def raise_epoch(engine: wasmtime.Engine, ticks: int) -> None:
    """Moves the epoch on at once, so that every guest that runs asks its epoch callback now."""
    for _ in range(ticks):
        _increment_epoch(engine.ptr())


class Frame(NamedTuple):
    """One frame of a backtrace: the function's number, the offset in it."""

    function: int
    offset: int


class GuestFault(Exception):
    """A call into a guest did not end in an answer. ``code`` is wasmtime's trap code, None for other errors."""

    def __init__(self, code: int | None, message: str, frames: tuple[Frame, ...]) -> None:
        super().__init__(code)
        self.code = code
        self.message = message
        self.frames = frames


def fuel_left(context: int) -> int:
    """Fuel that the store has left."""
    left = ctypes.c_uint64()
    _check(_get_fuel(context, ctypes.byref(left)))
    return left.value


class Instance:
    """One instance of a module in a store of its own, and calls into it.

    ``call_id`` is what host functions and the epoch callback find the call by: a number, because an object that the
    store keeps alive and that reaches the store would keep both alive for ever. The store asks at its first tick.
    """

    __slots__ = ("_instance", "_store", "context")

    def __init__(
        self,
        store: wasmtime.Store,
        *,
        call_id: int,
        trampolines: Trampolines,
        fuel: int,
        memory_bytes: int,
        table_elements: int,
    ) -> None:
        pointer = store.ptr()
        self._store = store  # What the addresses below point into must not go before them.
        self.context: int = _store_context(pointer)
        self._instance = ffi.wasmtime_instance_t()
        _set_data(self.context, call_id)
        _on_epoch(pointer, trampolines.epoch, call_id, None)
        _set_epoch(self.context, 1)
        _set_limits(pointer, memory_bytes, table_elements, 1, 1, 1)
        _check(_set_fuel(self.context, fuel))

    def instantiate(self, pre: wasmtime.InstancePre) -> None:
        """Raises :class:`GuestFault` if memories or tables are over the store's limits, or a segment does not fit."""
        trap = _P()
        error = _instantiate(pre.ptr(), self.context, ctypes.byref(self._instance), ctypes.byref(trap))
        _raise_fault(error, trap.value)

    def function(self, name: str) -> Any | None:
        """The exported function ``name``, None if there is none."""
        item = self._exported(name, _FUNC)
        return item and item.func

    def memory(self, name: str) -> Any | None:
        """The exported memory ``name``, None if there is none."""
        item = self._exported(name, _MEMORY)
        return item and item.memory

    def flag(self, name: str) -> bool:
        """Whether the exported i32 global ``name`` is there and not 0."""
        item = self._exported(name, _GLOBAL)
        if item is None:
            return False
        value = ffi.wasmtime_val_t()
        _get_global(self.context, ctypes.byref(item.global_), ctypes.byref(value))
        return bool(value.of.i32)

    def _exported(self, name: str, kind: int) -> Any | None:
        raw = name.encode()
        item = ffi.wasmtime_extern_t()
        found = _export(self.context, ctypes.byref(self._instance), raw, len(raw), ctypes.byref(item))
        return item.of if found and item.kind == kind else None

    def call(self, function: Any, *arguments: int, answers: bool) -> int:
        """Calls with i32 arguments; answers the integer result, 0 where the function has none.

        The types are checked by wasmtime. Raises :class:`GuestFault`.
        """
        given = (ffi.wasmtime_val_t * len(arguments))()
        for value, argument in zip(given, arguments, strict=True):
            value.kind = _I32
            value.of.i32 = argument
        results = (ffi.wasmtime_val_t * int(answers))()
        trap = _P()
        error = _call(
            self.context, ctypes.byref(function), given, len(given), results, len(results), ctypes.byref(trap)
        )
        _raise_fault(error, trap.value)
        if not answers:
            return 0
        return int(results[0].of.i64 if results[0].kind == _I64 else results[0].of.i32)


def memory_span(context: int, memory: Any) -> tuple[int, int]:
    """Where a memory lies in this process, and its size in bytes. True until the guest runs again."""
    reference = ctypes.byref(memory)
    return _memory_data(context, reference) or 0, _memory_size(context, reference)


class HostCalls(Protocol):
    """What the trampolines ask: the calls that run, found by their ids."""

    def host_call(self, call_id: int, context: int, index: int, arguments: Sequence[int]) -> int | None:
        """One call of the host function ``index``."""

    def epoch(self, call_id: int, context: int) -> int:
        """In how many ticks to ask again. Raises to stop the guest."""

    def failed(self, call_id: int, error: BaseException) -> None:
        """One of the two above raised. The guest is stopped; the exception must not be lost."""


class Trampolines:
    """The two callbacks that wasmtime calls. No Python exception crosses them: ``calls`` keeps it, the guest traps.

    Must live as long as every linker and store that was given one of them.
    """

    __slots__ = ("_calls", "epoch", "host")

    def __init__(self, calls: HostCalls) -> None:
        self._calls = calls
        self.host = _HOST_CALLBACK(self._host)
        self.epoch = _EPOCH_CALLBACK(self._epoch)

    def define(
        self,
        linker: wasmtime.Linker,
        module: str,
        name: str,
        *,
        params: Sequence[ValueType],
        results: Sequence[ValueType],
        index: int,
    ) -> None:
        """Defines host function ``index`` in ``linker``. Its types are i32 and i64, with at most one result."""
        kinds = {"i32": wasmtime.ValType.i32, "i64": wasmtime.ValType.i64}
        signature = wasmtime.FuncType([kinds[each]() for each in params], [kinds[each]() for each in results])
        module_name, function_name = module.encode(), name.encode()
        target = (module_name, len(module_name), function_name, len(function_name))
        _check(_define(linker.ptr(), *target, signature.ptr(), self.host, index, None))

    def _host(
        self, index: int | None, caller: int, params: int | None, count: int, results: int | None, wanted: int
    ) -> int | None:
        call_id = 0
        try:
            context = _caller_context(caller)
            call_id = _get_data(context) or 0
            values = (ffi.wasmtime_val_t * count).from_address(params) if count else ()
            arguments = [value.of.i64 if value.kind else value.of.i32 for value in values]
            answer = self._calls.host_call(call_id, context, index or 0, arguments)
            if wanted:
                # Every result of the ABI is an i32; anything but an int is a bug of the host function.
                result = ffi.wasmtime_val_t.from_address(results)
                result.kind = _I32
                result.of.i32 = answer
        except BaseException as error:
            self._calls.failed(call_id, error)
            return int(_trap_new(b"rho", 3))
        return None

    def _epoch(self, context: int, call_id: int | None, delta: Any, kind: Any) -> int | None:
        try:
            kind[0] = _CONTINUE
            delta[0] = self._calls.epoch(call_id or 0, context)
        except BaseException as error:
            self._calls.failed(call_id or 0, error)
            return int(_error_new(b"rho"))
        return None


def _check(error: int | None) -> None:
    """Raises what a call answered that has nothing to do with a guest's code."""
    if error:
        raise RuntimeError(_take_error(error).message)


def _raise_fault(error: int | None, trap: int | None) -> None:
    if error:
        raise _take_error(error)
    if trap:
        code = ctypes.c_uint8()
        known = _trap_code(trap, ctypes.byref(code))
        frames = ffi.wasm_frame_vec_t()
        _trap_trace(trap, ctypes.byref(frames))
        fault = GuestFault(code.value if known else None, "", _take_frames(frames))
        _trap_delete(trap)
        raise fault


def _take_error(error: int) -> GuestFault:
    raw = ffi.wasm_frame_vec_t()
    _error_trace(error, ctypes.byref(raw))
    frames = _take_frames(raw)
    text = ""
    if not frames:
        # With frames the text would be wasmtime's rendering of the guest's backtrace, which nobody needs.
        message = ffi.wasm_byte_vec_t()
        _error_message(error, ctypes.byref(message))
        text = ctypes.string_at(message.data, min(message.size, _MESSAGE_BYTES)).decode("utf-8", "replace")
        _vec_delete(ctypes.byref(message))
    fault = GuestFault(None, text, frames)
    _error_delete(error)
    return fault


def _take_frames(frames: Any) -> tuple[Frame, ...]:
    read = tuple(
        Frame(_frame_number(frames.data[n]), _frame_offset(frames.data[n])) for n in range(min(frames.size, MAX_FRAMES))
    )
    _frames_delete(ctypes.byref(frames))
    return read


def leaked_ticks(engine: wasmtime.Engine) -> tuple[int, int]:
    """``wasmtime_engine_increment_epoch`` and what to call it with, as addresses for a timer.

    The engine that it names is a clone that is never deleted, on purpose: a notification that is on its way when the
    timer is deleted must find it alive, and nothing tells when the last one has come. It keeps 3 KiB.
    """
    function = ctypes.cast(_LONG.wasmtime_engine_increment_epoch, _P).value
    return int(function or 0), int(_engine_clone(engine.ptr()))
