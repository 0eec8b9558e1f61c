"""One call while it runs: what the model asked, what the handler is told, the clock, and what is measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from rho_wasm.results import NOTHING_LOGGED, ToolResult

if TYPE_CHECKING:
    from rho_wasm.offered import ToolSnapshot
    from rho_wasm.tools import Tool

__all__ = ["CallClock", "CallMeter", "RunningCall", "ToolCall", "ToolContext"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the model made it. ``arguments`` is a map.

    An adapter hands on the text of a model that wrote no JSON: the runner reads it where it can mean one thing only.
    Anything else is refused by the runner.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


class CallClock:
    """The deadline of one call: it starts once the call gate allows, and stands still while the call waits for others.

    A handler that must wait for something that is not its own time (a slot, a compilation) waits inside ``paused()``.
    One that keeps the deadline itself (a guest, which the sandbox interrupts) runs inside ``paused()`` too, and
    is bound by ``remaining_ms()``.
    """

    _scope: anyio.CancelScope | None = None
    _started = False
    _deadline = math.inf
    """Of the event loop's clock; while it stands still, the seconds that are left."""
    _paused = 0
    _ran = False
    """Whether it ran until the outermost pause began."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        """The bound of the call in milliseconds."""

    def start(self, scope: anyio.CancelScope | None, *, paused: bool = False) -> None:
        """Starts the clock: ``scope`` is cancelled when the time is over. Called once, by the runner.

        ``paused``: the handler keeps the deadline itself, so the clock stands still for the whole call and needs no
        scope. (Setting a timer of the event loop and taking it back, twice, cost a guest call more than all else
        outside its sandbox.)
        """
        self._started = True
        self._scope = scope
        if scope is None or paused:
            self._deadline, self._paused = self.timeout_ms / 1000, 1
            return
        self._deadline = scope.deadline = anyio.current_time() + self.timeout_ms / 1000

    def remaining_ms(self) -> float:
        """Milliseconds left; never negative. The whole timeout before the start; exact inside ``paused()`` too."""
        if not self._started:
            return self.timeout_ms
        left = self._deadline if self._paused else self._deadline - anyio.current_time()
        return max(0.0, left * 1000)

    def paused(self) -> AbstractContextManager[None]:
        """The clock stands still inside. May be nested. Only in the task of the call."""
        return _Paused(self)

    def pause(self) -> None:
        """The clock stands still until :meth:`go_on`, once for each time: what :meth:`paused` does."""
        self._paused += 1
        scope = self._scope
        if scope is not None and self._paused == 1:
            self._deadline -= anyio.current_time()
            scope.deadline = math.inf
            self._ran = True

    def go_on(self) -> None:
        """Ends one :meth:`pause`."""
        self._paused -= 1
        if self._ran and not self._paused and self._scope is not None:
            self._deadline += anyio.current_time()
            self._scope.deadline = self._deadline
            self._ran = False

    def spend(self, milliseconds: float) -> None:
        """Takes what a handler used inside ``paused()`` that was its own time after all (a guest's run)."""
        self._deadline -= milliseconds / 1000
        if self._scope is not None and not self._paused:
            self._scope.deadline = self._deadline


class _Paused(AbstractContextManager[None]):
    __slots__ = ("_clock",)

    def __init__(self, clock: CallClock) -> None:
        self._clock = clock

    def __enter__(self) -> None:
        self._clock.pause()

    def __exit__(self, *exception: object) -> None:
        self._clock.go_on()


class CallMeter:
    """What a call used and left behind, filled on the way by whoever runs it and read by the runner and by sources.

    Mutable on purpose, and the only thing of a call that is: a handler's answer is what it returns, this is beside it.
    """

    fuel_used: int | None = None
    """Fuel that the guest burnt; None where no guest ran, and where one was stopped from outside."""
    guest_ms = 0.0
    """Wall clock in the guest itself, without queueing and compiling (milliseconds)."""
    guest_cpu_ms = 0.0
    """CPU time of the same (milliseconds): a starved host must not strike a tool. Of a call that was over within half a
    millisecond it is taken to be all of that."""
    host_cpu_ms = 0.0
    """CPU time of the host for what the guest asked of it (milliseconds): reading requests, checking them, making
    replies, but no waiting. It is the guest's doing like its own."""
    at_once = 1.0
    """How many calls of its artifact ran during it, itself included, on average: they shared what CPU there was."""
    generation: int | None = None
    artifact: str | None = None
    """SHA-256 of the artifact that answered, in hex; None for host tools."""
    log = NOTHING_LOGGED
    backtrace: tuple[str, ...] = ()
    own_bound = True
    """False where the deadline was not the tool's own (a lower per-call timeout, a parent's): it is no strike."""
    call_depth = 0
    """How deeply calls may nest below this one, once it has called another tool."""
    counted: frozenset[object] = frozenset()
    """What was counted of the calls that this one made, directly or through others: each once."""
    called: frozenset[str] = frozenset()
    """Names of the tools that this call called, directly or through others: what they said may be in its answer."""
    repaired: Mapping[str, Any] | None = None
    """What the model gave, where the schema refused it and it was put right; None where it was taken as it is."""

    def __init__(self, clock: CallClock) -> None:
        self.clock = clock


@dataclass(frozen=True, init=False, kw_only=True)
class ToolContext:
    """What a handler may know of its call, beside the arguments. Missing is None.

    ``context`` is the host's own value, opaque to rho_wasm, and ``registry`` the registry that the call came through:
    neither ever crosses into a guest. ``values`` is plain data, the only host data that does. ``session_id`` and
    ``request_id`` cross only where the policy says so. ``model`` is the loop's model, for handlers that ask it.
    ``attempt`` is above 1 where the host tries a call again that crashed. ``tools`` is what the model was shown in this
    turn. ``caller`` is the context of the tool that makes this call, through ``tool.call``; None for a model's call.
    """

    call: ToolCall
    context: Any = None
    session_id: str | None = None
    request_id: str | None = None
    registry: Any = None
    model: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 1
    meter: CallMeter = field(default_factory=lambda: CallMeter(CallClock(math.inf)), repr=False, compare=False)
    tools: ToolSnapshot | None = field(default=None, repr=False, compare=False)
    caller: ToolContext | None = field(default=None, repr=False)

    # Every call makes one: all fields at once, where a frozen dataclass would set them one by one.
    def __init__(
        self,
        *,
        call: ToolCall,
        context: Any = None,
        session_id: str | None = None,
        request_id: str | None = None,
        registry: Any = None,
        model: Any = None,
        values: Mapping[str, Any] | None = None,
        attempt: int = 1,
        meter: CallMeter | None = None,
        tools: ToolSnapshot | None = None,
        caller: ToolContext | None = None,
    ) -> None:
        self.__dict__.update(
            call=call,
            context=context,
            session_id=session_id,
            request_id=request_id,
            registry=registry,
            model=model,
            values={} if values is None else values,
            attempt=attempt,
            meter=CallMeter(CallClock(math.inf)) if meter is None else meter,
            tools=tools,
        )
        if caller is not None:
            self.__dict__["caller"] = caller

    def callers(self) -> Iterator[ToolContext]:
        """The contexts of the tools that wait for this call, the nearest first."""
        caller = self.caller
        while caller is not None:
            yield caller
            caller = caller.caller

    def counts(self, what: object) -> bool:
        """Whether ``what`` happened for the first time in the call of a model that this one is part of.

        Of one that no tool made everything counts.
        """
        if self.caller is None:
            return True
        *_, outermost = self.callers()
        meter = outermost.meter
        if what in meter.counted:
            return False
        meter.counted |= {what}
        return True


class RunningCall:
    """A call that a source is told of: it may cancel it, and hears how it ended."""

    __slots__ = ("_callbacks", "_cancel", "_result", "call", "context", "generation", "started_at", "tool")

    def __init__(self, tool: Tool, context: ToolContext, cancel: Callable[[], None], generation: int | None) -> None:
        self.call = context.call
        self.tool = tool
        self.context = context
        self.generation = generation
        """The generation that the tool came from; None for host tools."""
        self.started_at = time.time()
        self._cancel = cancel
        self._callbacks: list[Callable[[ToolResult], None]] | None = []
        self._result: ToolResult | None = None

    @property
    def meter(self) -> CallMeter:
        return self.context.meter

    def cancel(self) -> None:
        """Ends the call: its result becomes ``cancelled``. From the event loop's thread; does nothing once it ended.

        A guest's call runs to its own end first where no source has said that it may do this (``cancels_calls``).
        """
        self._cancel()

    def add_done_callback(self, callback: Callable[[ToolResult], None]) -> None:
        """``callback(result)`` is called once, in the event loop's thread; at once if the call has ended."""
        if self._callbacks is None:
            assert self._result is not None
            callback(self._result)
        else:
            self._callbacks.append(callback)

    def finish(self, result: ToolResult) -> list[BaseException]:
        """Called once, by the runner. Answers what the callbacks raised, which costs nothing but a report."""
        callbacks, self._callbacks, self._result = self._callbacks or (), None, result
        errors: list[BaseException] = []
        for callback in callbacks:
            try:
                callback(result)
            except Exception as error:
                errors.append(error)
        return errors
