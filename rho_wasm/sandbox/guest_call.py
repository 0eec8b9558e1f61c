"""One call in a fresh instance: bytes of a request in, bytes of an answer out, within its limits."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

from rho_wasm.long_work import NoTurn
from rho_wasm.results import NOTHING_LOGGED
from rho_wasm.sandbox.abi import ALLOC, CALL, INITIALIZE
from rho_wasm.sandbox.asking import Asking, Step
from rho_wasm.sandbox.capi import GuestFault
from rho_wasm.sandbox.entry import sure_entry
from rho_wasm.sandbox.faults import CallFailed, Unexplained, explain, out_of_memory, stopped, time_was_over
from rho_wasm.sandbox.frames_section import stopped_at
from rho_wasm.sandbox.imports import HostFunction
from rho_wasm.sandbox.instance import GuestInstance
from rho_wasm.sandbox.interpreter_frames import Stopped
from rho_wasm.sandbox.memory import GuestMemory, OutOfBounds, bytes_at, span
from rho_wasm.sandbox.module import Linked
from rho_wasm.sandbox.state import CallState, Elsewhere, GuestTrap
from rho_wasm.sandbox.ticker import PERIOD_MS
from rho_wasm.sandbox.watch import GROW_REFUSED

if TYPE_CHECKING:
    from rho_wasm.sandbox.runtime import Runtime

__all__ = ["HOST_BYTE_FUEL", "HOST_CALL_FUEL", "HOST_ITEM_FUEL", "IMAGE_SLICE_S", "MAX_TICKS", "SLICE_S", "GuestCall"]

MAX_TICKS = 10
"""A guest asks at least every 50 ms whether to go on. Asking takes the interpreter lock, which others may hold."""

SLICE_S = 0.000_5
"""What a guest may run on the event loop's thread: long enough for a short call, too short for anybody to notice."""

IMAGE_SLICE_S = 0.001_5
"""The same for an image, whose memory is copied first: waking a thread for what is left would take longer than it."""

HOST_CALL_FUEL = 10_000
"""Of each host call: about 10 µs in Python, as long as 10,000 units of a guest's own."""
HOST_BYTE_FUEL = 10
"""Of each byte that a host call reads or writes: copied, decoded, made inert."""
HOST_ITEM_FUEL = 2_000
"""Of each item of a request and of its reply, beside its bytes: one is decoded, checked and encoded in 1 to 4 µs."""

_RAISED = b"raised"
_NAMES_AT_ONCE = 8 * 1024
"""Bytes of a module's names that are looked through on the event loop's thread, for a backtrace."""
_MASK = 0xFFFF_FFFF

_NEW, _INITIALIZE, _ALLOC, _CALL = range(4)
_STAGES = ("instantiation", INITIALIZE, ALLOC, CALL)  # What the guest runs for. It may be left in each.


