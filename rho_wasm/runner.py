"""One call, from what the model asked to what it reads: look-up, arguments, gate, clock, watch, execute, result."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import anyio
import anyio.lowlevel

from rho_wasm.arguments import check_in_thread, copied_arguments, guests_copy, mended_arguments
from rho_wasm.calls import CallClock, CallMeter, RunningCall, ToolCall, ToolContext
from rho_wasm.cancellation import Watermark, let_through
from rho_wasm.declared_output import check_declared_output
from rho_wasm.errors import SchemaInvalid, ToolError
from rho_wasm.events import OnEvent, SourceFailed, ToolFinished, ToolRunning, emit, subscriber
from rho_wasm.executor import DefaultExecutor, ToolExecutor, fault_of
from rho_wasm.gates import Gate, Gatekeeper, allow_all
from rho_wasm.host_threads import HostThreads
from rho_wasm.limits import HostLimits
from rho_wasm.offered import KnownTool, ToolSnapshot
from rho_wasm.outcomes import Advise, answered, not_answered, with_notes
from rho_wasm.plain import Copied
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import HandlerResult, Ok, ToolResult
from rho_wasm.side_by_side import side_by_side
from rho_wasm.tools import Tool
from rho_wasm.untrusted import exception_text, inert

__all__ = ["ToolRunner"]

_AT_ONCE = 64
_NO_VALUES: Mapping[str, Any] = MappingProxyType({})


class ToolRunner:
    """Runs calls, each to exactly one :class:`ToolResult`, whatever its tool does.

    ``gate`` is asked before each call's clock starts, and may wait for a person: a waiting call holds no slot.
    ``executor`` invokes handlers. ``default_timeout_ms`` bounds a call whose tool sets none. At most
    ``max_concurrent`` calls of host tools run at once; further ones wait their turn, which is not the tool's time
    (guests have slots of their own, in their sandbox). A text longer than ``max_result_chars`` is cut and kept whole in
    ``registry.outputs``; ``advise`` may add to that of a call that failed. ``on_event`` hears :class:`ToolRunning` once
    a gate allowed, and :class:`ToolFinished` once for every call. One runner belongs to one event loop at a time.

    What a deadline promises. A guest is interrupted. An async handler is cancelled, at every further await until it
    ends, and what it answers after its time is not taken; one that computes without awaiting, or catches its
    cancellation for ever, holds the event loop or its call: run such code in a sync handler. A sync handler runs in a
    daemon thread and is abandoned; see ``executor``.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        gate: Gate = allow_all,
        executor: ToolExecutor | None = None,
        default_timeout_ms: int = 30_000,
        max_concurrent: int = 64,
        max_result_chars: int | None = None,
        on_event: OnEvent | None = None,
        advise: Advise | None = None,
    ) -> None:
        if default_timeout_ms <= 0 or max_concurrent <= 0:
            raise ValueError("default_timeout_ms and max_concurrent are above 0")
        limits = HostLimits()
        self.registry = registry
        self.default_timeout_ms = default_timeout_ms
        self.max_concurrent = max_concurrent
        self.max_result_chars = limits.max_result_chars if max_result_chars is None else max_result_chars
        self.executor: ToolExecutor = executor or DefaultExecutor(
            threads=HostThreads(max_abandoned=limits.max_abandoned_handlers)
        )
        gatekeeper = Gatekeeper(gate, threads=HostThreads(max_abandoned=limits.max_abandoned_handlers))
        self._gatekeeper = None if gatekeeper.allows_all else gatekeeper
        self._slots = anyio.Semaphore(max_concurrent, fast_acquire=True)
        self._on_event = subscriber(on_event)
        self.advise = advise

    async def run_many(
        self,
        calls: Sequence[ToolCall],
        *,
        tools: ToolSnapshot | None = None,
        context: Any = None,
        session_id: str | None = None,
        request_id: str | None = None,
        model: Any = None,
        values: Mapping[str, Any] = _NO_VALUES,
        timeout_ms: int | None = None,
        attempt: int = 1,
    ) -> list[ToolResult]:
        """Runs ``calls`` side by side, each as :meth:`run` does, with a timeout of its own; none affects another.

        The results are in the order of the calls, whichever ended first. They begin in that order too, as many at a
        time as host tools may run at once, but 64 at least: further ones begin as earlier ones end.
        """
        calls = tuple(calls)
        results: dict[int, ToolResult] = {}

        async def one(place: int) -> None:
            results[place] = await self.run(
                calls[place],
                tools=tools,
                context=context,
                session_id=session_id,
                request_id=request_id,
                model=model,
                values=values,
                timeout_ms=timeout_ms,
                attempt=attempt,
            )

        await side_by_side(one, len(calls), at_once=max(_AT_ONCE, self.max_concurrent))
        return [results[place] for place in range(len(calls))]

    async def run(
        self,
        call: ToolCall,
        *,
        tools: ToolSnapshot | None = None,
        context: Any = None,
        session_id: str | None = None,
        request_id: str | None = None,
        model: Any = None,
        values: Mapping[str, Any] = _NO_VALUES,
        timeout_ms: int | None = None,
        attempt: int = 1,
        caller: ToolContext | None = None,
    ) -> ToolResult:
        """Runs ``call`` and answers its end; never raises for a tool's fault.

        ``tools`` is what the model was shown (None: what the registry offers now). ``context`` and the rest are what
        the handler is told in its :class:`ToolContext`. ``timeout_ms`` bounds this call below the tool's own bound: a
        deadline there is not counted against the tool, whatever else the call ends in is. A call that crashed and is
        tried again has an ``attempt`` above 1: all attempts together are one call and one strike, while a call without
        it counts for itself, whatever its id. Arguments that the schema refuses are mended where they have one meaning
        (:func:`rho_wasm.arguments.mended_arguments`; not those of a ``caller``), and the result says so to the model.
        ``caller`` is the context of a tool that makes the call (:meth:`run_for`): no manual tool runs for it. Only the
        caller's own cancellation and KeyboardInterrupt leave this, never inside an exception group.
        """
        watermark = Watermark()
        if watermark.asked_before:
            await anyio.lowlevel.checkpoint()
        told = ToolContext(
            call=call,
            context=context,
            session_id=session_id,
            request_id=request_id,
            registry=self.registry,
            model=model,
            values=values,
            attempt=attempt,
            meter=CallMeter(CallClock(self.default_timeout_ms)),
            tools=tools,
            caller=caller,
        )
        notes: tuple[str, ...] = ()
        try:
            tool, known = self._found(call.name, tools)
            if caller is not None and tool.manual:
                raise ToolError("blocked", tool=tool.name, detail="it is manual: only a model can ask for it")
            schema, guest = known.schema, known.host_made
            if isinstance(schema, SchemaInvalid):
                raise ToolError("not_found", tool=tool.name, detail=inert(str(schema)))
            # The default executor alters no guest's arguments: only its handler sees this copy, made as that needs it.
            in_order = known.takes_copies and type(self.executor) is DefaultExecutor
            try:
                if caller is None:
                    arguments, checked = copied_arguments(call.arguments, schema, tool=call.name, in_order=in_order)
                else:
                    arguments, checked = await guests_copy(call.arguments, schema, tool=call.name, in_order=in_order)
                if not checked:
                    await check_in_thread(arguments, schema, tool=call.name)
            except ToolError as refused:
                if caller is not None:  # A program writes what it means.
                    raise
                mended = await mended_arguments(call.arguments, tool, schema, refused, in_order=in_order)
                arguments, notes, told.meter.repaired = mended.copy, mended.notes, mended.repaired
                # The gate, the sources and the handler see what runs.
                call = replace(call, arguments=mended.given)
                told = replace(told, call=call)
            bound = self.default_timeout_ms if tool.timeout_ms is None else tool.timeout_ms
            if timeout_ms is not None and timeout_ms < bound:
                bound, told.meter.own_bound = timeout_ms, False
            told.meter.clock.timeout_ms = bound
            waited = self._gatekeeper is not None
            if self._gatekeeper is not None:
                await self._gatekeeper.ask(call, told)
                if call.arguments != arguments.value:
                    raise ToolError("invalid_arguments", tool=tool.name, detail="they changed while the gate was asked")
            # Guests wait in their sandbox, which has slots for all of them and for each tool. Were they to hold slots
            # here meanwhile, one slow guest could keep every other tool from running.
            if not guest:
                if self._slots.value:
                    self._slots.acquire_nowait()
                else:
                    await self._slots.acquire()
                    waited = True
            try:
                if waited:
                    # It may have been long: what was withdrawn meanwhile does not run.
                    self._check_withdrawn(tool, known, tools)
                result = await self._run_in_slot(tool, known, arguments, told, watermark)
            finally:
                if not guest:
                    self._slots.release()
        except ToolError as error:
            result = not_answered(error, told, generation=error.generation)
        except BaseException:
            self._finish(not_answered(_cancelled(call.name), told, generation=None), told)
            raise
        if notes:
            result = with_notes(result, notes)
        if self._on_event is not None:
            self._finish(result, told)
        if self.advise is not None and result.status == "error":
            return self.advise(result, told)
        return result

    async def run_for(self, call: ToolCall, caller: ToolContext, timeout_ms: int) -> ToolResult:
        """Runs ``call`` for the tool whose call ``caller`` is the context of, as :meth:`run` does.

        It is answered from the tools that the caller's model was shown, within the caller's session and request, and
        told the caller's context and values. ``timeout_ms`` is what the caller has left. Which tools it may call, and
        how deeply, is not looked at here: see :func:`rho_wasm.capabilities.tools.tool_capabilities`.
        """
        return await self.run(
            call,
            tools=caller.tools,
            context=caller.context,
            session_id=caller.session_id,
            request_id=caller.request_id,
            model=caller.model,
            values=caller.values,
            timeout_ms=timeout_ms,
            attempt=caller.attempt,
            caller=caller,
        )

    def _found(self, name: str, tools: ToolSnapshot | None) -> tuple[Tool, KnownTool]:
        """The tool, where it may run. Raises ToolError."""
        if tools is None:
            found = self.registry.find(name)
        else:
            shown = tools.lookup(name)
            found = None if shown is None else (shown, self.registry.known(shown))
        if found is None or found[0].handler is None:
            detail = "" if found is None else "it is declared, but nothing here answers it"
            raise ToolError("not_found", tool=name, detail=detail)
        if found[1].may_refuse:
            _check_refusal(*found)
        return found

    def _check_withdrawn(self, tool: Tool, known: KnownTool, tools: ToolSnapshot | None) -> None:
        _check_refusal(tool, known)
        if tools is not None and tools.lookup(tool.name) is None:
            raise ToolError("not_found", tool=tool.name, detail="it was withdrawn while the call waited")

    async def _run_in_slot(
        self, tool: Tool, known: KnownTool, arguments: Copied, context: ToolContext, watermark: Watermark
    ) -> ToolResult:
        guest, generation = known.host_made, known.generation
        stop = _Stop()
        if not guest or self.registry.calls_may_be_cancelled:
            stop.scope = anyio.CancelScope()
        running = RunningCall(tool, context, stop.cancel, generation)
        answer: HandlerResult | None = None
        raised: BaseException | None = None
        result: ToolResult | None = None
        started = time.perf_counter()
        try:
            try:
                if stop.scope is None:
                    self._begin(running, None, guest=guest)
                    answer = await self._handled(tool, context, arguments)
                else:
                    with stop.scope as scope:
                        self._begin(running, scope, guest=guest)
                        if not stop.asked:
                            answer = await self._handled(tool, context, arguments)
            except BaseException as error:
                let_through(error, watermark)
                raised = error
            try:
                if watermark.passed:
                    await watermark.raise_swallowed()
                # The sandbox keeps a guest's deadline, so an answer of it came in time.
                if answer is None or stop.asked or not guest:
                    _check_end(raised, running, stop, watermark, guest=guest)
                assert answer is not None
                if not known.answers_any and isinstance(answer, Ok):
                    await check_declared_output(answer, tool, known)
                result = answered(
                    answer,
                    tool,
                    context,
                    generation=generation,
                    duration_ms=(time.perf_counter() - started) * 1000,
                    max_chars=self.max_result_chars,
                    outputs=self.registry.outputs,
                )
            except ToolError as error:
                spent_ms = (time.perf_counter() - started) * 1000
                result = not_answered(error, context, generation=generation, duration_ms=spent_ms)
            finally:
                raised = None  # its traceback holds this frame: together they would wait for a garbage collection
            return result
        finally:
            # Sources count on hearing the end of each call that they were told of, whatever the end.
            ended = result or not_answered(_cancelled(tool.name), context, generation=generation)
            if faults := running.finish(ended):
                self._report(faults, tool)

    def _begin(self, running: RunningCall, scope: anyio.CancelScope | None, *, guest: bool) -> None:
        if self._on_event is not None:
            self._tell_of(running)
        running.context.meter.clock.start(scope, paused=guest)
        self.registry.watch(running)

    def _handled(self, tool: Tool, context: ToolContext, arguments: Copied) -> Awaitable[HandlerResult]:
        if arguments.in_order:
            handled: Awaitable[HandlerResult] = tool.handler(arguments.value, context, arguments)
            return handled
        return self.executor.execute(tool, arguments.value, context)

    def _tell_of(self, running: RunningCall) -> None:
        emit(
            self._on_event,
            ToolRunning(
                call=running.call,
                tool=running.tool.name,
                generation=running.generation,
                session_id=running.context.session_id,
            ),
        )

    def _report(self, faults: list[BaseException], tool: Tool) -> None:
        for fault in faults:
            text = exception_text(fault, trusted=True)
            emit(
                self._on_event,
                SourceFailed(source="a watcher of calls", operation="done", error=text, tools=(tool.name,)),
            )

    def _finish(self, result: ToolResult, context: ToolContext) -> None:
        if self._on_event is not None:
            event = ToolFinished(call=context.call, tool=result.tool, result=result, session_id=context.session_id)
            emit(self._on_event, event)


