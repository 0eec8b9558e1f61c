"""Every call of C that wasmtime's public Python API lacks, in this one file. Each error that C answers is raised here.

The public wrappers will not do for calls into a guest: they keep the exception of a host callback in one global of the
process (with 8 threads, 2 % of the calls raised another thread's exception), look up one export by making all of them
(quadratic), and know neither the timer nor the epoch callback. The objects handed round are the public ones.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import wasmtime
from wasmtime import _ffi

from rho_wasm.sandbox.abi import ValueType
from rho_wasm.sandbox.config import EngineConfig

__all__ = [
    "MAX_FRAMES",
    "EpochTimer",
    "Frame",
    "GuestFault",
    "HostCalls",
    "Instance",
    "Trampolines",
    "fault_handler_is_ours",
    "fuel_left",
    "library_path",
    "make_engine",
    "memory_span",
    "raise_epoch",
    "segv_handler",
]

MAX_FRAMES = 32
"""Frames of a backtrace that are read, innermost first."""
_NAME_BYTES = 512
"""Bytes of a function's name that are read, 128 characters: a 90 KB name once made a text of 1.8 MB."""
_MESSAGE_BYTES = 2_000

ffi: Any = _ffi
_LIBC: Any = ctypes.CDLL(None, use_errno=True)
_HOST_CALLBACK: Any = ffi.wasmtime_func_callback_t
_FINALIZER: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_EPOCH_CALLBACK: Any = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.POINTER(ffi.wasmtime_context_t),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint8),
)
_KINDS = {"i32": 0, "i64": 1}
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
        ffi.wasmtime_engine_increment_epoch(engine.ptr())


class Frame(NamedTuple):
    """One frame of a backtrace: the function's name (the guest's raw text, cut), its number, the offset in it."""

    name: str | None
    function: int
    offset: int


class GuestFault(Exception):
    """A call into a guest did not end in an answer. ``code`` is wasmtime's trap code, None for other errors."""

    def __init__(self, code: int | None, message: str, frames: tuple[Frame, ...]) -> None:
        super().__init__(code)
        self.code = code
        self.message = message
        self.frames = frames


def fuel_left(context: Any) -> int:
    """Fuel that the store has left."""
    left = ctypes.c_uint64()
    _check(ffi.wasmtime_context_get_fuel(context, ctypes.byref(left)))
    return left.value


class Instance:
    """One instance of a module in a store of its own, and calls into it.

    ``call_id`` is what host functions and the epoch callback find the call by: a number, because an object that the
    store keeps alive and that reaches the store would keep both alive for ever.
    """

    __slots__ = ("_instance", "context")

    def __init__(self, store: wasmtime.Store, *, call_id: int, trampolines: Trampolines) -> None:
        self.context = ffi.wasmtime_store_context(store.ptr())
        self._instance = ffi.wasmtime_instance_t()
        ffi.wasmtime_context_set_data(self.context, call_id)
        ffi.wasmtime_store_epoch_deadline_callback(store.ptr(), trampolines.epoch, call_id, _FINALIZER())

    def instantiate(self, pre: wasmtime.InstancePre) -> None:
        """Raises :class:`GuestFault` if memories or tables are over the store's limits, or a segment does not fit."""
        trap = ctypes.POINTER(ffi.wasm_trap_t)()
        error = ffi.wasmtime_instance_pre_instantiate(
            pre.ptr(), self.context, ctypes.byref(self._instance), ctypes.byref(trap)
        )
        _raise_fault(error, trap)

    def function(self, name: str) -> Any | None:
        """The exported function ``name``, None if there is none."""
        item = self._export(name)
        return item.of.func if item is not None and item.kind == _FUNC else None

    def memory(self, name: str) -> Any | None:
        """The exported memory ``name``, None if there is none."""
        item = self._export(name)
        return item.of.memory if item is not None and item.kind == _MEMORY else None

    def flag(self, name: str) -> bool:
        """Whether the exported i32 global ``name`` is there and not 0."""
        item = self._export(name)
        if item is None or item.kind != _GLOBAL:
            return False
        value = ffi.wasmtime_val_t()
        ffi.wasmtime_global_get(self.context, ctypes.byref(item.of.global_), ctypes.byref(value))
        return bool(value.of.i32)

    def _export(self, name: str) -> Any | None:
        raw = name.encode()
        item = ffi.wasmtime_extern_t()
        found = ffi.wasmtime_instance_export_get(
            self.context, ctypes.byref(self._instance), raw, len(raw), ctypes.byref(item)
        )
        return item if found else None

    def call(self, function: Any, *arguments: int, answers: bool) -> int:
        """Calls with i32 arguments; answers the integer result, 0 where the function has none.

        The types are checked by wasmtime. Raises :class:`GuestFault`.
        """
        given = (ffi.wasmtime_val_t * len(arguments))()
        for value, argument in zip(given, arguments, strict=True):
            value.kind = 0
            value.of.i32 = argument
        results = (ffi.wasmtime_val_t * int(answers))()
        trap = ctypes.POINTER(ffi.wasm_trap_t)()
        error = ffi.wasmtime_func_call(
            self.context, ctypes.byref(function), given, len(given), results, len(results), ctypes.byref(trap)
        )
        _raise_fault(error, trap)
        if not answers:
            return 0
        return int(results[0].of.i64 if results[0].kind == _KINDS["i64"] else results[0].of.i32)


