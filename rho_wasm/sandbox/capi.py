"""The calls of C that wasmtime's public Python API lacks and that every way of calling needs. Each error is raised.

The public wrappers will not do for calls into a guest: they keep the exception of a host callback in one global of the
process (with 8 threads, 2 % of the calls raised another thread's exception), look up one export by making all of them
(quadratic), and do not know the epoch callback. The objects handed round are the public ones. What only the
asynchronous way needs is in native.py.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import wasmtime
from wasmtime import _ffi

from rho_wasm.sandbox.abi import ValueType
from rho_wasm.sandbox.config import EngineConfig
from rho_wasm.sandbox.entry import enters_surely, sure_entry

__all__ = [
    "LONG",
    "MAX_FRAMES",
    "SHORT",
    "Frame",
    "GuestFault",
    "HostCalls",
    "Trampolines",
    "check",
    "equip",
    "forget_fault",
    "get_fuel",
    "leaked_ticks",
    "library_path",
    "make_engine",
    "memory_data",
    "memory_grow",
    "memory_size",
    "prototype",
    "raise_epoch",
    "raise_fault",
    "set_data",
    "trap_new",
]

MAX_FRAMES = 32
"""Frames of a backtrace that are read, innermost first."""
_MESSAGE_BYTES = 2_000

ffi: Any = _ffi
_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t

# Calls that run a guest let go of the interpreter lock. All others keep it: they take less than a microsecond, and
# with busy threads around each letting go would mean up to 5 ms a thread until the lock is back.
LONG: Any = ctypes.CDLL(str(ffi.filename))
SHORT: Any = ctypes.PyDLL(str(ffi.filename))


def prototype(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    """A function of the library with a prototype of its own: those of the public API stay as they are."""
    function = library[name]
    function.restype = result
    function.argtypes = arguments
    return function


_caller_context = prototype(SHORT, "wasmtime_caller_context", _P, _P)
_define = prototype(SHORT, "wasmtime_linker_define_func", _P, _P, _P, _SIZE, _P, _SIZE, _P, _P, _P, _P)
_engine_clone = prototype(SHORT, "wasmtime_engine_clone", _P, _P)
_error_delete = prototype(SHORT, "wasmtime_error_delete", None, _P)
_error_message = prototype(SHORT, "wasmtime_error_message", None, _P, _P)
_error_new = prototype(SHORT, "wasmtime_error_new", _P, ctypes.c_char_p)
_error_trace = prototype(SHORT, "wasmtime_error_wasm_trace", None, _P, _P)
_frame_number = prototype(SHORT, "wasm_frame_func_index", ctypes.c_uint32, _P)
_frame_offset = prototype(SHORT, "wasm_frame_func_offset", _SIZE, _P)
_frames_delete = prototype(SHORT, "wasm_frame_vec_delete", None, _P)
_get_data = prototype(SHORT, "wasmtime_context_get_data", _P, _P)
get_fuel = prototype(SHORT, "wasmtime_context_get_fuel", _P, _P, _P)
_increment_epoch = prototype(SHORT, "wasmtime_engine_increment_epoch", None, _P)
memory_data = prototype(SHORT, "wasmtime_memory_data", _P, _P, _P)
_memory_grow = prototype(SHORT, "wasmtime_memory_grow", _P, _P, _P, ctypes.c_uint64, _P)
memory_size = prototype(SHORT, "wasmtime_memory_data_size", _SIZE, _P, _P)
_on_epoch = prototype(SHORT, "wasmtime_store_epoch_deadline_callback", None, _P, _P, _P, _P)
set_data = prototype(SHORT, "wasmtime_context_set_data", None, _P, _P)
_set_epoch = prototype(SHORT, "wasmtime_context_set_epoch_deadline", None, _P, ctypes.c_uint64)
_set_fuel = prototype(SHORT, "wasmtime_context_set_fuel", _P, _P, ctypes.c_uint64)
_set_limits = prototype(SHORT, "wasmtime_store_limiter", None, _P, *(ctypes.c_int64,) * 5)
_store_context = prototype(SHORT, "wasmtime_store_context", _P, _P)
_trap_code = prototype(SHORT, "wasmtime_trap_code", ctypes.c_bool, _P, _P)
_trap_delete = prototype(SHORT, "wasm_trap_delete", None, _P)
trap_new = prototype(SHORT, "wasmtime_trap_new", _P, ctypes.c_char_p, _SIZE)
_trap_trace = prototype(SHORT, "wasm_trap_trace", None, _P, _P)
_vec_delete = prototype(SHORT, "wasm_byte_vec_delete", None, _P)

_HOST_CALLBACK: Any = ctypes.CFUNCTYPE(_P, _P, _P, _P, _SIZE, _P, _SIZE)
_EPOCH_CALLBACK: Any = ctypes.CFUNCTYPE(_P, _P, _P, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint8))
_I32 = 0
_CONTINUE, _YIELD = 0, 1


def library_path() -> str:
    """The shared library that wasmtime's package carries."""
    return str(ffi.filename)


