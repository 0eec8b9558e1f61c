"""Plain wasmtime-py: its public objects, as its documentation uses them, with fuel and epochs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import wasmtime

from rho_wasm import Host
from tests.benchmarks.guests import rho_guest
from tests.benchmarks.jobs import Job
from tests.benchmarks.measure import SyncContender
from tests.benchmarks.peers.peer import Enter
from tests.benchmarks.peers.wire import FUEL, MEMORY_BYTES, answer_of, request_of

__all__ = ["wasmtime_py"]


class _Prepared:
    """The module, compiled and linked once."""

    def __init__(self, wasm: bytes) -> None:
        config = wasmtime.Config()
        config.consume_fuel = True
        config.epoch_interruption = True
        self.engine = wasmtime.Engine(config)
        module = wasmtime.Module(self.engine, wasm)
        linker = wasmtime.Linker(self.engine)
        linker.define_unknown_imports_as_traps(module)
        self.pre = linker.instantiate_pre(module)

    def store(self) -> wasmtime.Store:
        store = wasmtime.Store(self.engine)
        store.set_limits(memory_size=MEMORY_BYTES)
        return store


def _call(store: wasmtime.Store, exports: Mapping[str, object], job: Job) -> object:
    store.set_fuel(FUEL)
    store.set_epoch_deadline(1_000_000)
    alloc, run, memory = exports["rho_alloc"], exports["rho_call"], exports["memory"]
    assert isinstance(alloc, wasmtime.Func)
    assert isinstance(run, wasmtime.Func)
    assert isinstance(memory, wasmtime.Memory)
    request = request_of(job)
    pointer = alloc(store, len(request)) & 0xFFFFFFFF
    memory.write(store, request, pointer)
    answer = run(store, pointer, len(request))
    start, size = (answer >> 32) & 0xFFFFFFFF, answer & 0xFFFFFFFF
    return answer_of(bytes(memory.read(store, start, start + size)))


def _fresh(prepared: _Prepared, job: Job) -> Callable[[], object]:
    def call() -> object:
        store = prepared.store()
        try:
            return _call(store, prepared.pre.instantiate(store).exports(store), job)
        finally:
            store.close()

    return call


def _reused(prepared: _Prepared, job: Job) -> Callable[[], object]:
    """Its guests never free: the instance is made anew once its memory is used up, as a host would have to."""
    store = prepared.store()
    exports = prepared.pre.instantiate(store).exports(store)

    def call() -> object:
        nonlocal store, exports
        memory = exports["memory"]
        assert isinstance(memory, wasmtime.Memory)
        if memory.data_len(store) > MEMORY_BYTES // 2:
            store.close()
            store = prepared.store()
            exports = prepared.pre.instantiate(store).exports(store)
        return _call(store, exports, job)

    return call


def wasmtime_py(*, fresh: bool) -> Enter[Job]:
    async def enter(host: Host | None, job: Job, callers: int) -> SyncContender:
        prepared = _Prepared((await rho_guest(job)).wasm)
        calls = [(_fresh if fresh else _reused)(prepared, job) for _ in range(callers)]
        for call in calls:
            job.check(call())
        return SyncContender(calls)

    return enter