class _Stop:
    """The scope of one call, None where nothing needs one, and whether somebody who watches the call ended it."""

    asked = False
    scope: anyio.CancelScope | None = None

    def cancel(self) -> None:
        self.asked = True
        if self.scope is not None:
            self.scope.cancel()


def _check_end(
    raised: BaseException | None, running: RunningCall, stop: _Stop, watermark: Watermark, *, guest: bool
) -> None:
    """Raises the ToolError that stands in place of an answer, where one does."""
    tool, scope, clock = running.tool, stop.scope, running.meter.clock
    if stop.asked:
        raise _cancelled(tool.name)
    if not guest and ((scope is not None and scope.cancelled_caught) or clock.remaining_ms() <= 0):
        raise ToolError("deadline", tool=tool.name, limit="timeout_ms", value=int(clock.timeout_ms))
    if raised is not None:
        try:
            raise raised if isinstance(raised, ToolError) else fault_of(raised, tool, watermark)
        finally:
            del raised


def _cancelled(tool: str) -> ToolError:
    return ToolError("cancelled", tool=tool)


def _check_refusal(tool: Tool, known: KnownTool) -> None:
    """Quarantine and revoked grants: the handler is one object in every snapshot, so what it says holds at once."""
    if not known.may_refuse:
        return
    try:
        refused = tool.handler.refusal()
    except Exception as error:
        refused = "quarantined", f"nobody could say whether it may run ({exception_text(error)})"
    if refused is not None:
        reason, detail = refused
        raise ToolError(reason, tool=tool.name, detail=detail, generation=known.generation)
