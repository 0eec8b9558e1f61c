"""One engine with what belongs to it: its linker, its ticker, the calls that run on it and the host functions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import wasmtime

from rho_wasm.errors import Closed, ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox import imports, wasi
from rho_wasm.sandbox.abi import EXPORT_TYPES, MEMORY, REQUIRED_EXPORTS
from rho_wasm.sandbox.capi import Trampolines, make_engine, raise_epoch
from rho_wasm.sandbox.config import EngineConfig, guest_config
from rho_wasm.sandbox.guest_call import MAX_TICKS, GuestCall
from rho_wasm.sandbox.signals import FaultGuard, enable_before_engine, wasmtime_answers
from rho_wasm.sandbox.ticker import Ticker, TickerKind

__all__ = ["Runtime"]

_FUNCTIONS = imports.FUNCTIONS + wasi.FUNCTIONS


class Runtime:
    """The engine for guests. Thread-safe; :meth:`close` it once no call runs.

    Host functions are defined once, in one linker, and find their call by a number that the store carries: a host
    function that could reach a store would keep it alive for ever.
    """

    def __init__(self, limits: HostLimits, *, ticker: TickerKind | None = None) -> None:
        self.config, self.engine = _make(limits)
        self._guard = FaultGuard(self.config)
        self.trampolines = Trampolines(self)
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
        self._ids = itertools.count(1)
        self._calls: dict[int, GuestCall] = {}
        self._closed = False

    def link(self, native: bytes) -> tuple[wasmtime.Module, wasmtime.InstancePre]:
        """A module from native code that this host compiled, ready to be instantiated.

        Native code is run as it is: ``native`` comes from the compiling child or from the verified cache, never from
        elsewhere. Raises ValueError if wasmtime does not take it (another version, other settings or another CPU),
        :class:`ModuleRejected` if its exports are not what was admitted.
        """
        try:
            module = wasmtime.Module.deserialize(self.engine, native)
        except wasmtime.WasmtimeError:
            raise ValueError("native code of another wasmtime, configuration or processor") from None
        _check_exports(module)
        return module, self._linker.instantiate_pre(module)

    @contextmanager
    def running(self, call: GuestCall) -> Iterator[int]:
        """``call`` runs inside, under the number that is given. Raises GuestTrap where it must not."""
        if self._closed:
            raise Closed("the sandbox")
        self._guard.check()
        call_id = next(self._ids)
        self._calls[call_id] = call
        try:
            with self.ticker.running():
                yield call_id
        finally:
            del self._calls[call_id]

    def ask_all(self) -> None:
        """Every guest that runs asks now whether to go on."""
        raise_epoch(self.engine, MAX_TICKS)

    def host_call(self, call_id: int, context: int, index: int, arguments: Sequence[int]) -> int | None:
        return self._calls[call_id].host_call(_FUNCTIONS[index], context, arguments)

    def epoch(self, call_id: int, context: int) -> int:
        return self._calls[call_id].ask(context)

    def failed(self, call_id: int, error: BaseException) -> None:
        if (call := self._calls.get(call_id)) is not None:
            call.failed(error)

    def close(self) -> None:
        """Ends the ticker; no call may run. The engine itself goes with its last module. Idempotent."""
        self._closed = True
        self.ticker.close()


def _make(limits: HostLimits) -> tuple[EngineConfig, wasmtime.Engine]:
    signals = enable_before_engine()
    config = guest_config(stack_bytes=limits.guest_stack_bytes, signals_based_traps=signals)
    engine = make_engine(config)
    if not signals or wasmtime_answers():
        return config, engine
    # faulthandler was enabled after somebody else's engine: the handler is not wasmtime's, and will not be again.
    engine.close()
    config = guest_config(stack_bytes=limits.guest_stack_bytes, signals_based_traps=False)
    return config, make_engine(config)


def _check_exports(module: wasmtime.Module) -> None:
    """wasmtime's own word on the types, which admission read with code of ours."""
    found: dict[str, str] = {}
    for export in module.exports:
        kind = export.type
        if isinstance(kind, wasmtime.FuncType):
            params = ", ".join(str(each) for each in kind.params)
            results = ", ".join(str(each) for each in kind.results)
            found[export.name] = f"({params}) -> ({results})"
        elif isinstance(kind, wasmtime.MemoryType):
            found[export.name] = "memory"
    wanted = {MEMORY: "memory", **{name: str(signature) for name, signature in EXPORT_TYPES.items()}}
    for name, signature in wanted.items():
        if found.get(name) != signature and (name in found or name in REQUIRED_EXPORTS):
            raise ModuleRejected("export_type", f"{name} must be {signature}", name=name)
