"""One call in a fresh instance: bytes of a request in, bytes of an answer out. Runs in a worker thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import wasmtime

from rho_wasm.results import CallLog
from rho_wasm.sandbox.abi import ALLOC, CALL, INITIALIZE, MEMORY
from rho_wasm.sandbox.capi import GuestFault, Instance, fuel_left, memory_span
from rho_wasm.sandbox.faults import CallFailed, explain, out_of_memory, stopped
from rho_wasm.sandbox.imports import HostFunction
from rho_wasm.sandbox.memory import GuestMemory, OutOfBounds, span
from rho_wasm.sandbox.state import CallState, GuestTrap
from rho_wasm.sandbox.ticker import PERIOD_MS
from rho_wasm.sandbox.virtual import SeededRandom
from rho_wasm.sandbox.watch import GROW_REFUSED

if TYPE_CHECKING:
    from rho_wasm.sandbox.runtime import Runtime

__all__ = ["HOST_BYTE_FUEL", "HOST_CALL_FUEL", "MAX_TICKS", "GuestCall"]

MAX_TICKS = 10
"""A guest asks at least every 50 ms whether to go on. Asking takes the interpreter lock, which others may hold."""

HOST_CALL_FUEL = 10_000
"""Of each host call: it costs about 10 µs in Python, as long as 10,000 units of a guest's own."""
HOST_BYTE_FUEL = 10
"""Of each byte that a host call reads or writes: copied, decoded, made inert."""

_MASK = 0xFFFF_FFFF


