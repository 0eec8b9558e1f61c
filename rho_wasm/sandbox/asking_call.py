"""A call that may ask for capabilities: its guest is left in the host call, which is answered off its stack."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rho_wasm.long_work import NoTurn
from rho_wasm.sandbox.asking import Step
from rho_wasm.sandbox.entry import sure_entry
from rho_wasm.sandbox.faults import stopped
from rho_wasm.sandbox.guest_call import HOST_BYTE_FUEL, HOST_CALL_FUEL
from rho_wasm.sandbox.imports import HostFunction
from rho_wasm.sandbox.memory import GuestMemory
from rho_wasm.sandbox.slices import SlicedCall
from rho_wasm.sandbox.state import GuestTrap
from rho_wasm.sandbox.suspending_fiber import SuspendingFiber

__all__ = ["AskingCall"]


class AskingCall(SlicedCall):
    """:meth:`advance_on_loop` or :meth:`advance_in_thread` until one answers True, with what :attr:`waits` between.

    Each answers False where the other is next, or the capability's own answer is awaited first. What runs on the
    guest's stack copies the request's bytes, and no more.
    """

    waits = False
    """The capability's answer must be awaited before anything else."""
    _asked_at = 0.0

    def suspending_call(
        self, function: HostFunction, arguments: Sequence[int], results: int | None
    ) -> tuple[int | None, int]:
        state, fiber = self.state, self._fiber
        memory = GuestMemory(*fiber.span())
        answer = function.call(state, memory, *arguments)
        state.charged += HOST_CALL_FUEL + HOST_BYTE_FUEL * memory.touched
        if self._spent(fiber) > state.limits.fuel:
            raise GuestTrap("out_of_fuel", limit="fuel", value=state.limits.fuel)
        if state.asking is not None:
            self._asked_at = time.monotonic()
            return answer, fiber.suspend(results if answer is None else None)
        if state.hurried and time.monotonic() >= self.slice_ends:
            return answer, fiber.suspend(None)
        return answer, 0

    def advance_on_loop(self) -> bool:
        """Goes on until the guest is done, its slice is over, or a host call takes long. Raises as ``run`` does."""
        if not self._replied():
            return False
        while not self.advance():
            if not self._replied() or time.monotonic() >= self.slice_ends:
                return False
        return True

    def advance_in_thread(self) -> bool:
        """Goes on until the guest is done, or a capability's answer has to be awaited. Raises as ``run`` does."""
        with self.runtime.ticking():
            self.move()
            while self._replied():
                if self.advance():
                    return True
        return False

    def come_back(self) -> None:
        """The guest goes on on the event loop's thread. Only while it is left in a host call."""
        self.waits = False
        self.state.hurried = True
        self.slice_ends = time.monotonic() + self.slice_s
        self._fiber.come_back(self.slice_ends)

    @sure_entry
    def abandon(self) -> None:
        try:
            if self._instance is not None and self.state.asking is not None:
                self.state.asking = None
                self._waited_s += time.monotonic() - self._asked_at
        finally:
            SlicedCall.abandon(self)

    def _replied(self) -> bool:
        """Whether the guest has what it asked for, if it did."""
        state, asking = self.state, self.state.asking
        if asking is None:
            return True
        remaining_ms = self.remaining_ms()
        if state.cancelled or remaining_ms <= 0:
            raise stopped(self.waited_in_vain(asking))
        cpu_began = time.thread_time()
        try:
            step = asking.go_on(remaining_ms=remaining_ms, hurried=state.hurried)
        except NoTurn:
            raise stopped(self.waited_in_vain(asking)) from None
        finally:
            self._host_cpu_s += time.thread_time() - cpu_began
        if step is not Step.REPLIED:
            self.waits = step is Step.LATER
            return False
        self.replied(asking)
        state.asking = None
        self._fiber.answer(len(asking.reply))
        self._waited_s += time.monotonic() - self._asked_at
        return True

    @property
    def _fiber(self) -> SuspendingFiber:
        assert isinstance(self._instance, SuspendingFiber), "capabilities are asked for from such a fiber"
        return self._instance