def memory_span(context: Any, memory: Any) -> tuple[int, int]:
    """Where a memory lies in this process, and its size in bytes. True until the guest runs again."""
    base = ffi.wasmtime_memory_data(context, ctypes.byref(memory))
    size = int(ffi.wasmtime_memory_data_size(context, ctypes.byref(memory)))
    return ctypes.cast(base, ctypes.c_void_p).value or 0, size


class HostCalls(Protocol):
    """What the trampolines ask: the calls that run, found by their ids."""

    def host_call(self, call_id: int, context: Any, index: int, arguments: Sequence[int]) -> int | None:
        """One call of the host function ``index``."""

    def epoch(self, call_id: int, context: Any) -> int:
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
        _check(
            ffi.wasmtime_linker_define_func(
                linker.ptr(),
                module_name,
                len(module_name),
                function_name,
                len(function_name),
                signature.ptr(),
                self.host,
                index,
                _FINALIZER(),
            )
        )

    def _host(self, index: int | None, caller: Any, params: Any, count: int, results: Any, wanted: int) -> int:
        call_id = 0
        try:
            context = ffi.wasmtime_caller_context(caller)
            call_id = ffi.wasmtime_context_get_data(context) or 0
            arguments = [params[n].of.i64 if params[n].kind else params[n].of.i32 for n in range(count)]
            answer = self._calls.host_call(call_id, context, index or 0, arguments)
            if wanted:
                # Every result of the ABI is an i32; anything but an int is a bug of the host function.
                results[0].kind = _KINDS["i32"]
                results[0].of.i32 = answer
        except BaseException as error:
            self._calls.failed(call_id, error)
            return _address(ffi.wasmtime_trap_new(b"rho", 3))
        return 0

    def _epoch(self, context: Any, call_id: int | None, delta: Any, kind: Any) -> int:
        try:
            kind[0] = _CONTINUE
            delta[0] = self._calls.epoch(call_id or 0, context)
        except BaseException as error:
            self._calls.failed(call_id or 0, error)
            return _address(ffi.wasmtime_error_new(b"rho"))
        return 0


def _address(pointer: Any) -> int:
    return int(ctypes.cast(pointer, ctypes.c_void_p).value or 0)


def _check(error: Any) -> None:
    """Raises what a call answered that has nothing to do with a guest's code."""
    if error:
        raise RuntimeError(_take_error(error).message)


def _raise_fault(error: Any, trap: Any) -> None:
    if error:
        raise _take_error(error)
    if trap:
        code = ctypes.c_uint8()
        known = ffi.wasmtime_trap_code(trap, ctypes.byref(code))
        frames = ffi.wasm_frame_vec_t()
        ffi.wasm_trap_trace(trap, ctypes.byref(frames))
        fault = GuestFault(code.value if known else None, "", _take_frames(frames))
        ffi.wasm_trap_delete(trap)
        raise fault


