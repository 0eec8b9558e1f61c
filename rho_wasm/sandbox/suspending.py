"""Host functions in which a guest on a fiber is left until its answer is there: no thread, and no stack, waits for it.

wasmtime calls such a function on the guest's stack, and is given a continuation: a function of C that says whether the
answer is there, asked at each poll. Ours is ``strlen`` of a flag of two bytes, which says 0 or 1. So what is asked at a
poll is never code of Python's, and cannot be interrupted, raise, or run on a fiber.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import wasmtime

from rho_wasm.sandbox.abi import ValueType
from rho_wasm.sandbox.capi import SHORT, HostCalls, Trampolines, ffi, prototype, trap_new
from rho_wasm.sandbox.entry import enters_surely, sure_entry

__all__ = ["GOES_ON", "STAYS", "SuspendingCalls", "SuspendingTrampolines", "flag_address", "new_flag"]

STAYS, GOES_ON = 0, 1
"""What a flag says: its first byte."""

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_I32 = 0


class _Continuation(ctypes.Structure):
    """``wasmtime_async_continuation_t``."""

    _fields_ = (("callback", _P), ("env", _P), ("finalizer", _P))


_HOST_CALLBACK: Any = ctypes.CFUNCTYPE(
    None, _P, _P, _P, _SIZE, _P, _SIZE, ctypes.POINTER(_P), ctypes.POINTER(_Continuation)
)
_caller_context = prototype(SHORT, "wasmtime_caller_context", _P, _P)
_get_data = prototype(SHORT, "wasmtime_context_get_data", _P, _P)
_define = prototype(SHORT, "wasmtime_linker_define_async_func", _P, _P, _P, _SIZE, _P, _SIZE, _P, _P, _P, _P)


def new_flag(value: int = STAYS) -> Any:
    """What a continuation looks at."""
    return ctypes.create_string_buffer(bytes([value]), 2)


def flag_address(flag: Any) -> int:
    return ctypes.addressof(flag)


class SuspendingCalls(HostCalls, Protocol):
    """What the trampoline asks."""

    def suspending_call(
        self, call_id: int, index: int, arguments: Sequence[int], results: int | None
    ) -> tuple[int | None, int]:
        """One call of the host function ``index``: its answer, and where the flag is that says when to go on.

        0 in place of a flag: at once. Where there is one, the answer may be written to ``results`` until it says so.
        """


class SuspendingTrampolines(Trampolines):
    """The callbacks of :class:`Trampolines`, and the one of these host functions."""

    __slots__ = ("_at_once", "_kept", "_says_so", "_suspending_callback", "_suspending_calls")

    def __init__(self, calls: SuspendingCalls) -> None:
        super().__init__(calls)
        self._suspending_calls = calls
        self._says_so = ctypes.cast(ctypes.CDLL(None).strlen, _P).value
        self._kept = new_flag(GOES_ON)
        self._at_once = _Continuation(self._says_so, flag_address(self._kept), None)
        self._suspending_callback = _HOST_CALLBACK(self._suspending)

    def define_suspending(
        self,
        linker: wasmtime.Linker,
        module: str,
        name: str,
        *,
        params: Sequence[ValueType],
        results: Sequence[ValueType],
        index: int,
    ) -> None:
        """:meth:`define`, for a linker whose instances run on fibers only."""
        self._define_by(_define, self._suspending_callback, linker, module, name, params, results, index)

    @classmethod
    def cannot_be_interrupted(cls) -> bool:
        return super().cannot_be_interrupted() and enters_surely(cls._suspending)

    # As in capi.py: the handler of the outer ``try`` calls nothing. Without a continuation wasmtime ends the process,
    # so one is there before anything is called.

    @sure_entry
    def _suspending(
        self,
        index: int | None,
        caller: int,
        params: int | None,
        count: int,
        results: int | None,
        wanted: int,
        trap: Any,
        continuation: Any,
    ) -> None:
        try:
            continuation[0] = self._at_once
            call_id = 0
            try:
                call_id = _get_data(_caller_context(caller)) or 0
                values = (ffi.wasmtime_val_t * count).from_address(params) if count else ()
                arguments = [value.of.i64 if value.kind else value.of.i32 for value in values]
                answer, flag = self._suspending_calls.suspending_call(call_id, index or 0, arguments, results)
                if wanted and answer is not None:
                    result = ffi.wasmtime_val_t.from_address(results)
                    result.kind = _I32
                    result.of.i32 = answer
                if flag:
                    continuation[0] = _Continuation(self._says_so, flag, None)
            except BaseException as error:
                if not call_id:
                    raise  # Nobody knows yet whose call it is.
                self._suspending_calls.failed(call_id, error)
                trap[0] = trap_new(b"rho", 3)
        except BaseException as error:
            self._interruption.error = error
            self.interrupted = True
