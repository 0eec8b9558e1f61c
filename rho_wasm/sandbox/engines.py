"""Engines with a pool, used again by the next sandbox of the same process that wants the same.

A timer that ticks an engine may have a last notification on its way when it is deleted, and nothing tells when that has
come; so an engine that was ever ticked is never let go (capi.leaked_ticks). One without a pool is 3 KiB, but a pool of
64 slots holds 258 GiB of addresses: of those there can be 500 in a process, and no more. So they are kept and lent.
"""

from __future__ import annotations

import os
import threading

import wasmtime

from rho_wasm.sandbox.config import EngineConfig
from rho_wasm.sandbox.native import Pool, make_native_engine

__all__ = ["give_back_engine", "lent_engine"]

_Key = tuple[int, EngineConfig, Pool]


class _Shelf:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.free: dict[_Key, list[wasmtime.Engine]] = {}


# Of the process, as the address space is: there is nobody else whom it could belong to.
_SHELF = _Shelf()


def lent_engine(config: EngineConfig, pool: Pool) -> wasmtime.Engine:
    """An engine that nobody else uses, made if none is free."""
    with _SHELF.lock:
        free = _SHELF.free.get(_key(config, pool))
        if free:
            return free.pop()
    return make_native_engine(config, pool)


def give_back_engine(engine: wasmtime.Engine, config: EngineConfig, pool: Pool) -> None:
    """``engine`` was lent, and no call runs on it. Modules that are left on it do no harm."""
    with _SHELF.lock:
        _SHELF.free.setdefault(_key(config, pool), []).append(engine)


def _key(config: EngineConfig, pool: Pool) -> _Key:
    # A child that was forked has the engines of its parent, but none of the threads that an engine may wait for.
    return os.getpid(), config, pool
