"""An instance that is being started: its exports called one by one, its memory read and written in between."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import wasmtime

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import MAX_DEADLINE_MS, Limits
from rho_wasm.sandbox.abi import GLOBAL_PREFIX, MEMORY
from rho_wasm.sandbox.capi import (
    LONG,
    SHORT,
    GuestFault,
    Trampolines,
    equip,
    ffi,
    make_engine,
    memory_data,
    memory_size,
    prototype,
    raise_epoch,
    raise_fault,
    set_data,
)
from rho_wasm.sandbox.config import EngineConfig
from rho_wasm.sandbox.faults import explain
from rho_wasm.sandbox.imports import HostFunction
from rho_wasm.sandbox.log import LogBuffer
from rho_wasm.sandbox.memory import GuestMemory, span
from rho_wasm.sandbox.state import CallState, GuestTrap
from rho_wasm.sandbox.ticker import Ticker
from rho_wasm.untrusted import inert

if TYPE_CHECKING:
    from rho_wasm.sandbox.boot import BootLimits

__all__ = ["BootInstance", "HostCall", "Stopped"]

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_call = prototype(LONG, "wasmtime_func_call", _P, _P, _P, _P, _SIZE, _P, _SIZE, _P)
_instantiate = prototype(LONG, "wasmtime_linker_instantiate", _P, _P, _P, _P, _P, _P)
_export = prototype(SHORT, "wasmtime_instance_export_get", ctypes.c_bool, _P, _P, ctypes.c_char_p, _SIZE, _P)
_get_global = prototype(SHORT, "wasmtime_global_get", None, _P, _P, _P)

_CALL_ID = 1
_TICKS = 4
_FUNC, _GLOBAL, _MEMORY = 0, 1, 3
_NUMBERS = {"i32": (0, "<I"), "i64": (1, "<Q"), "f32": (2, "<I"), "f64": (3, "<Q")}
_GLOBAL_BYTES = {0: 4, 1: 8, 2: 4, 3: 8, 4: 16}


class HostCall(NamedTuple):
    """A host function that is about to run for the guest. ``memory`` is good for as long as it is asked, no longer."""

    name: str
    arguments: tuple[int, ...]
    memory: GuestMemory
    output: bytes
    """What the guest has written so far to descriptors 1 and 2."""


class Stopped(Exception):
    """The guest was stopped in the host function ``name``, or ended itself in ``proc_exit``.

    ``frames`` are the indices of the functions that it was in, innermost first, at most ``capi.MAX_FRAMES``.
    ``exit_code`` is what it gave to ``proc_exit``, None for anything else.
    """

    def __init__(self, name: str, frames: tuple[int, ...], exit_code: int | None) -> None:
        super().__init__(name)
        self.name = name
        self.frames = frames
        self.exit_code = exit_code


class _Output(LogBuffer):
    """Keeps what is written as it is, and each line of the log as one that was written."""

    __slots__ = ("raw",)

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.raw = bytearray()

    def line(self, level: int, data: bytes, *, dropped: int = 0) -> None:
        self.stream(level, data + b"\n")

    def stream(self, level: int, data: bytes, *, dropped: int = 0) -> None:
        self.raw += data[: self.room]
        self.room -= min(self.room, len(data))


class BootInstance:
    """One instance in an engine of its own. Used by one thread, as a context manager; :meth:`cancel` from any."""

    def __init__(
        self,
        native: bytes,
        config: EngineConfig,
        functions: Sequence[HostFunction],
        limits: BootLimits,
        on_host_call: Callable[[HostCall], bool] | None,
    ) -> None:
        self.exports: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        """The functions that it exports: their parameters' types and their results'."""
        self.stopped: Stopped | None = None
        """For whoever drives it to keep where it stopped."""
        self._native = native
        self._config = config
        self._functions = functions
        self._bounds = Limits(
            fuel=limits.fuel,
            deadline_ms=min(limits.deadline_ms, MAX_DEADLINE_MS),
            memory_bytes=limits.memory_bytes,
            table_elements=limits.table_elements,
        )
        self._deadline_s = limits.deadline_ms / 1000
        self._on_host_call = on_host_call
        self._output = _Output(limits.output_bytes)
        self._state = CallState(limits=self._bounds)
        self._state.log = self._output
        self._asked_to_stop = ""
        self._instance = ffi.wasmtime_instance_t()
        self._memory: Any = None
        self._ends_at = 0.0
        self._engine: wasmtime.Engine | None = None

    @property
    def output(self) -> bytes:
        """What it has written so far to descriptors 1 and 2, and logged, at most ``BootLimits.output_bytes``."""
        return bytes(self._output.raw)

    @property
    def memory_bytes(self) -> int:
        """How large its memory is now."""
        return int(memory_size(self._context, self._memory))

    def call(self, export: str, *arguments: int) -> int:
        """Calls an exported function, and answers its result as an unsigned number (0 where it has none).

        Numbers are the bits of what its parameters are, of either sign. Raises :class:`Stopped`, :class:`CallFailed`
        with the reasons of a call, LookupError for no such function, TypeError for others arguments than it has.
        """
        params, results = self.exports[export]
        if len(params) != len(arguments) or len(results) > 1:
            raise TypeError(f"{export} has {len(params)} parameters and {len(results)} results")
        item = self._exported(export, _FUNC)
        given = (ffi.wasmtime_val_t * len(params))()
        for value, kind, argument in zip(given, params, arguments, strict=True):
            value.kind, width = _NUMBERS[kind][0], 4 if kind in ("i32", "f32") else 8
            bits = (argument & ((1 << 8 * width) - 1)).to_bytes(width, "little")
            ctypes.memmove(ctypes.addressof(value.of), bits, width)
        answers = (ffi.wasmtime_val_t * len(results))()
        trap = _P()
        error = _call(
            self._context, ctypes.byref(item.func), given, len(given), answers, len(answers), ctypes.byref(trap)
        )
        self._raise(error, trap.value)
        return _bits(answers[0]) if results else 0

    def read(self, pointer: int, length: int) -> bytes:
        """Bytes of its memory. Raises ``OutOfBounds`` (a ValueError)."""
        start, count = span(pointer, length, self.memory_bytes)
        return ctypes.string_at(self._base() + start, count)

    def write(self, pointer: int, data: bytes) -> None:
        """Raises ``OutOfBounds`` (a ValueError)."""
        start, count = span(pointer, len(data), self.memory_bytes)
        ctypes.memmove(self._base() + start, data, count)

    def globals(self) -> dict[int, int]:
        """The bits of the globals that are exported as ``rho:global:N``, by N, unsigned."""
        found: dict[int, int] = {}
        for name in self._global_names:
            value = ffi.wasmtime_val_t()
            _get_global(self._context, ctypes.byref(self._exported(name, _GLOBAL).global_), ctypes.byref(value))
            found[int(name.removeprefix(GLOBAL_PREFIX))] = _bits(value)
        return found

    def cancel(self) -> None:
        """Stops the guest within a moment (``cancelled``). From any thread."""
        self._state.cancelled = True
        if (engine := self._engine) is not None:
            raise_epoch(engine, _TICKS)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._engine = engine = make_engine(self._config)
            self._trampolines = Trampolines(self)
            ticker = Ticker(engine)
            stack.callback(ticker.close)
            stack.enter_context(ticker.running())
            self._store = wasmtime.Store(engine)
            stack.callback(self._store.close)
            self._start(engine)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def _start(self, engine: wasmtime.Engine) -> None:
        self._ends_at = time.monotonic() + self._deadline_s
        linker = wasmtime.Linker(engine)
        for index, function in enumerate(self._functions):
            self._trampolines.define(
                linker, function.module, function.name, params=function.params, results=function.results, index=index
            )
        try:
            module = wasmtime.Module.deserialize(engine, self._native)
        except wasmtime.WasmtimeError:
            raise ModuleRejected("compile_failed", "wasmtime does not take what it compiled") from None
        self._native = b""
        self.exports = {
            each.name: (tuple(map(str, each.type.params)), tuple(map(str, each.type.results)))
            for each in module.exports
            if isinstance(each.type, wasmtime.FuncType)
        }
        self._global_names = [each.name for each in module.exports if each.name.startswith(GLOBAL_PREFIX)]
        self._context = equip(
            self._store.ptr(),
            call_id=_CALL_ID,
            trampolines=self._trampolines,
            fuel=self._bounds.fuel,
            memory_bytes=self._bounds.memory_bytes,
            table_elements=self._bounds.table_elements,
        )
        set_data(self._context, _CALL_ID)
        trap = _P()
        error = _instantiate(
            linker.ptr(), self._context, module.ptr(), ctypes.byref(self._instance), ctypes.byref(trap)
        )
        self._raise(error, trap.value, instantiating=True)
        self._memory = ctypes.byref(self._exported(MEMORY, _MEMORY).memory)

    def _base(self) -> int:
        """Where its memory is now."""
        return memory_data(self._context, self._memory) or 0

    def _exported(self, name: str, kind: int) -> Any:
        raw = name.encode()
        item = ffi.wasmtime_extern_t()
        if not _export(self._context, ctypes.byref(self._instance), raw, len(raw), ctypes.byref(item)):
            raise ModuleRejected("export_missing", f"there is no export {inert(name, limit=128)}")
        if item.kind != kind:
            raise ModuleRejected("export_type", f"{inert(name, limit=128)} is something else")
        return item.of

    def _raise(self, error: int | None, trap: int | None, *, instantiating: bool = False) -> None:
        try:
            raise_fault(error, trap)
        except GuestFault as fault:
            cause, exit_code, broken = self._forget_end()
            if broken is not None:
                raise broken from None
            if self._asked_to_stop or exit_code is not None:
                name, self._asked_to_stop = self._asked_to_stop or "proc_exit", ""
                raise Stopped(name, tuple(frame.function for frame in fault.frames), exit_code) from None
            if instantiating and fault.code is None and not fault.frames and cause is None:
                detail = inert(fault.message, limit=500)
                raise ModuleRejected("link_failed", f"it cannot be instantiated: {detail}") from None
            raise explain(fault, cause=cause, limits=self._bounds, memory_refused=False) from None

    def _forget_end(self) -> tuple[GuestTrap | None, int | None, BaseException | None]:
        """Why the host stopped the guest, so that it can be called again: its clock and its chance go on."""
        state = self._state
        why = state.fault, state.exit_code, state.error
        state.fault = state.exit_code = state.error = None
        return why

    # What the trampolines ask.

    def host_call(self, call_id: int, index: int, arguments: Sequence[int]) -> int | None:
        function = self._functions[index]
        if self._memory is None:
            # Nobody can say yet where its memory is.
            raise GuestTrap("trapped", f"its start function calls {function.name} before it is instantiated")
        memory = GuestMemory(self._base(), self.memory_bytes)
        if self._on_host_call is not None:
            asked = HostCall(function.name, tuple(arguments), memory, self.output)
            if self._on_host_call(asked):
                self._asked_to_stop = function.name
                raise GuestTrap("cancelled", f"it was stopped in {function.name}")
        self.epoch(call_id)
        return function.call(self._state, memory, *arguments)

    def epoch(self, call_id: int) -> int:
        if self._state.cancelled:
            raise GuestTrap("cancelled", "the start was cancelled")
        if time.monotonic() > self._ends_at:
            raise GuestTrap("deadline", limit="deadline_ms", value=round(self._deadline_s * 1000))
        return _TICKS

    def failed(self, call_id: int, error: BaseException) -> None:
        if isinstance(error, GuestTrap):
            self._state.fault = self._state.fault or error.with_traceback(None)
        else:
            self._state.error = self._state.error or error


def _bits(value: Any) -> int:
    """What a number is, as unsigned bits. ModuleRejected for a reference."""
    if (size := _GLOBAL_BYTES.get(value.kind)) is None:
        raise ModuleRejected("global_type", "a reference has no bits")
    return int.from_bytes(ctypes.string_at(ctypes.addressof(value.of), size), "little")