def make_engine(config: EngineConfig, further: Callable[[wasmtime.Config], None] | None = None) -> wasmtime.Engine:
    """An engine with exactly the settings of ``config``, and what ``further`` sets that changes no native code."""
    raw = wasmtime.Config()
    for name, _kind, value in config.settings:
        getattr(ffi, f"wasmtime_config_{name}_set")(raw.ptr(), value)
    if further is not None:
        further(raw)
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


def equip(
    store: Any, *, call_id: int, trampolines: Trampolines, fuel: int, memory_bytes: int, table_elements: int
) -> int:
    """Bounds a new store, and answers its context. The store asks the epoch callback at its first tick.

    ``call_id`` is what the epoch callback finds the call by; host functions find it by the store's data
    (:func:`set_data`). It is a number, because an object that the store keeps alive and that reaches the store would
    keep both alive for ever.
    """
    context: int = _store_context(store)
    _on_epoch(store, trampolines.epoch_address, call_id, None)
    _set_epoch(context, 1)
    _set_limits(store, memory_bytes, table_elements, 1, 1, 1)
    check(_set_fuel(context, fuel))
    return context


class HostCalls(Protocol):
    """What the trampolines ask: the calls that run, found by their ids."""

    def host_call(self, call_id: int, index: int, arguments: Sequence[int]) -> int | None:
        """One call of the host function ``index``."""

    def epoch(self, call_id: int) -> int:
        """In how many ticks to ask again; 0 to leave the guest until it is polled again. Raises to stop the guest."""

    def failed(self, call_id: int, error: BaseException) -> None:
        """One of the two above raised. The guest is stopped; the exception must not be lost."""


