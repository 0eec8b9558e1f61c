"""One call from the request's map to the handler's result: at once on the event loop's thread, else in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from rho_wasm import envelope
from rho_wasm.errors import ToolError
from rho_wasm.host_threads import Aside, GaveUp
from rho_wasm.limits import Limits
from rho_wasm.long_work import LONG_BYTES, NoTurn, Place
from rho_wasm.plain import Copied
from rho_wasm.results import HandlerResult
from rho_wasm.sandbox.asking import Asking
from rho_wasm.sandbox.crossing import as_tool_error, blamed, encode, encode_at_once, read_at_once
from rho_wasm.sandbox.entry import sure_entry, traced
from rho_wasm.sandbox.errands import Errands
from rho_wasm.sandbox.faults import stopped
from rho_wasm.sandbox.module import NativeModule
from rho_wasm.sandbox.slices import SlicedCall
from rho_wasm.sandbox.state import CallState, Capabilities, Elsewhere, GuestTrap

__all__ = ["Attempt"]

_OVERRUN_SLICES = 4
_MAX_OVERRUNS = 3
"""So often a module may compute in one slice for as long as so many, before its calls go to a thread from the start. No
slice ends inside code that neither loops nor calls, nor inside an instantiation: touching 6,500 pages takes 17 ms."""


class Attempt:
    """First :meth:`at_once`, and where that answers None, :meth:`to_its_end`.

    Both answer a :class:`ToolError` rather than raise one: the traceback of what was raised holds all of the call.
    """

    _data: bytes | None = None
    _sliced = False
    """A slice of the call was begun."""
    _keeps = False
    _answer: bytes | None = None
    _result: HandlerResult | ToolError | None = None
    _waiting: anyio.CancelScope | None = None
    _place: Place | None = None
    """Where it waits to have its answer read."""
    kind_of_call: type[SlicedCall] = SlicedCall
    aside: Aside | None = None
    """How what a thread waits for is awaited, where there are capabilities."""

    def __init__(
        self,
        module: NativeModule,
        request: Mapping[str, Any],
        tool: str,
        limits: Limits,
        deadline_ms: float,
        capabilities: Capabilities | None,
        copied: Copied | None,
    ) -> None:
        self._module = module
        self._request = request
        self._copied = copied
        self._tool = tool
        self._limits = limits
        self._capabilities = capabilities
        linked = module.linked
        if capabilities is not None and linked.owner.way == "public":
            self.aside = Aside()
        self.call = self.kind_of_call(linked.owner, linked, self._new_state(), deadline_ms=deadline_ms)

    def cancel(self) -> None:
        """Stops the guest within a moment; :meth:`in_thread` then ends. From the event loop's thread."""
        self.call.cancel()
        if self._place is not None:
            self._place.leave()
        if self._waiting is not None:
            self._waiting.cancel()

    def keep(self) -> None:
        """A thread goes on with it, and needs the module, whoever waits for it."""
        self._keeps = self._module.hold()

    @sure_entry
    def close(self) -> None:
        """Lets go of what is left of it, where no thread will go on with it. Idempotent."""
        keeps, self._keeps = self._keeps, False
        try:
            if self._sliced:
                self.call.close()
        finally:
            self.call.state.wait = None  # It holds this call, and the call holds it.
            if keeps:
                self._module.release()

    def at_once(self) -> HandlerResult | ToolError | None:
        """What the call comes to if that takes no longer than a slice. Nothing here takes much longer."""
        linked = self._module.linked
        if linked.owner.way == "public" or linked.overruns >= _MAX_OVERRUNS or traced():
            return None
        limits = self._limits
        result: HandlerResult | ToolError | None
        try:
            self._data = encode_at_once(self._request, limits=limits, copied=self._copied)
            if self._data is None:
                return None
            self._answer = self._one_slice(self._data)
            result = None if self._answer is None else read_at_once(self._answer, limits=limits)
        except Exception as error:
            result = self._failed(error)
        if result is None:
            return None
        state = self.call.state
        if state.logged:
            if not state.log.short:
                self._result = result  # Making the log inert takes its time.
                return None
            self.call.finish()
        return result

    @sure_entry
    async def to_its_end(self, errands: Errands) -> HandlerResult | ToolError:
        """The rest of the call. Cancellation stops the guest, and leaves once it is gone."""
        result = await errands.run(self, aside=self.aside)
        assert result is not None, "only what is awaited elsewhere is left in a thread"
        return result

    def in_thread(self) -> HandlerResult | ToolError | None:
        """The rest of the call, however long it takes."""
        try:
            if self._result is not None:
                return self._result
            limits = self._limits
            answer = self._answer
            if answer is None and self._sliced:
                answer = self.call.rest()
            elif answer is None:
                answer = self.call.run(self._data or encode(self._request, limits=limits))
            return self._parsed(answer)
        except Exception as error:
            return self._failed(error)
        finally:
            self.call.finish()
            self.close()

    def _one_slice(self, data: bytes) -> bytes | None:
        """The answer's bytes; None where the call must go on, or begin again, in a thread."""
        call = self.call
        self._sliced = True
        call.prepare(data, sliced=True)
        try:
            if call.advance():
                return call.answer
        except Elsewhere:
            self._begin_again()
            return None
        finally:
            self._overran(call.guest_cpu_ms)
        return None

    def _overran(self, cpu_ms: float) -> None:
        """A slice took that long: whether it is remembered of the module."""
        if cpu_ms > _OVERRUN_SLICES * self.call.slice_s * 1000:
            self._module.linked.overruns += 1

    def _parsed(self, answer: bytes) -> HandlerResult:
        """What the guest answered, in a thread, in its turn where that is long."""
        limits, call = self._limits, self.call
        if len(answer) <= LONG_BYTES:
            return envelope.parse_answer(answer, limits=limits)
        self._place = place = Place(self._module.sha256)
        if call.state.cancelled:
            place.leave()
        try:
            with place.turn(within_s=call.remaining_ms() / 1000):
                return envelope.parse_answer(answer, limits=limits)
        except NoTurn:
            raise stopped(call.out_of_time("its answer was to be read")) from None

    def _failed(self, error: Exception) -> ToolError:
        ended = as_tool_error(error, tool=self._tool, memory_refused=self.call.memory_refused)
        return blamed(ended, self.call.state.unavailable)

    def _wait(self, asking: Asking) -> None:
        """Has an answer awaited, while this thread waits for it."""
        assert self.aside is not None, "there are capabilities"
        try:
            done = self.aside.wait(lambda: self._awaited(asking))
        except GaveUp:
            raise GuestTrap("cancelled", "the call was cancelled") from None
        if not done:
            raise self.call.waited_in_vain(asking)

    async def _awaited(self, asking: Asking) -> bool:
        """Whether the answer came in time, and nobody gave up the call."""
        call = self.call
        remaining_ms = call.remaining_ms()
        with anyio.move_on_after(max(0.0, remaining_ms / 1000)) as self._waiting:
            if call.state.cancelled:
                return False
            await asking.wait(remaining_ms=remaining_ms)
        stopped, self._waiting = self._waiting.cancelled_caught, None
        return not stopped

    def _begin_again(self) -> None:
        """What ran had no effect outside of itself, and is forgotten; only its time counts."""
        before, self._sliced = self.call, False
        before.state.error = None
        self.call = before.anew(self._new_state())

    def _new_state(self) -> CallState:
        module = self._module
        state = CallState(
            limits=self._limits, declared=module.declared, capabilities=self._capabilities, names=module.names
        )
        state.guest = module.sha256
        if self.aside is not None:
            state.wait = self._wait
        return state