class GuestCall:
    """One call: made on any thread, run once, on one thread; :meth:`cancel` comes from any."""

    def __init__(self, runtime: Runtime, pre: wasmtime.InstancePre, state: CallState, *, deadline_ms: float) -> None:
        self.state = state
        self.ended = threading.Event()
        """Set when nothing of the guest is left, and the call's thread is done with it."""
        self.log = CallLog()
        self.fuel_used = 0
        """What the guest's instructions and host calls cost, at most ``Limits.fuel``."""
        self.guest_ms = 0.0
        self.guest_cpu_ms = 0.0
        self.memory_refused = False
        """``memory.grow`` answered -1 at least once."""
        self._runtime = runtime
        self._pre = pre
        self._deadline_s = deadline_ms / 1000
        self._ends_at = 0.0
        self._memory: Any = None

    def cancel(self) -> None:
        """Stops the guest within a moment, wherever it is; a call that has not begun ends as soon as it does."""
        self.state.cancelled = True
        self._runtime.ask_all()

    def run(self, request: bytes) -> bytes:
        """The answer's bytes, copied out.

        Raises :class:`CallFailed`, or what a host function raised that is no :class:`GuestTrap`.
        """
        self.state.random = SeededRandom(request)
        began, cpu_began = time.monotonic(), time.thread_time()
        self._ends_at = began + self._deadline_s
        try:
            with self._runtime.running(self) as call_id:
                store = wasmtime.Store(self._runtime.engine)
                try:
                    return self._in_store(store, call_id, request)
                finally:
                    store.close()
        except GuestTrap as cause:
            raise stopped(cause) from None
        finally:
            self.guest_ms = (time.monotonic() - began) * 1000
            self.guest_cpu_ms = (time.thread_time() - cpu_began) * 1000

    def finish(self) -> None:
        """The last thing that the call's thread does: makes the log inert, and tells who waits for the end."""
        self.log = self.state.log.finish()
        self.ended.set()

    def _in_store(self, store: wasmtime.Store, call_id: int, request: bytes) -> bytes:
        limits = self.state.limits
        instance = Instance(
            store,
            call_id=call_id,
            trampolines=self._runtime.trampolines,
            fuel=limits.fuel,
            memory_bytes=limits.memory_bytes,
            table_elements=limits.table_elements,
        )
        entered = False
        try:
            self.ask(instance.context)
            instance.instantiate(self._pre)
            entered = True
            return self._answer(instance, request)
        except GuestFault as fault:
            if self.state.error is not None:
                raise self.state.error from None
            self.memory_refused = entered and instance.flag(GROW_REFUSED)
            raise explain(
                fault,
                cause=self.state.fault,
                limits=limits,
                memory_refused=self.memory_refused,
                names=self.state.names,
                instantiating=not entered,
            ) from None
        finally:
            self.fuel_used = min(limits.fuel, self._spent(instance.context))

    def _answer(self, instance: Instance, request: bytes) -> bytes:
        limits = self.state.limits
        self._memory = instance.memory(MEMORY)
        if (initialize := instance.function(INITIALIZE)) is not None:
            instance.call(initialize, answers=False)
        pointer = instance.call(instance.function(ALLOC), len(request), answers=True) & _MASK
        if pointer == 0:
            raise out_of_memory("rho_alloc had no room for the request", limits=limits)
        memory = self._inside(instance, pointer, len(request), "rho_alloc")
        memory.write(pointer, request)
        self.state.answering = True
        packed = instance.call(instance.function(CALL), pointer, len(request), answers=True)
        self.state.answering = False
        if self._spent(instance.context) > limits.fuel:
            raise GuestTrap("out_of_fuel", limit="fuel", value=self.state.limits.fuel)
        self.memory_refused = instance.flag(GROW_REFUSED)
        pointer, length = packed >> 32 & _MASK, packed & _MASK
        if length == 0:
            raise CallFailed("bad_answer", "the answer is empty")
        if length > limits.answer_bytes + limits.images_bytes:
            raise CallFailed("bad_answer", "the answer is too large", limit="answer_bytes", value=limits.answer_bytes)
        return self._inside(instance, pointer, length, "rho_call").read(pointer, length)

    def _inside(self, instance: Instance, pointer: int, length: int, who: str) -> GuestMemory:
        """The memory as it is now, if it has ``length`` bytes at ``pointer``; else ``bad_answer``."""
        base, size = memory_span(instance.context, self._memory)
        try:
            span(pointer, length, size)
        except OutOfBounds as error:
            raise CallFailed("bad_answer", f"{who} answered {error}") from None
        return GuestMemory(base, size)

    def ask(self, context: int) -> int:
        """In how many ticks to ask again. Raises :class:`GuestTrap` if the guest must end now.

        The monotonic clock decides. Half of what is left is waited for, so ticks that come late cost little.
        """
        if self.state.cancelled:
            raise GuestTrap("cancelled", "the call was cancelled")
        left_ms = (self._ends_at - time.monotonic()) * 1000
        if left_ms <= 0:
            raise GuestTrap("deadline", limit="deadline_ms", value=round(self._deadline_s * 1000))
        if self._spent(context) > self.state.limits.fuel:
            raise GuestTrap("out_of_fuel", limit="fuel", value=self.state.limits.fuel)
        return max(1, min(MAX_TICKS, int(left_ms / 2 / PERIOD_MS)))

    def host_call(self, function: HostFunction, context: int, arguments: Sequence[int]) -> int | None:
        """Runs a host function for the guest and charges it. Raises what it raises."""
        memory = GuestMemory(*memory_span(context, self._memory))
        answer = function.call(self.state, memory, *arguments)
        self.state.charged += HOST_CALL_FUEL + HOST_BYTE_FUEL * memory.touched
        if self._spent(context) > self.state.limits.fuel:
            raise GuestTrap("out_of_fuel", limit="fuel", value=self.state.limits.fuel)
        return answer

    def failed(self, error: BaseException) -> None:
        """Keeps why the host stopped the guest. The first one counts."""
        if isinstance(error, GuestTrap):
            # Tracebacks hold frames, frames this call, and this call the error: only a collection would end that.
            error.__context__ = None
            self.state.fault = self.state.fault or error.with_traceback(None)
        else:
            self.state.error = self.state.error or error

    def _spent(self, context: int) -> int:
        return self.state.limits.fuel - fuel_left(context) + self.state.charged
