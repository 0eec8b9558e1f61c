"""Starts a module that is no guest yet, inside the sandbox, and answers the memory and globals that it came to.

An interpreter, or a guest with constructors, starts up once here; what it is then is written into a module of its own
(toolchains/snapshot.py). The module may be anybody's: it is compiled in a child process as guests are, gets our WASI
subset and nothing else, and fuel, time, memory and output are bounded.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio.to_thread

from rho_wasm.errors import ModuleRejected
from rho_wasm.host_threads import HostThreads, NoThread
from rho_wasm.limits import GIB, MIB, HostLimits
from rho_wasm.sandbox import wasi
from rho_wasm.sandbox.abi import INITIALIZE
from rho_wasm.sandbox.boot_instance import BootInstance, HostCall, Stopped
from rho_wasm.sandbox.boot_wasi import process_functions
from rho_wasm.sandbox.cache import NativeCache, native_key
from rho_wasm.sandbox.capi import make_engine
from rho_wasm.sandbox.compile import compile_native
from rho_wasm.sandbox.config import EngineConfig, guest_config
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.imports import FUNCTIONS, HostFunction
from rho_wasm.sandbox.signals import enable_before_engine, wasmtime_answers

__all__ = ["BootInstance", "BootLimits", "Booted", "Drive", "HostCall", "Stopped", "boot", "start"]

START = "_start"
_BASELINE = 2
"""wasmtime's strategy Winch: native code in a quarter of the time, which runs at half the speed, once. It needs traps
that are signals."""
_NOT_OPTIMISED = 0

Drive = Callable[[BootInstance], None]
"""What is done with the instance, in a worker thread. What it raises, :func:`boot` raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootLimits:
    """What one start may cost. Units are in the names."""

    fuel: int = 200_000_000_000
    """``out_of_fuel``. CPython starts up and imports its library within 20 G."""
    deadline_ms: int = 60_000
    """Wall clock of all that ``drive`` does. ``deadline``."""
    memory_bytes: int = 256 * MIB
    """``memory.grow`` answers -1 beyond."""
    table_elements: int = 100_000
    stack_bytes: int = 2 * MIB
    """Of WebAssembly. ``trapped``."""
    output_bytes: int = 1 * MIB
    """Of standard output and standard error that is kept."""
    compile_cpu_ms: int = 60_000
    """``compile_timeout``. 6 MiB of code take 4 s."""
    compile_memory_bytes: int = 4 * GIB
    """Address space of the compiling child. ``compile_memory``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    """What a module was when it was left."""

    memory: bytes = field(repr=False)
    """All of it."""
    globals: Mapping[int, int]
    """The bits of each mutable global that the module exports as ``rho:global:N``, by N, unsigned."""
    output: bytes
    """What it wrote to descriptors 1 and 2, in its order."""
    stopped: Stopped | None
    """Where :func:`start` was stopped; None where it came to its end, or something else drove the instance."""

    def unsigned(self, pointer: int, length: int) -> int:
        """A little-endian number of the memory."""
        return int.from_bytes(self.memory[pointer : pointer + length], "little")


def start(instance: BootInstance) -> None:
    """Calls ``_start`` of a command, ``_initialize`` of a reactor, or nothing where neither is exported.

    A command may also end in ``proc_exit(0)``. Any other exit is :class:`CallFailed` (``handler_exit``).
    """
    name = next((name for name in (START, INITIALIZE) if name in instance.exports), None)
    if name is None:
        return
    try:
        instance.call(name)
    except Stopped as stopped:
        if stopped.exit_code:
            raise CallFailed("handler_exit", f"it ended with status {stopped.exit_code}") from None
        instance.stopped = stopped


async def boot(
    wasm: bytes,
    *,
    drive: Drive = start,
    on_host_call: Callable[[HostCall], bool] | None = None,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    functions: Sequence[HostFunction] = (),
    limits: BootLimits | None = None,
    baseline: bool = True,
    parallel: bool = False,
    exceptions: bool = False,
    cache: NativeCache | None = None,
) -> Booted:
    """Compiles and instantiates ``wasm``, lets ``drive`` do with the instance what starts it, and answers what it is.

    ``wasm`` must export its memory as ``memory``, and as ``rho:global:N`` the globals that are asked for
    (``toolchains.snapshot.boot_module`` sees to both, and makes imports that nobody knows stubs). ``on_host_call`` is
    asked before each host function and answers True to stop the guest there: the call then raises :class:`Stopped`.
    ``arguments`` (with the program's name first) and ``environment`` are what WASI tells. ``functions`` are further
    host functions, or others for those of the same name. ``baseline`` compiles with wasmtime's quick compiler where it
    can; what a module comes to is the same. For one that is pinned by its hash: ``parallel`` compiles on all cores,
    ``exceptions`` lets the module throw.
    With a ``cache`` native code is kept there, for a module that is started often.

    Raises :class:`CallFailed` with the reasons of a call, :class:`ModuleRejected` where it does not compile or link,
    and what ``drive`` raises. Cancellation stops the guest, and leaves once it is gone.
    """
    limits = limits or BootLimits()
    known = {
        (function.module, function.name): function
        for function in (*FUNCTIONS, *wasi.FUNCTIONS, *process_functions(arguments, environment or {}), *functions)
    }
    native, config = await _compiled(
        wasm, limits, baseline=baseline, parallel=parallel, exceptions=exceptions, cache=cache
    )
    instance = BootInstance(native, config, tuple(known.values()), limits, on_host_call)
    return await _in_thread(instance, drive)


async def _compiled(
    wasm: bytes, limits: BootLimits, *, baseline: bool, parallel: bool, exceptions: bool, cache: NativeCache | None
) -> tuple[bytes, EngineConfig]:
    bounds = HostLimits(
        compile_cpu_ms=limits.compile_cpu_ms,
        compile_cpu_ms_max=limits.compile_cpu_ms,
        compile_memory_bytes=limits.compile_memory_bytes,
    )
    config = _config(limits).but(wasm_exceptions=int(exceptions), parallel_compilation=int(parallel))
    # Winch knows no exceptions.
    if baseline and not exceptions and config["signals_based_traps"]:
        quick = config.but(strategy=_BASELINE)
        try:
            return await compile_native(wasm, code_bytes=len(wasm), limits=bounds, config=quick), quick
        except ModuleRejected as rejected:
            if rejected.reason not in ("invalid", "compile_failed"):
                raise
            # It does not know every instruction on every processor; whether the module is valid the other one says.
    if cache is None:
        return await compile_native(wasm, code_bytes=len(wasm), limits=bounds, config=config), config
    key = native_key(hashlib.sha256(wasm).hexdigest(), config)
    native = await anyio.to_thread.run_sync(cache.load, key)
    if native is None:
        native = await compile_native(wasm, code_bytes=len(wasm), limits=bounds, config=config)
        await anyio.to_thread.run_sync(cache.store, key, native)
    return native, config


def _config(limits: BootLimits) -> EngineConfig:
    """What guests get. Optimising would take longer than what runs once takes."""
    signals = enable_before_engine()
    config = guest_config(stack_bytes=limits.stack_bytes, signals_based_traps=signals).but(
        cranelift_opt_level=_NOT_OPTIMISED
    )
    if signals:
        # wasmtime answers faults from its first engine on, if it is let.
        make_engine(config)
        if not wasmtime_answers():
            config = config.but(signals_based_traps=0)
    return config


async def _in_thread(instance: BootInstance, drive: Drive) -> Booted:
    ended = threading.Event()
    threads = HostThreads()

    def work() -> Booted:
        try:
            with instance:
                drive(instance)
                return Booted(
                    memory=instance.read(0, instance.memory_bytes),
                    globals=instance.globals(),
                    output=instance.output,
                    stopped=instance.stopped,
                )
        finally:
            ended.set()

    try:
        outcome = await threads.run(work)
    except NoThread:
        raise CallFailed("overloaded", "no thread could be started") from None
    except BaseException:
        # It is asked every few milliseconds whether to go on. Nobody leaves before it.
        instance.cancel()
        await threads.until(ended)
        raise
    if outcome.error is not None:
        raise outcome.error
    booted: Booted = outcome.value
    return booted