class GuestCall:
    """One call: made on any thread, run once, by one thread at a time; :meth:`cancel` comes from any."""

    # What most calls never alter is said once, here.
    log = NOTHING_LOGGED
    fuel_used = 0
    """What the guest's instructions and host calls cost, at most ``Limits.fuel``."""
    guest_ms = guest_cpu_ms = 0.0
    """How long the guest was there, less the time that the host took to answer it, and the CPU time of that."""
    memory_refused = False
    """``memory.grow`` answered -1 at least once."""
    slice_s = SLICE_S
    """How long it may run on the event loop's thread."""
    slice_ends = math.inf
    """When the guest must leave the event loop's thread (monotonic clock); never, in a thread of its own."""
    answer = b""
    """The answer's bytes, once the call is over."""
    _began = _ends_at = 0.0
    _waited_s = _host_cpu_s = 0.0
    """How long capabilities took, and how much of that was CPU time."""
    _call_id = 0
    _instance: GuestInstance | None = None
    _memory = (0, 0)
    """Where the guest's memory is, and its size when it was last looked at."""
    _sliced = False
    _stage = _NEW

    def __init__(self, runtime: Runtime, linked: Linked, state: CallState, *, deadline_ms: float) -> None:
        self.state = state
        self.runtime = runtime
        self._linked = linked
        self._deadline_s = deadline_ms / 1000

    def anew(self, state: CallState) -> Self:
        """The same call from its beginning. Its deadline is the first one's, and its time counts on."""
        again = type(self)(self.runtime, self._linked, state, deadline_ms=self._deadline_s * 1000)
        again._began = self._began
        again._waited_s = self._waited_s
        again.guest_cpu_ms = self.guest_cpu_ms
        again._host_cpu_s = self._host_cpu_s
        return again

    @property
    def host_cpu_ms(self) -> float:
        """CPU time of the host for what the guest asked of it."""
        return self._host_cpu_s * 1000

    @property
    def stage(self) -> str:
        """What the guest ran last: ``instantiation``, or an export's name."""
        return _STAGES[self._stage]

    def cancel(self) -> None:
        """Stops the guest within a moment, wherever it is; a call that has not begun ends as soon as it does."""
        self.state.cancelled = True
        if (asking := self.state.asking) is not None:
            asking.leave()
        self.runtime.ask_all()

    def run(self, request: bytes) -> bytes:
        """The whole call on this thread's own stack: the answer's bytes, copied out.

        Raises :class:`CallFailed`, or what a host function raised that is no :class:`GuestTrap`.
        """
        cpu_began, host_began = time.thread_time(), self._host_cpu_s
        self.prepare(request, sliced=False)
        try:
            with self.runtime.ticking():
                over = self.go_on()
        finally:
            self.guest_cpu_ms += (time.thread_time() - cpu_began - self._host_cpu_s + host_began) * 1000
        assert over, "a guest on its thread's own stack is never left"
        return self.answer

    def prepare(self, request: bytes, *, sliced: bool) -> None:
        """What to ask the guest. ``sliced``: on a stack that it can be left on; only where the runtime has those."""
        self.state.seed = request
        self.state.hurried = self._sliced = sliced

    def go_on(self) -> bool:
        """Begins, or goes on where the guest was left. True once the call is over and ``answer`` there.

        False: the guest was left again, so this is called again, or :meth:`abandon`. Raises as :meth:`run` does.
        """
        over = True
        try:
            over = self._advance()
        except GuestTrap as cause:
            raise stopped(cause) from None
        except GuestFault as fault:
            raise self._meant(fault) from None
        finally:
            if over:
                self._end()
        return over

    @sure_entry
    def abandon(self) -> None:
        """The guest was left, and never goes on."""
        if self._instance is not None:
            try:
                self._instance.abandon()
            finally:
                self._end()

    def move(self) -> None:
        """The guest was left, and goes on in a thread of its own."""
        self.slice_ends = math.inf
        self.state.hurried = False
        if self._instance is not None:
            self._instance.move()

    def finish(self) -> None:
        """The last that is done for the call: makes the log inert."""
        if self.state.logged:
            self.log = self.state.log.finish()

    def _open(self) -> GuestInstance:
        runtime = self.runtime
        now = time.monotonic()
        self._began = began = self._began or now
        self._ends_at = began + self._deadline_s
        self._call_id = call_id = runtime.enter(self)
        if self._sliced:
            linked = self._linked
            self.slice_s = slice_s = SLICE_S if linked.preparation is None else IMAGE_SLICE_S
            hurried = self.state.hurried
            if hurried:
                self.slice_ends = now + slice_s
            fiber = runtime.fibers.take() if self.state.capabilities is None else runtime.suspending_fibers.take()
            fiber.open(linked, call_id, self.state.limits, self.slice_ends)
            if not hurried:
                fiber.move()
            self._instance = fiber
            return fiber
        self._instance = own = runtime.own_stack(self._linked, call_id, self.state.limits)
        return own

    @sure_entry
    def _end(self) -> None:
        instance, self._instance = self._instance, None
        try:
            if instance is not None:
                try:
                    most = self.state.limits.fuel
                    spent = most - instance.fuel_left() + self.state.charged
                    self.fuel_used = spent if spent < most else most
                finally:
                    instance.close()
        finally:
            call_id, self._call_id = self._call_id, 0
            if call_id:
                del self.runtime.calls[call_id]
            self.guest_ms = (time.monotonic() - self._began - self._waited_s) * 1000

    def _advance(self) -> bool:
        """Runs the guest from the stage where it was left, if it was; False where it is left again."""
        stage, state, linked = self._stage, self.state, self._linked
        if stage == _NEW:
            instance = self._open()
            if state.cancelled or self._deadline_s <= 0:
                self.ask()
            instance.instantiate()
            self._stage = _INITIALIZE
            if linked.preparation is not None:
                linked.preparation.prepare(instance, state.limits)
            answered = instance.call(INITIALIZE) if INITIALIZE in linked.exports else 0
        else:
            assert self._instance is not None, "it is not over"
            instance = self._instance
            answered = instance.go_on()
        size = len(state.seed)
        if stage < _ALLOC and answered is not None:
            self._stage = stage = _ALLOC
            answered = instance.call(ALLOC, size)
        if stage < _CALL and answered is not None:
            pointer = answered & _MASK
            if pointer == 0:
                raise out_of_memory("rho_alloc had no room for the request", limits=state.limits)
            ctypes.memmove(self._inside(instance, pointer, size, "rho_alloc"), state.seed, size)
            state.answering = linked.entry == CALL
            self._stage = _CALL
            answered = instance.call(linked.entry, pointer, size)
        if answered is None:
            return False
        state.answering = False
        self.answer = self._read(instance, answered)
        return True

    def _read(self, instance: GuestInstance, packed: int) -> bytes:
        limits = self.state.limits
        # What host calls cost is not in the store's own fuel, which ends a guest by itself.
        if self.state.charged and self._spent(instance) > limits.fuel:
            raise GuestTrap("out_of_fuel", limit="fuel", value=limits.fuel)
        pointer, length = packed >> 32 & _MASK, packed & _MASK
        if length == 0:
            raise CallFailed("bad_answer", "the answer is empty")
        if length > limits.answer_bytes + limits.images_bytes:
            raise CallFailed("bad_answer", "the answer is too large", limit="answer_bytes", value=limits.answer_bytes)
        answer: bytes = bytes_at(self._inside(instance, pointer, length, "rho_call"), length)
        if _RAISED in answer:  # Only of a handler that raised is it asked whether it did so for want of memory.
            self.memory_refused = instance.flag(GROW_REFUSED)
        return answer

    def _inside(self, instance: GuestInstance, pointer: int, length: int, who: str) -> int:
        """The address of ``length`` bytes at ``pointer``, neither below 0; ``bad_answer`` out of bounds."""
        base, size = self._memory
        if pointer + length > size:
            # It may have grown since; it never shrinks or moves (``memory_may_move`` of config.py).
            base, size = self._memory = instance.span()
            if pointer + length > size:
                try:
                    span(pointer, length, size)
                except OutOfBounds as error:
                    raise CallFailed("bad_answer", f"{who} answered {error}") from None
        return base + pointer

    def _meant(self, fault: GuestFault) -> BaseException:
        """What it means that the guest stopped so."""
        state, instance = self.state, self._instance
        assert instance is not None, "only a guest that runs faults"
        if state.error is not None:
            return state.error
        entered = self._stage != _NEW
        interpreted = None
        if self._linked.preparation is not None:
            interpreted = stopped_at(self._linked.frames, *instance.span()) if entered else Stopped()
        # Names are looked up one by one, and so are lines.
        long = state.hurried and (len(state.names) > _NAMES_AT_ONCE if interpreted is None else interpreted.long)
        if long and state.capabilities is None:
            return Elsewhere()
        self.memory_refused = entered and instance.flag(GROW_REFUSED)
        explained = partial(
            explain,
            fault,
            cause=state.fault,
            limits=state.limits,
            memory_refused=self.memory_refused,
            names=state.names,
            instantiating=not entered,
            interpreted=interpreted,
        )
        return Unexplained(explained) if long else explained()

    def ask(self) -> int:
        """In how many ticks to ask again, 0 to leave the guest. Raises :class:`GuestTrap` if it must end now.

        The monotonic clock decides. Half of what is left is waited for, so ticks that come late cost little.
        """
        if self.state.cancelled:
            raise GuestTrap("cancelled", "the call was cancelled")
        now = time.monotonic()
        left_ms = (self._ends_at - now) * 1000
        if left_ms <= 0:
            raise time_was_over(self._deadline_s, waited_s=self._waited_s)
        instance = self._instance
        if instance is not None and self._spent(instance) > self.state.limits.fuel:
            raise GuestTrap("out_of_fuel", limit="fuel", value=self.state.limits.fuel)
        if self.state.hurried:
            return 0 if now >= self.slice_ends else 1
        return max(1, min(MAX_TICKS, int(left_ms / 2 / PERIOD_MS)))

    def host_call(self, function: HostFunction, arguments: Sequence[int]) -> int | None:
        """Runs a host function for the guest and charges it. Raises what it raises."""
        instance = self._instance
        assert instance is not None, "only a guest that runs calls the host"
        memory = GuestMemory(*instance.span())
        answer = function.call(self.state, memory, *arguments)
        self.state.charged += HOST_CALL_FUEL + HOST_BYTE_FUEL * memory.touched
        if self.state.asking is not None:
            self._answer(self.state.asking)
            if answer is None:
                answer = len(self.state.reply or b"")
        if self._spent(instance) > self.state.limits.fuel:
            raise GuestTrap("out_of_fuel", limit="fuel", value=self.state.limits.fuel)
        if self.state.hurried:
            self._hurry()
        return answer

    def suspending_call(
        self, function: HostFunction, arguments: Sequence[int], results: int | None
    ) -> tuple[int | None, int]:
        """As :meth:`host_call`, of a guest that can be left in it: see :class:`SuspendingCalls`."""
        raise AssertionError("only a call with capabilities is left in a host function")

    def _answer(self, asking: Asking) -> None:
        """Answers a host call while the guest's own stack waits for it."""
        state = self.state
        began, cpu_began = time.monotonic(), time.thread_time()
        try:
            while asking.go_on(remaining_ms=self.remaining_ms(), hurried=state.hurried) is not Step.REPLIED:
                if state.hurried:
                    raise Elsewhere
                if state.wait is None:
                    asking.give_up("nobody can wait for it here")
                else:
                    state.wait(asking)
            if state.cancelled or self.remaining_ms() <= 0:
                raise self.waited_in_vain(asking)
            self.replied(asking)
        except NoTurn:
            raise self.waited_in_vain(asking) from None
        finally:
            state.asking = None
            self._waited_s += time.monotonic() - began
            self._host_cpu_s += time.thread_time() - cpu_began

    def replied(self, asking: Asking) -> None:
        """The reply waits for the guest from here on."""
        state = self.state
        state.reply = asking.reply
        state.charged += HOST_BYTE_FUEL * len(asking.reply) + HOST_ITEM_FUEL * asking.items
        if asking.unavailable is not None and state.unavailable is None:
            state.unavailable = asking.capability, asking.unavailable

    def remaining_ms(self) -> float:
        """What is left of the call's deadline; below 0 once that has passed."""
        return (self._ends_at - time.monotonic()) * 1000

    def waited_in_vain(self, asking: Asking) -> GuestTrap:
        """What ends the call where nobody waits for a capability's answer any more."""
        return self.out_of_time(f"it waited for {asking.capability or 'the host'}")

    def out_of_time(self, meanwhile: str) -> GuestTrap:
        """What ends a call that was cancelled, or whose deadline passed, while the host did something for it."""
        if self.state.cancelled:
            return GuestTrap("cancelled", "the call was cancelled")
        detail = f"its time was over while {meanwhile}"
        return GuestTrap("deadline", detail, limit="deadline_ms", value=round(self._deadline_s * 1000))

    def _hurry(self) -> None:
        """Ends a slice that is over at the guest's next look at the epoch. Code that never looks has to begin anew.

        Fuel does not bound host calls, and 64 KiB of them in a row, without a loop, are 8,000.
        """
        over = time.monotonic() - self.slice_ends
        if over >= 0:
            self.runtime.tick()
        if over >= SLICE_S:
            raise Elsewhere

    def failed(self, error: BaseException) -> None:
        """Keeps why the host stopped the guest. The first one counts."""
        # Tracebacks hold frames, frames this call, and this call the error: only a collection would end that.
        if isinstance(error, GuestTrap):
            error.__context__ = None
            self.state.fault = self.state.fault or error.with_traceback(None)
        elif isinstance(error, Elsewhere):
            self.state.error = self.state.error or error.with_traceback(None)
        else:
            self.state.error = self.state.error or error

    def _spent(self, instance: GuestInstance) -> int:
        state = self.state
        return state.limits.fuel - instance.fuel_left() + state.charged