class Trampolines:
    """The two callbacks that wasmtime calls. No Python exception crosses them: ``calls`` keeps it, the guest traps.

    On the main thread a handler of a signal may raise anywhere in them, even where an exception is dealt with. What it
    raises then is kept, and the guest goes on, having been answered 0; whoever called it asks :attr:`interrupted` each
    time that it stands still, and then forgets the guest (:meth:`raise_interruption`). wasmtime needs nothing but
    this: of a callback that raised it would take whatever lies in memory for an error, and the process would end.

    Must live as long as every linker and store that was given one of them.
    """

    __slots__ = ("_calls", "_epoch_callback", "_host_callback", "_interruption", "epoch_address", "interrupted")

    def __init__(self, calls: HostCalls) -> None:
        self._calls = calls
        self.interrupted = False
        """Whether a callback was ever interrupted, on any thread."""
        self._interruption = threading.local()
        self._host_callback = _HOST_CALLBACK(self._host)
        self._epoch_callback = _EPOCH_CALLBACK(self._epoch)
        self.epoch_address = ctypes.cast(self._epoch_callback, _P).value

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
        self._define_by(_define, self._host_callback, linker, module, name, params, results, index)

    def _define_by(
        self,
        define: Callable[..., int | None],
        callback: Any,
        linker: wasmtime.Linker,
        module: str,
        name: str,
        params: Sequence[ValueType],
        results: Sequence[ValueType],
        index: int,
    ) -> None:
        kinds = {"i32": wasmtime.ValType.i32, "i64": wasmtime.ValType.i64}
        signature = wasmtime.FuncType([kinds[each]() for each in params], [kinds[each]() for each in results])
        module_name, function_name = module.encode(), name.encode()
        target = (module_name, len(module_name), function_name, len(function_name))
        check(define(linker.ptr(), *target, signature.ptr(), callback, index, None))

    def raise_interruption(self) -> None:
        """Raises what interrupted a callback on this thread since this was last asked, if anything did."""
        interruption = self._interruption
        error: BaseException | None = getattr(interruption, "error", None)
        interruption.error = None
        if error is not None:
            raise error

    @classmethod
    def cannot_be_interrupted(cls) -> bool:
        """Whether the above holds for this Python: no exception leaves a callback, however early it comes."""
        return enters_surely(cls._host) and enters_surely(cls._epoch)

    # The handler of the outer ``try`` calls nothing: what a signal's handler raises there, nothing would catch.

    @sure_entry
    def _host(
        self, index: int | None, caller: int, params: int | None, count: int, results: int | None, wanted: int
    ) -> int | None:
        try:
            call_id = 0
            try:
                call_id = _get_data(_caller_context(caller)) or 0
                values = (ffi.wasmtime_val_t * count).from_address(params) if count else ()
                arguments = [value.of.i64 if value.kind else value.of.i32 for value in values]
                answer = self._calls.host_call(call_id, index or 0, arguments)
                if wanted:
                    # Every result of the ABI is an i32; anything but an int is a bug of the host function.
                    result = ffi.wasmtime_val_t.from_address(results)
                    result.kind = _I32
                    result.of.i32 = answer
            except BaseException as error:
                if not call_id:
                    raise  # Nobody knows yet whose call it is.
                self._calls.failed(call_id, error)
                trap: int = trap_new(b"rho", 3)
                return trap
        except BaseException as error:
            self._interruption.error = error
            self.interrupted = True
        return None

    @sure_entry
    def _epoch(self, context: int, call_id: int | None, delta: Any, kind: Any) -> int | None:
        try:
            try:
                ticks = self._calls.epoch(call_id or 0)
                kind[0] = _CONTINUE if ticks else _YIELD
                delta[0] = ticks or 1
            except BaseException as error:
                self._calls.failed(call_id or 0, error)
                failure: int = _error_new(b"rho")
                return failure
        except BaseException as error:
            self._interruption.error = error
            self.interrupted = True
        return None


def memory_grow(context: Any, memory: Any, pages: int) -> bool:
    """Makes a guest's memory larger by so many pages; False where its store or the module itself bounds it."""
    before = ctypes.c_uint64()
    error = _memory_grow(context, memory, pages, ctypes.byref(before))
    if error:
        _error_delete(error)
    return not error


def check(error: int | None) -> None:
    """Raises what a call of C answered that has nothing to do with a guest's code."""
    if error:
        raise RuntimeError(_take_error(error).message)


def raise_fault(error: int | None, trap: int | None) -> None:
    """Raises :class:`GuestFault` for the error or the trap that a call into a guest answered, if it did."""
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


def forget_fault(error: int | None, trap: int | None) -> None:
    """Lets go of what a call into a guest answered and nobody wants to know."""
    if error:
        _error_delete(error)
    if trap:
        _trap_delete(trap)


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
    function = ctypes.cast(LONG.wasmtime_engine_increment_epoch, _P).value
    return int(function or 0), int(_engine_clone(engine.ptr()))
