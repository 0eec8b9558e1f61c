"""A call with capabilities, the native way: on the event loop's thread, in a thread, and in neither while it waits."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import anyio.lowlevel

from rho_wasm.errors import ToolError
from rho_wasm.results import HandlerResult
from rho_wasm.sandbox.asking_call import AskingCall
from rho_wasm.sandbox.attempt import Attempt
from rho_wasm.sandbox.crossing import encode, read_at_once
from rho_wasm.sandbox.entry import sure_entry, traced
from rho_wasm.sandbox.errands import Errands
from rho_wasm.sandbox.faults import CallFailed, Unexplained, stopped
from rho_wasm.sandbox.guest_call import SLICE_S

__all__ = ["Conversation"]


class Conversation(Attempt):
    """First :meth:`at_once`, and where that answers None, :meth:`to_its_end`. It is begun once, and never again."""

    call: AskingCall
    kind_of_call = AskingCall
    _unexplained: Callable[[], CallFailed] | None = None
    _held_s = 0.0
    """How long it held the event loop's thread since that was last given back."""

    def in_thread(self) -> HandlerResult | ToolError | None:
        """What it comes to; None where a capability's answer has to be awaited first."""
        call, limits = self.call, self._limits
        try:
            if self._result is not None:
                return self._over(self._result)
            if self._unexplained is not None:
                raise self._unexplained()
            answer = self._answer
            if answer is None:
                if not self._sliced:
                    data = self._data or encode(self._request, limits=limits)
                    self._sliced = True
                    call.prepare(data, sliced=True)
                if not call.advance_in_thread():
                    return None
                answer = call.answer
            return self._over(self._parsed(answer))
        except Exception as error:
            return self._over(self._failed(error))

    @sure_entry
    async def to_its_end(self, errands: Errands) -> HandlerResult | ToolError:
        """The rest of the call. Cancellation stops the guest, and leaves once it is gone."""
        try:
            while True:
                if self.call.waits:
                    try:
                        errands.enter(self)
                        result = await self._waited()
                    finally:
                        errands.leave(self)
                else:
                    self._held_s = 0.0
                    result = await errands.run(self)
                if result is not None:
                    return result
        finally:
            self.close()

    async def _waited(self) -> HandlerResult | ToolError | None:
        """Awaits what was asked for, and goes on for a slice."""
        result: HandlerResult | ToolError | None
        call, asking = self.call, self.call.state.asking
        assert asking is not None, "it waits for that"
        try:
            if not await self._awaited(asking):
                raise stopped(call.waited_in_vain(asking))
            if self._held_s >= SLICE_S:
                # Answers that are there at once must not hold up all else that this thread does.
                self._held_s = 0.0
                await anyio.lowlevel.checkpoint()
            if traced():
                call.waits = False
                return None
            began = monotonic()
            call.come_back()
            result = self._read(self._slice())
            self._held_s += monotonic() - began
        except Exception as error:
            result = self._failed(error)
        if result is None:
            return None
        if call.state.logged and not call.state.log.short:
            self._result = result  # Making the log inert takes its time.
            return None
        return self._over(result)

    def _one_slice(self, data: bytes) -> bytes | None:
        self._sliced = True
        self.call.prepare(data, sliced=True)
        return self._slice()

    def _slice(self) -> bytes | None:
        """The answer's bytes, where the guest came to its end."""
        call = self.call
        before_ms = call.guest_cpu_ms
        try:
            return call.answer if call.advance_on_loop() else None
        except Unexplained as end:
            self._unexplained = end.explain
            return None
        finally:
            self._overran(call.guest_cpu_ms - before_ms)

    def _read(self, answer: bytes | None) -> HandlerResult | None:
        self._answer = answer
        return None if answer is None else read_at_once(answer, limits=self._limits)

    def _over(self, result: HandlerResult | ToolError) -> HandlerResult | ToolError:
        self.call.finish()
        return result
