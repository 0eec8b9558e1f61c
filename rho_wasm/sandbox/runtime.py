"""One engine with what belongs to it: its linker, its ticker, the calls that run on it and the host functions."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING

import wasmtime

from rho_wasm.errors import Closed, ModuleRejected
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.sandbox import imports, wasi
from rho_wasm.sandbox.abi import (
    ENGINE_EXPORTS,
    EXPORT_TYPES,
    GLOBAL_PREFIX,
    MEMORY,
    REQUIRED_EXPORTS,
    FunctionType,
)
from rho_wasm.sandbox.capi import Trampolines, make_engine, raise_epoch
from rho_wasm.sandbox.config import EngineConfig, guest_config, interpreter_config
from rho_wasm.sandbox.guest_call import MAX_TICKS, GuestCall
from rho_wasm.sandbox.instance import OwnStackInstance
from rho_wasm.sandbox.module import Linked
from rho_wasm.sandbox.sealed import SealedFile
from rho_wasm.sandbox.signals import FaultGuard, enable_before_engine, wasmtime_answers
from rho_wasm.sandbox.ticker import Ticker, TickerKind
from rho_wasm.sandbox.watch import GROW_REFUSED
from rho_wasm.sandbox.ways import Way

if TYPE_CHECKING:
    from rho_wasm.sandbox.fiber import FiberInstance, Fibers
    from rho_wasm.sandbox.suspending_fiber import SuspendingFiber

__all__ = ["Runtime"]

_FUNCTIONS = imports.FUNCTIONS + wasi.FUNCTIONS


def _looked_up(types: Mapping[str, FunctionType]) -> Mapping[str, str]:
    """The exports that the host uses, each only if it is what is said here."""
    return {MEMORY: "memory", GROW_REFUSED: "i32", **{name: str(signature) for name, signature in types.items()}}


_NUMBERS = ("i32", "i64", "f32", "f64", "v128")
_OF_GUESTS = MappingProxyType(_looked_up(EXPORT_TYPES))
_OF_ENGINES = MappingProxyType(_looked_up(ENGINE_EXPORTS))


class Runtime:
    """The engine for guests, or with ``interpreters`` for those. Thread-safe; :meth:`close` it once no call runs.

    Host functions are defined once, in one linker, and find their call by a number that the store carries: a host
    function that could reach a store would keep it alive for ever.

    ``signals_based_traps``: None is wherever they can be. Native code runs only where it is what it was compiled for.
    """

    def __init__(
        self,
        limits: HostLimits,
        *,
        way: Way = "public",
        ticker: TickerKind | None = None,
        signals_based_traps: bool | None = None,
        interpreters: bool = False,
    ) -> None:
        self.way: Way = way
        self.interpreters = interpreters
        self.config, self.engine, self._let_go = _make(limits, way, signals_based_traps, interpreters)
        self._guard = FaultGuard(self.config)
        self.trampolines = Trampolines(self) if way == "public" else self._suspending_trampolines()
        self.ticker = Ticker(self.engine, kind=ticker)
        self._linker = wasmtime.Linker(self.engine)
        for index, function in enumerate(_FUNCTIONS):
            self.trampolines.define(
                self._linker,
                function.module,
                function.name,
                params=function.params,
                results=function.results,
                index=index,
            )
        self._suspending_linker: wasmtime.Linker | None = None
        if way == "native":
            self.fibers, self.suspending_fibers = self._make_fibers()
            """Instances that a guest can be left in, and those where it can be left in a host function too."""
        self._ids = itertools.count(1)
        self.lock = threading.Lock()
        """Guards how far each call is, for a moment at a time."""
        self.calls: dict[int, GuestCall] = {}
        """Those that run, by the numbers that their stores carry: see :meth:`enter`."""
        self._closed = False

    def link(self, native: bytes | SealedFile, *, guest: bool = False) -> Linked:
        """Native code that this host compiled, ready to be instantiated: its bytes, or a file that nobody can change.
        The file is then the answer's to close. ``guest``: it has the exports of a guest, whatever else runs here.

        It is run as it is: ``native`` comes from the compiling child or from the verified cache, never from
        elsewhere. Raises ValueError if wasmtime does not take it (another version, other settings or another CPU),
        :class:`ModuleRejected` if its exports are not what was admitted.
        """
        try:
            if isinstance(native, SealedFile):
                module = wasmtime.Module.deserialize_file(self.engine, native.path)
            else:
                module = wasmtime.Module.deserialize(self.engine, native)
        except wasmtime.WasmtimeError:
            raise ValueError("native code of another wasmtime, configuration or processor") from None
        places = _checked_exports(module, interpreter=self.interpreters and not guest)
        file = native if isinstance(native, SealedFile) else None
        return Linked(module, self._linker.instantiate_pre(module), places, owner=self, file=file)

    def link_suspending(self, module: wasmtime.Module) -> wasmtime.InstancePre:
        """``module`` with host functions that a guest can be left in, for fibers alone. Under :attr:`lock`."""
        from rho_wasm.sandbox.suspending import SuspendingTrampolines

        if self._suspending_linker is None:
            assert isinstance(self.trampolines, SuspendingTrampolines), "only the native way has fibers"
            linker = wasmtime.Linker(self.engine)
            for index, function in enumerate(_FUNCTIONS):
                self.trampolines.define_suspending(
                    linker,
                    function.module,
                    function.name,
                    params=function.params,
                    results=function.results,
                    index=index,
                )
            self._suspending_linker = linker
        return self._suspending_linker.instantiate_pre(module)

    def own_stack(self, linked: Linked, call_id: int, limits: Limits) -> OwnStackInstance:
        """An instance on the stack of whatever thread calls it."""
        return OwnStackInstance(self.engine, linked, call_id=call_id, trampolines=self.trampolines, limits=limits)

    def ticking(self) -> AbstractContextManager[None]:
        """The epoch moves on inside: whatever runs longer than a slice runs inside."""
        if self._closed:
            raise Closed("the sandbox")
        return self.ticker.running()

    def enter(self, call: GuestCall) -> int:
        """``call`` begins; host functions find it by the answer, until that is taken out of :attr:`calls`.

        Raises GuestTrap where no guest may run.
        """
        if self._closed:
            raise Closed("the sandbox")
        self._guard.check()
        call_id = next(self._ids)
        self.calls[call_id] = call
        return call_id

    def ask_all(self) -> None:
        """Every guest that runs asks now whether to go on."""
        raise_epoch(self.engine, MAX_TICKS)

    def tick(self) -> None:
        """Those that ask at every tick ask now: the ones on the event loop's thread."""
        raise_epoch(self.engine, 1)

    def host_call(self, call_id: int, index: int, arguments: Sequence[int]) -> int | None:
        return self.calls[call_id].host_call(_FUNCTIONS[index], arguments)

    def suspending_call(
        self, call_id: int, index: int, arguments: Sequence[int], results: int | None
    ) -> tuple[int | None, int]:
        return self.calls[call_id].suspending_call(_FUNCTIONS[index], arguments, results)

    def epoch(self, call_id: int) -> int:
        return self.calls[call_id].ask()

    def failed(self, call_id: int, error: BaseException) -> None:
        if (call := self.calls.get(call_id)) is not None:
            call.failed(error)

    def close(self) -> None:
        """Ends the ticker; no call may run. The engine itself goes with its last module. Idempotent."""
        if not self._closed:
            self._closed = True
            self.ticker.close()
            self._let_go()

    def _suspending_trampolines(self) -> Trampolines:
        from rho_wasm.sandbox.suspending import SuspendingTrampolines

        return SuspendingTrampolines(self)

    def _make_fibers(self) -> tuple[Fibers[FiberInstance], Fibers[SuspendingFiber]]:
        from rho_wasm.sandbox.fiber import FiberInstance, Fibers
        from rho_wasm.sandbox.suspending_fiber import SuspendingFiber

        engine = ctypes.cast(self.engine.ptr(), ctypes.c_void_p).value
        assert engine is not None, "an engine is somewhere"
        return Fibers(FiberInstance, engine, self.trampolines), Fibers(SuspendingFiber, engine, self.trampolines)


