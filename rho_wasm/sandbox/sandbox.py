"""Runs guests: each call in a fresh instance, within its limits, a short one without a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Literal, Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from rho_wasm import envelope
from rho_wasm.calls import CallMeter
from rho_wasm.errors import BuildError, Closed, ToolError
from rho_wasm.host_threads import HostThreads
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.plain import Copied
from rho_wasm.results import HandlerResult
from rho_wasm.sandbox.attempt import Attempt
from rho_wasm.sandbox.cache import CacheStatistics, NativeCache
from rho_wasm.sandbox.crowds import Crowds
from rho_wasm.sandbox.errands import Errands
from rho_wasm.sandbox.frames import Ended
from rho_wasm.sandbox.guest_call import SLICE_S, GuestCall
from rho_wasm.sandbox.images import EngineBinary, EngineFinder, LoadedSource
from rho_wasm.sandbox.loader import Loader
from rho_wasm.sandbox.loading import SourceLoad
from rho_wasm.sandbox.module import GuestModule
from rho_wasm.sandbox.options import check_options
from rho_wasm.sandbox.runtime import Runtime
from rho_wasm.sandbox.slots import Overloaded, Slots
from rho_wasm.sandbox.state import Capabilities
from rho_wasm.sandbox.ticker import TickerKind
from rho_wasm.sandbox.ways import Way, choose_way
from rho_wasm.sandbox.worker_call import WorkerCall
from rho_wasm.sandbox.worker_load import WorkerLoad
from rho_wasm.sandbox.worker_process import Job
from rho_wasm.sandbox.workers import WorkerPool

__all__ = ["GuestModule", "Sandbox", "SandboxStatistics"]

_INTERRUPTED = ("deadline", "cancelled")
"""wasmtime counts fuel in a register and writes it down now and then: of a guest that was stopped it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatistics:
    """A snapshot of one Sandbox."""

    way: Way | Literal["process"]
    """How calls reach wasmtime: ``native``, a short one on the event loop's thread, ``public``, each in a thread, or
    ``process``, each in a worker process."""
    workers: tuple[int, ...]
    """The process ids of the workers that are there."""
    ticker: TickerKind
    signals_based_traps: bool
    calls: int
    """Calls that got a slot, ever."""
    running: int
    waiting: int
    modules: int
    """Modules whose native code is in memory, and images."""
    engines: int
    """Interpreters whose native code is in memory."""
    compiled: int
    refused: int
    cache: CacheStatistics | None
    """None where there is no cache."""


