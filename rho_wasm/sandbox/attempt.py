"""One call from the request's map to the handler's result: at once on the event loop's thread, else in a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rho_wasm import envelope, plain
from rho_wasm.errors import PlainError, TooLarge, ToolError
from rho_wasm.results import HandlerResult
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.guest_call import GuestCall
from rho_wasm.sandbox.module import Linked
from rho_wasm.sandbox.runtime import Runtime
from rho_wasm.sandbox.slices import SlicedCall
from rho_wasm.sandbox.state import CallState, Elsewhere
from rho_wasm.untrusted import type_name

__all__ = ["Attempt"]

_BYTES_AT_ONCE = 64 * 1024
_ITEMS_AT_ONCE = 400
"""Of a request or an answer that is encoded or decoded on the event loop's thread. An item takes up to 1 µs."""
_OVERRUN_CPU_MS = 2.0
_MAX_OVERRUNS = 3
"""So often a module may compute for so long in one slice before its calls go to a thread from the start. No slice ends
inside code that neither loops nor calls, nor inside an instantiation: touching 6,500 pages so takes 17 ms."""
_REQUEST_BOUNDS = {"bytes": "request_bytes", "depth": "depth", "items": "items"}


class Attempt:
    """First :meth:`at_once`, and where that answers None, :meth:`in_thread`. :meth:`cancel` comes from any thread.

    Both answer a :class:`ToolError` rather than raise one: the traceback of what was raised holds all of the call.
    """

    __slots__ = (
        "_answer",
        "_data",
        "_linked",
        "_make_state",
        "_request",
        "_result",
        "_runtime",
        "_sliced",
        "_tool",
        "call",
    )

    def __init__(
        self,
        runtime: Runtime,
        linked: Linked,
        make_state: Callable[[], CallState],
        request: Mapping[str, Any],
        *,
        tool: str,
        deadline_ms: float,
    ) -> None:
        self._runtime = runtime
        self._linked = linked
        self._make_state = make_state
        self._request = request
        self._tool = tool
        self._data: bytes | None = None
        self._sliced: SlicedCall | None = None
        self._answer: bytes | None = None
        self._result: HandlerResult | ToolError | None = None
        self.call = GuestCall(runtime, linked, make_state(), deadline_ms=deadline_ms)

    def cancel(self) -> None:
        """Stops the guest within a moment; :meth:`in_thread` then ends."""
        self.call.cancel()

    def close(self) -> None:
        """Lets go of a guest that was left, where no thread will go on with it."""
        if self._sliced is not None:
            self._sliced.close()

    def at_once(self) -> HandlerResult | ToolError | None:
        """What the call comes to if that takes no longer than a slice. Nothing here takes much longer."""
        if self._runtime.way == "public" or self._linked.overruns >= _MAX_OVERRUNS:
            return None
        limits = self.call.state.limits
        try:
            self._data = plain.encode(
                self._request,
                max_bytes=min(limits.request_bytes, _BYTES_AT_ONCE),
                max_depth=limits.depth,
                max_items=min(limits.items, _ITEMS_AT_ONCE),
            )
        except PlainError:
            return None  # The thread encodes it within the bounds that it really has, and says what was wrong.
        result: HandlerResult | ToolError | None
        try:
            self._answer = self._one_slice(self._data)
            result = None if self._answer is None else self._small(self._answer)
        except Exception as error:
            result = _as_tool_error(error, tool=self._tool, call=self.call)
        if result is None:
            return None
        if not self.call.state.log.short:
            self._result = result  # Making the log inert takes its time.
            return None
        self.call.finish()
        return result

    def in_thread(self) -> HandlerResult | ToolError:
        """The rest of the call, however long it takes."""
        try:
            if self._result is not None:
                return self._result
            limits = self.call.state.limits
            answer = self._answer
            if answer is None and self._sliced is not None:
                answer = self._sliced.rest()
            elif answer is None:
                data = self._data or plain.encode(
                    self._request, max_bytes=limits.request_bytes, max_depth=limits.depth, max_items=limits.items
                )
                answer = self.call.run(data)
            return envelope.parse_answer(answer, limits=limits)
        except Exception as error:
            return _as_tool_error(error, tool=self._tool, call=self.call)
        finally:
            self.call.finish()

    def _one_slice(self, data: bytes) -> bytes | None:
        """The answer's bytes; None where the call must go on, or begin again, in a thread."""
        call = self.call
        sliced = SlicedCall(call, data)
        try:
            if sliced.first_slice():
                return sliced.answer
        except Elsewhere:
            self._begin_again()
            return None
        finally:
            if call.guest_cpu_ms > _OVERRUN_CPU_MS:
                self._linked.overruns += 1
        if call.state.capabilities is None:
            self._sliced = sliced
        else:
            # Capabilities are code of the host's, which does not fit on a guest's stack.
            sliced.close()
            self._begin_again()
        return None

    def _begin_again(self) -> None:
        """What ran had no effect outside of itself, and is forgotten; only its time counts."""
        before = self.call
        before.state.error = None
        self.call = before.anew(self._make_state())

    def _small(self, answer: bytes) -> HandlerResult | None:
        """The result of a small answer; None for any other, and for one that is wrong."""
        limits = self.call.state.limits
        try:
            value = plain.decode(
                answer,
                max_bytes=min(limits.answer_bytes, _BYTES_AT_ONCE),
                max_depth=limits.depth,
                max_items=min(limits.items, _ITEMS_AT_ONCE),
            )
        except PlainError:
            return None
        return envelope.read_answer(value, limits=limits)


def _as_tool_error(error: Exception, *, tool: str, call: GuestCall) -> ToolError:
    """What a call becomes that ended in ``error``."""
    if isinstance(error, CallFailed):
        return ToolError(
            error.reason,
            tool=tool,
            detail=error.detail,
            limit=error.limit,
            value=error.value,
            backtrace=error.trace,
        )
    if isinstance(error, envelope.Raised):
        reason = "out_of_memory" if call.memory_refused else "handler_raised"
        return ToolError(reason, tool=tool, detail=str(error), backtrace=error.trace)
    if isinstance(error, envelope.BadAnswer):
        return ToolError("bad_answer", tool=tool, detail=error.detail, limit=error.limit, value=error.value)
    if isinstance(error, PlainError):
        limit, value = (_REQUEST_BOUNDS[error.what], error.limit) if isinstance(error, TooLarge) else (None, None)
        return ToolError("invalid_arguments", tool=tool, detail=str(error), limit=limit, value=value)
    # A capability of the host's, or a bug of ours.
    detail = f"a host function raised {type_name(error)}"
    return ToolError("capability_fault", tool=tool, detail=detail, cause=error)
