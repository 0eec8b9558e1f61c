"""Runs guests: each call in a fresh instance, in a worker thread, within its limits."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import anyio
import anyio.to_thread

from rho_wasm import envelope, plain
from rho_wasm.calls import CallMeter
from rho_wasm.errors import Closed, PlainError, TooLarge, ToolError
from rho_wasm.host_threads import HostThreads, NoThread, Outcome
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.results import HandlerResult
from rho_wasm.sandbox.cache import CacheStatistics, NativeCache
from rho_wasm.sandbox.crowds import Crowds
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.guest_call import GuestCall
from rho_wasm.sandbox.loader import Loader
from rho_wasm.sandbox.module import GuestModule
from rho_wasm.sandbox.runtime import Runtime
from rho_wasm.sandbox.slots import Overloaded, Slots
from rho_wasm.sandbox.state import CallState, Capabilities
from rho_wasm.sandbox.ticker import TickerKind
from rho_wasm.untrusted import type_name

__all__ = ["GuestModule", "Sandbox", "SandboxStatistics"]

_NO_THREAD_S = 0.005
"""How often a call is looked at where no thread is left to wait for it."""
_REQUEST_BOUNDS = {"bytes": "request_bytes", "depth": "depth", "items": "items"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatistics:
    """A snapshot of one Sandbox."""

    way: Literal["public"]
    """How calls reach wasmtime: through its public Python API."""
    ticker: TickerKind
    signals_based_traps: bool
    calls: int
    """Calls that got a slot, ever."""
    running: int
    waiting: int
    modules: int
    """Modules whose native code is in memory."""
    compiled: int
    refused: int
    cache: CacheStatistics | None
    """None where there is no cache."""


class Sandbox:
    """Runs guests of one engine configuration. An async context manager; one event loop uses it at a time.

    ``limits`` bound the host; without a ``cache`` every process compiles for itself.
    """

    def __init__(
        self,
        *,
        limits: HostLimits | None = None,
        cache: NativeCache | None = None,
        ticker: TickerKind | None = None,
    ) -> None:
        self.limits = limits = limits or HostLimits()
        self._cache = cache
        self._runtime = Runtime(limits, ticker=ticker)
        self._loader = Loader(self._runtime, limits, cache)
        self._slots = Slots(limits)
        self._crowds = Crowds()
        self._threads = HostThreads(max_abandoned=2 * limits.max_concurrent_calls)
        self._running: set[GuestCall] = set()
        self._calls = 0
        self._closed = False

    async def load(self, wasm: bytes | bytearray | memoryview) -> GuestModule:
        """Admits and compiles ``wasm``, or takes it from the cache. The same bytes are compiled once.

        Raises :class:`rho_wasm.errors.ModuleRejected`, and :class:`Closed`.
        """
        self._check_open()
        return await self._loader.load(wasm if type(wasm) is bytes else bytes(memoryview(wasm)))

    async def call(
        self,
        module: GuestModule,
        *,
        tool: str,
        arguments: Mapping[str, Any],
        context: Mapping[str, Any],
        limits: Limits,
        meter: CallMeter,
        name: str | None = None,
        capabilities: Capabilities | None = None,
    ) -> HandlerResult:
        """Calls ``tool`` of ``module`` in a fresh instance, and answers what it answered.

        ``context`` is what crosses beside the arguments (call_id, session_id, request_id, values). The deadline is the
        lower of ``limits.deadline_ms`` and what the meter's clock has left, from the moment that the guest starts;
        waiting for a slot is not the tool's time. ``name`` is what errors call the tool. ``capabilities`` answers its
        host calls; None denies them.

        ``meter`` gets fuel, times, log and backtrace, however the call ends. Raises :class:`ToolError`. Cancellation
        stops the guest, and leaves once it is gone.
        """
        self._check_open()
        label = name or tool
        if module.manifest.tool(tool) is None:
            raise ToolError("not_found", tool=label, detail="the module has no tool of this name")
        native = module.held()
        try:
            with meter.clock.paused():
                async with self._slots.taken(label, memory=limits.memory_bytes):
                    self._check_open()
                    state = CallState(
                        limits=limits,
                        declared=frozenset(module.manifest.capabilities),
                        capabilities=capabilities,
                        names=native.names,
                    )
                    deadline_ms = min(limits.deadline_ms, meter.clock.remaining_ms())
                    call = GuestCall(self._runtime, native.pre, state, deadline_ms=deadline_ms)
                    request = envelope.request(tool, dict(arguments), context=context)
                    stay = self._crowds.enter(module.sha256)
                    try:
                        outcome = await self._in_thread(call, request, tool=label)
                    finally:
                        meter.at_once = stay.leave()
                        _fill(meter, call)
        except Overloaded as full:
            raise ToolError("overloaded", tool=label, detail=full.detail, limit=full.limit, value=full.value) from None
        finally:
            native.release()
        if outcome.error is not None:
            raise outcome.error
        result: HandlerResult | ToolError = outcome.value
        if not isinstance(result, ToolError):
            return result
        meter.backtrace = result.backtrace
        try:
            raise result
        finally:
            # The frame that an error's traceback holds must not hold the error: only a collection would end that.
            del outcome, result

    def statistics(self) -> SandboxStatistics:
        return SandboxStatistics(
            way="public",
            ticker=self._runtime.ticker.kind,
            signals_based_traps=bool(self._runtime.config["signals_based_traps"]),
            calls=self._calls,
            running=self._slots.running,
            waiting=self._slots.waiting,
            modules=self._loader.alive,
            compiled=self._loader.compiled,
            refused=self._loader.refused,
            cache=self._cache.statistics() if self._cache is not None else None,
        )

    async def aclose(self) -> None:
        """Stops the calls that run (``cancelled``), waits until they are gone, and lets the engine go. Idempotent."""
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            for call in tuple(self._running):
                call.cancel()
                await self._until_ended(call)
            await anyio.to_thread.run_sync(self._runtime.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the sandbox")

    async def _in_thread(self, call: GuestCall, request: Mapping[str, Any], *, tool: str) -> Outcome:
        self._calls += 1
        self._running.add(call)
        try:
            return await self._threads.run(_work, call, request, tool)
        except NoThread:
            raise Overloaded(
                "no thread could be started", limit="max_concurrent_calls", value=self.limits.max_concurrent_calls
            ) from None
        except BaseException:
            # The guest is told to stop, and asked every few milliseconds whether it was. Nobody leaves before it.
            call.cancel()
            await self._until_ended(call)
            raise
        finally:
            self._running.discard(call)

    async def _until_ended(self, call: GuestCall) -> None:
        while not call.ended.is_set():
            # asyncio's own cancel() gets through a shield, so it may take more than one try.
            with anyio.CancelScope(shield=True), contextlib.suppress(anyio.get_cancelled_exc_class()):
                try:
                    await self._threads.run(call.ended.wait)
                except NoThread:
                    await anyio.sleep(_NO_THREAD_S)


def _work(call: GuestCall, request: Mapping[str, Any], tool: str) -> HandlerResult | ToolError:
    """In the worker thread: all that takes time is here, so that the event loop never waits.

    An error is answered, not raised, and a new one: the traceback of the first holds the store and all of the call.
    """
    limits = call.state.limits
    try:
        data = plain.encode(request, max_bytes=limits.request_bytes, max_depth=limits.depth, max_items=limits.items)
        return envelope.parse_answer(call.run(data), limits=limits)
    except Exception as error:
        return _as_tool_error(error, tool=tool, call=call)
    finally:
        call.finish()


def _fill(meter: CallMeter, call: GuestCall) -> None:
    meter.fuel_used = call.fuel_used
    meter.guest_ms = call.guest_ms
    meter.guest_cpu_ms = call.guest_cpu_ms
    meter.log = call.log


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
