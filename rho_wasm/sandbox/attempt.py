"""One call from the request's map to the handler's result: at once on the event loop's thread, else in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rho_wasm import envelope
from rho_wasm.errors import ToolError
from rho_wasm.limits import Limits
from rho_wasm.plain import Copied
from rho_wasm.results import HandlerResult
from rho_wasm.sandbox.crossing import as_tool_error, encode, encode_at_once, read_at_once
from rho_wasm.sandbox.entry import sure_entry, traced
from rho_wasm.sandbox.module import NativeModule
from rho_wasm.sandbox.slices import SlicedCall
from rho_wasm.sandbox.state import CallState, Capabilities, Elsewhere

__all__ = ["Attempt"]

_OVERRUN_SLICES = 4
_MAX_OVERRUNS = 3
"""So often a module may compute in one slice for as long as so many, before its calls go to a thread from the start. No
slice ends inside code that neither loops nor calls, nor inside an instantiation: touching 6,500 pages takes 17 ms."""


class Attempt:
    """First :meth:`at_once`, and where that answers None, :meth:`in_thread`. :meth:`cancel` comes from any thread.

    Both answer a :class:`ToolError` rather than raise one: the traceback of what was raised holds all of the call.
    """

    _data: bytes | None = None
    _sliced = False
    """A slice of the call was begun."""
    _keeps = False
    _answer: bytes | None = None
    _result: HandlerResult | ToolError | None = None

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
        self.call = SlicedCall(linked.owner, linked, self._new_state(), deadline_ms=deadline_ms)

    def cancel(self) -> None:
        """Stops the guest within a moment; :meth:`in_thread` then ends."""
        self.call.cancel()

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
            result = as_tool_error(error, tool=self._tool, memory_refused=self.call.memory_refused)
        if result is None:
            return None
        state = self.call.state
        if state.logged:
            if not state.log.short:
                self._result = result  # Making the log inert takes its time.
                return None
            self.call.finish()
        return result

    def in_thread(self) -> HandlerResult | ToolError:
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
            return envelope.parse_answer(answer, limits=limits)
        except Exception as error:
            return as_tool_error(error, tool=self._tool, memory_refused=self.call.memory_refused)
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
            if call.guest_cpu_ms > _OVERRUN_SLICES * call.slice_s * 1000:
                self._module.linked.overruns += 1
        if call.state.capabilities is not None:
            # Capabilities are code of the host's, which does not fit on a guest's stack.
            call.close()
            self._begin_again()
        return None

    def _begin_again(self) -> None:
        """What ran had no effect outside of itself, and is forgotten; only its time counts."""
        before, self._sliced = self.call, False
        before.state.error = None
        self.call = before.anew(self._new_state())

    def _new_state(self) -> CallState:
        module = self._module
        return CallState(
            limits=self._limits, declared=module.declared, capabilities=self._capabilities, names=module.names
        )