def _take_error(error: Any) -> GuestFault:
    message = ffi.wasm_byte_vec_t()
    ffi.wasmtime_error_message(error, ctypes.byref(message))
    text = ctypes.string_at(message.data, min(message.size, _MESSAGE_BYTES)).decode("utf-8", "replace")
    ffi.wasm_byte_vec_delete(ctypes.byref(message))
    frames = ffi.wasm_frame_vec_t()
    ffi.wasmtime_error_wasm_trace(error, ctypes.byref(frames))
    fault = GuestFault(None, text, _take_frames(frames))
    ffi.wasmtime_error_delete(error)
    return fault


def _take_frames(frames: Any) -> tuple[Frame, ...]:
    read = tuple(_frame(frames.data[n]) for n in range(min(frames.size, MAX_FRAMES)))
    ffi.wasm_frame_vec_delete(ctypes.byref(frames))
    return read


def _frame(frame: Any) -> Frame:
    name = ffi.wasmtime_frame_func_name(frame)
    text = None
    if name:
        raw = name.contents
        text = ctypes.string_at(raw.data, min(raw.size, _NAME_BYTES)).decode("utf-8", "replace")
    return Frame(text, ffi.wasm_frame_func_index(frame), ffi.wasm_frame_func_offset(frame))


class _SigEvent(ctypes.Structure):
    """``struct sigevent`` of Linux on 64 bits (glibc and musl), for SIGEV_THREAD."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("padding", ctypes.c_char * 32),
    )


class _TimerSpec(ctypes.Structure):
    """``struct itimerspec``: interval, then first expiry, in seconds and nanoseconds."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


class EpochTimer:
    """A POSIX timer whose function is ``wasmtime_engine_increment_epoch`` itself: no tick needs the interpreter lock.

    A Python thread as ticker starves: with 4 busy threads a deadline of 200 ms held after 2,700 ms. Linux only.
    Raises OSError where a timer cannot be had.
    """

    __slots__ = ("_id", "_period_ns")

    def __init__(self, engine: wasmtime.Engine, *, period_ms: float) -> None:
        monotonic, sigev_thread = 1, 2
        self._period_ns = round(period_ms * 1e6)
        self._id = ctypes.c_void_p()
        # The clone is never deleted, on purpose: a notification that is on its way when the timer is deleted must
        # find the engine alive, and nothing tells when the last one has come. It keeps 3 KiB.
        clone = ffi.wasmtime_engine_clone(engine.ptr())
        tick = ctypes.cast(ffi.dll.wasmtime_engine_increment_epoch, ctypes.c_void_p)
        event = _SigEvent(value=_address(clone), notify=sigev_thread, function=tick)
        self._checked(_LIBC.timer_create(monotonic, ctypes.byref(event), ctypes.byref(self._id)))

    def arm(self) -> None:
        self._set(self._period_ns)

    def disarm(self) -> None:
        self._set(0)

    def close(self) -> None:
        self._checked(_LIBC.timer_delete(self._id))

    def _set(self, period_ns: int) -> None:
        spec = _TimerSpec(interval_ns=period_ns, first_ns=period_ns)
        self._checked(_LIBC.timer_settime(self._id, 0, ctypes.byref(spec), None))

    @staticmethod
    def _checked(result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), "a POSIX timer failed")


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def segv_handler() -> int:
    """The address of this process's handler of SIGSEGV, 0 for none. It is the first field of ``struct sigaction``."""
    action = (ctypes.c_void_p * 32)()
    sigsegv = 11
    if _LIBC.sigaction(sigsegv, None, ctypes.byref(action)) != 0:
        return 0
    return action[0] or 0


def fault_handler_is_ours() -> bool:
    """True if wasmtime's own handler answers the faults of guests now."""
    if sys.platform == "darwin":
        return True  # There wasmtime listens on a Mach port, which faulthandler does not touch.
    handler = segv_handler()
    info = _DlInfo()
    if handler == 0 or not _LIBC.dladdr(ctypes.c_void_p(handler), ctypes.byref(info)):
        return False
    return bool(info.file == library_path().encode())