class Sandbox:
    """Runs guests of one engine configuration. An async context manager; one event loop uses it at a time.

    ``limits`` bound the host; without a ``cache`` every process compiles for itself. ``way`` is how calls are made:
    ``native``, a short one on the event loop's own thread, at a fraction of the cost, or ``public``, each in a thread.
    None is what the environment variable RHO_WASM_WAY says, else ``native`` where this Python and this wasmtime bear
    it, else ``public``. Raises RuntimeError for ``native`` where it cannot be had, and TypeError or ValueError for an
    option that is not what it may be.

    A signal handler may raise anywhere in a call (Ctrl-C, an alarm): that ends the call, and the sandbox serves on. Of
    a call that was interrupted twice, a thread that still ends, or the memory of a module's code, may be left behind.
    It had better raise what is no ``Exception``: one of those is taken for a fault of the host's functions, so the call
    may become a ``capability_fault`` that has it as its ``cause``.

    ``workers`` above 0 is how many processes run guests, one call at a time each. What calls come to is the same. A
    fault of wasmtime's then ends a worker and no host (``killed``, a crash of the call in it), and what breaks out of
    WebAssembly is still shut in. Sending a call there takes longer than a short guest runs: those are slower.

    ``engines`` finds the interpreters that images are made over; without it no image is let in.
    """

    def __init__(
        self,
        *,
        limits: HostLimits | None = None,
        cache: NativeCache | None = None,
        ticker: TickerKind | None = None,
        way: Way | None = None,
        workers: int = 0,
        engines: EngineFinder | None = None,
    ) -> None:
        check_options(workers=workers, way=way, engines=engines, ticker=ticker, limits=limits, cache=cache)
        self.limits = limits = limits or HostLimits()
        self._cache = cache
        chosen = choose_way(way)
        # With workers this process only checks and hands on native code.
        here: Way = "public" if workers else chosen
        self._runtime = Runtime(limits, way=here, ticker=ticker)
        signals = None if self._runtime.config["signals_based_traps"] else False
        interpreters = partial(Runtime, limits, way=here, ticker=ticker, signals_based_traps=signals, interpreters=True)
        self._loader = Loader(self._runtime, limits, cache, make_interpreters=interpreters, engines=engines)
        self._slots = Slots(_with_workers(limits, workers) if workers else limits)
        self._crowds = Crowds()
        self._threads = threads = HostThreads(max_abandoned=2 * limits.max_concurrent_calls)
        self._pool = _pool(workers, self._runtime, limits, chosen, ticker, threads) if workers else None
        self._errands = Errands(self._threads, most=limits.max_concurrent_calls)
        self._kind_of_asking = _kind_of_asking(here)
        self._calls = 0
        self._held_s = 0.0
        """How long calls held the event loop's thread since it was last given back."""
        self._closed = False

    async def load(self, wasm: bytes | bytearray | memoryview) -> GuestModule:
        """Admits and compiles ``wasm``, or takes it from the cache. The same bytes are compiled once.

        An image is no different, but that nothing of it is compiled: its engine is, where it is not there yet.

        Raises :class:`rho_wasm.errors.ModuleRejected`, and :class:`Closed`.
        """
        if self._closed:
            raise Closed("the sandbox")
        return await self._loader.load(wasm if type(wasm) is bytes else bytes(memoryview(wasm)))

    async def load_source(self, engine: EngineBinary, request: bytes, *, limits: Limits | None = None) -> LoadedSource:
        """Runs ``rho_load`` of a fresh instance of ``engine`` with ``request``, and answers what that came to.

        ``request`` and the reply are plain CBOR; the reply is a guest's word, and not looked at. ``limits`` are
        ``HostLimits.loading()`` where they are not given. Host calls are denied.

        Raises :class:`ToolError` as a call does, :class:`BuildError` (``image_too_large``) where more memory changed
        than an image may hold, :class:`ModuleRejected` for an engine that is none, and :class:`Closed`. Cancellation
        stops the engine, and leaves once it is gone.
        """
        if self._closed:
            raise Closed("the sandbox")
        loaded = await self._loader.interpreters.of(engine)
        bounds = limits or self.limits.loading()
        image_bytes = self.limits.image_bytes
        if len(request) > (limit := bounds.request_bytes):
            raise ToolError(
                "invalid_arguments",
                tool=loaded.name,
                detail="the source is too large",
                limit="request_bytes",
                value=limit,
            )
        try:
            taken = self._slots.take_now(loaded.name, bounds.memory_bytes)
            try:
                if not taken:
                    taken = await self._slots.take(loaded.name, bounds.memory_bytes)
                if self._closed:
                    raise Closed("the sandbox")
                result: LoadedSource | ToolError | BuildError
                if self._pool is None:
                    load = SourceLoad(loaded, request, limits=bounds, image_bytes=image_bytes)
                    result = await self._errands.run(load)
                else:
                    result = await WorkerLoad(
                        self._pool, self._threads, loaded, request, limits=bounds, image_bytes=image_bytes
                    ).run()
            finally:
                if taken:
                    self._slots.give_back(loaded.name, bounds.memory_bytes)
        except Overloaded as full:
            raise ToolError(
                "overloaded", tool=loaded.name, detail=full.detail, limit=full.limit, value=full.value
            ) from None
        if isinstance(result, LoadedSource):
            return result
        try:
            raise result
        finally:
            del result

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
        copied: Copied | None = None,
        waited: Callable[[], None] | None = None,
        holding: int = 0,
    ) -> HandlerResult:
        """Calls ``tool`` of ``module`` in a fresh instance, and answers what it answered.

        ``context`` is what crosses beside the arguments (call_id, session_id, request_id, values). The deadline is the
        lower of ``limits.deadline_ms`` and what the meter's clock has left, from the moment that the guest starts;
        waiting for a slot is not the tool's time. ``name`` is what errors call the tool. ``capabilities`` answers its
        host calls; None denies them. ``copied`` is a private copy of the arguments that nobody has
        altered since it was made, so that it need not be looked through again. ``waited`` is called if the call had to
        wait for its slot, once it has it: what it raises ends the call, of which nothing ran. ``holding`` is how many
        calls of this sandbox wait for this one, which another tool makes.

        On the native way the guest runs on the event loop's thread for at most a slice (0.5 ms), and a call that is
        over by then pays for no thread.

        ``meter`` gets fuel, times, log and backtrace, however the call ends. Raises :class:`ToolError`, and ValueError
        for a module that another sandbox loaded. Cancellation stops the guest, and leaves once it is gone.
        """
        if self._closed:
            raise Closed("the sandbox")
        label = name or tool
        native = module.held()
        try:
            runtime = native.linked.owner
            if runtime is not self._runtime and not self._loader.interpreters.runs(runtime):
                raise ValueError("the module was loaded by another sandbox")
            if tool not in native.tools:
                raise ToolError("not_found", tool=label, detail="the module has no tool of this name")
            memory_bytes = limits.memory_bytes
            taken = self._slots.take_now(label, memory_bytes)
            try:
                if not taken:
                    with meter.clock.paused():
                        taken = await self._slots.take(label, memory_bytes, holding=holding)
                    if waited is not None:
                        waited()
                if self._held_s >= SLICE_S:
                    # Short calls in a row must not hold up all else that this thread does.
                    self._held_s = 0.0
                    with meter.clock.paused():
                        await anyio.lowlevel.checkpoint()
                if self._closed:
                    raise Closed("the sandbox")
                self._calls += 1
                request = envelope.request(tool, dict(arguments) if copied is None else copied.value, context=context)
                # Only what the manifest declares is ever asked for.
                allowed = capabilities if native.declared else None
                deadline_ms = meter.clock.remaining_ms()
                if limits.deadline_ms < deadline_ms:
                    deadline_ms = limits.deadline_ms
                if self._pool is None:
                    kind = Attempt if allowed is None else self._kind_of_asking
                    run = kind(native, request, label, limits, deadline_ms, allowed, copied)
                    result = await self._here(run, native.sha256, meter)
                else:
                    work = WorkerCall(
                        self._pool,
                        self._threads,
                        native,
                        request,
                        tool=label,
                        limits=limits,
                        deadline_ms=deadline_ms,
                        capabilities=allowed,
                    )
                    result = await self._in_worker(work, native.sha256, meter)
            finally:
                if taken:
                    self._slots.give_back(label, memory_bytes)
        except Overloaded as full:
            raise ToolError("overloaded", tool=label, detail=full.detail, limit=full.limit, value=full.value) from None
        finally:
            native.release()
        if not isinstance(result, ToolError):
            return result
        meter.backtrace = result.backtrace
        if result.reason in _INTERRUPTED:
            meter.fuel_used = None
        try:
            raise result
        finally:
            # The frame that an error's traceback holds must not hold the error: only a collection would end that.
            del result

    def statistics(self) -> SandboxStatistics:
        return SandboxStatistics(
            way=self._runtime.way if self._pool is None else "process",
            workers=() if self._pool is None else self._pool.pids,
            ticker=self._runtime.ticker.kind,
            signals_based_traps=bool(self._runtime.config["signals_based_traps"]),
            calls=self._calls,
            running=self._slots.running,
            waiting=self._slots.waiting,
            modules=self._loader.alive,
            engines=self._loader.interpreters.loaded,
            compiled=self._loader.compiled + self._loader.interpreters.compiled,
            refused=self._loader.refused,
            cache=self._cache.statistics() if self._cache is not None else None,
        )

    async def aclose(self) -> None:
        """Stops the calls that run (``cancelled``), waits until they are gone, and lets the engine go. Idempotent."""
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._errands.stop()
            if self._pool is not None:
                await self._pool.aclose()
            await anyio.to_thread.run_sync(self._loader.interpreters.close)
            await anyio.to_thread.run_sync(self._runtime.close)

    async def __aenter__(self) -> Self:
        if self._pool is not None:
            await self._pool.fill()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def _here(self, run: Attempt, sha256: str, meter: CallMeter) -> HandlerResult | ToolError:
        """In this process: at once if that takes no longer than a slice, else in a thread."""
        met = self._crowds.meet(sha256)
        try:
            try:
                began = monotonic()
                result = run.at_once()
                self._held_s += monotonic() - began
                if result is not None:
                    return result
                met = met or self._crowds.enter(sha256)
                run.keep()
            except BaseException:
                run.close()
                raise
            self._held_s = 0.0
            return await run.to_its_end(self._errands)
        finally:
            if met is not None:
                meter.at_once = met.leave()
            _measured(meter, run.call)

    async def _in_worker(self, work: WorkerCall, sha256: str, meter: CallMeter) -> HandlerResult | ToolError:
        stay = self._crowds.enter(sha256)
        try:
            return await work.run()
        finally:
            meter.at_once = stay.leave()
            _measured(meter, work.used)


def _kind_of_asking(way: Way) -> type[Attempt]:
    """How a call with capabilities is made."""
    if way == "public":
        return Attempt
    from rho_wasm.sandbox.conversation import Conversation

    return Conversation


def _measured(meter: CallMeter, used: GuestCall | Ended) -> None:
    meter.fuel_used = used.fuel_used
    meter.guest_ms = used.guest_ms
    meter.guest_cpu_ms = used.guest_cpu_ms
    meter.host_cpu_ms += used.host_cpu_ms
    meter.log = used.log


def _with_workers(limits: HostLimits, workers: int) -> HostLimits:
    """A call needs a worker, so more at once than there are workers wait."""
    return limits.model_copy(update={"max_concurrent_calls": min(workers, limits.max_concurrent_calls)})


def _pool(
    workers: int, runtime: Runtime, limits: HostLimits, way: Way, ticker: TickerKind | None, threads: HostThreads
) -> WorkerPool:
    signals = bool(runtime.config["signals_based_traps"])
    job = Job(limits=_with_workers(limits, 1), way=way, ticker=ticker, signals_based_traps=signals)
    return WorkerPool(workers, job=job, threads=threads)