def _make(
    limits: HostLimits, way: Way, asked: bool | None, interpreters: bool
) -> tuple[EngineConfig, wasmtime.Engine, Callable[[], None]]:
    """The configuration, an engine of it, and what to do once it is not needed any more."""

    def configured(signals: bool) -> EngineConfig:
        if interpreters:
            return interpreter_config(stack_bytes=limits.engine_stack_bytes, signals_based_traps=signals)
        return guest_config(stack_bytes=limits.guest_stack_bytes, signals_based_traps=signals)

    signals = enable_before_engine() if asked is not False else False
    config = configured(signals)
    pool = (way, limits, interpreters)
    engine, let_go = _engine(config, *pool)
    if not signals or wasmtime_answers():
        return config, engine, let_go
    if asked:
        raise RuntimeError("faults of guests cannot be signals in this process")
    # faulthandler was enabled after somebody else's engine: the handler is not wasmtime's, and will not be again.
    let_go()
    config = configured(False)
    return (config, *_engine(config, *pool))


def _engine(
    config: EngineConfig, way: Way, limits: HostLimits, interpreters: bool
) -> tuple[wasmtime.Engine, Callable[[], None]]:
    if way == "public":
        return make_engine(config), lambda: None
    from rho_wasm.sandbox.engines import give_back_engine, lent_engine
    from rho_wasm.sandbox.native import Pool

    pool = Pool.of(limits, interpreters=interpreters)
    engine = lent_engine(config, pool)
    return engine, lambda: give_back_engine(engine, config, pool)


def _checked_exports(module: wasmtime.Module, *, interpreter: bool) -> dict[str, int]:
    """The place of each export that the host uses. The types are wasmtime's own word: admission read code of ours."""
    looked_up = _OF_ENGINES if interpreter else _OF_GUESTS
    required = looked_up if interpreter else REQUIRED_EXPORTS
    places: dict[str, int] = {}
    found: set[str] = set()
    for place, export in enumerate(module.exports):
        found.add(export.name)
        shape = _shape(export.type)
        if looked_up.get(export.name) == shape or (interpreter and _is_kept(export.name, shape)):
            places[export.name] = place
    for name, shape in looked_up.items():
        if name not in places and name != GROW_REFUSED and (name in found or name in required):
            raise ModuleRejected("export_type", f"{name} must be {shape}", name=name)
    return places


def _is_kept(name: str, shape: str | None) -> bool:
    return name.startswith(GLOBAL_PREFIX) and shape in _NUMBERS


def _shape(kind: object) -> str | None:
    if isinstance(kind, wasmtime.FuncType):
        params = ", ".join(str(each) for each in kind.params)
        results = ", ".join(str(each) for each in kind.results)
        return f"({params}) -> ({results})"
    if isinstance(kind, wasmtime.MemoryType):
        return "memory"
    if isinstance(kind, wasmtime.GlobalType):
        return str(kind.content)
    return None
