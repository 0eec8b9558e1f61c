"""Who is measured. Each peer is one file, and says why where it cannot take part."""

from __future__ import annotations

from tests.benchmarks.jobs import Job
from tests.benchmarks.peers.c_api import c_api
from tests.benchmarks.peers.extism import extism
from tests.benchmarks.peers.ours import ours
from tests.benchmarks.peers.peer import OURS, Peer
from tests.benchmarks.peers.python import function, subprocess
from tests.benchmarks.peers.wasmtime_py import wasmtime_py

__all__ = ["OURS", "PEERS", "Peer"]

PEERS: tuple[Peer[Job], ...] = (
    Peer(OURS, "registry, schema, gate, runner, fresh sandbox, CBOR both ways, result", ours),
    Peer("extism", "a fresh Plugin of a CompiledPlugin, with a timeout and a memory limit", extism(fresh=True)),
    Peer("extism_reused", "one Plugin for all calls", extism(fresh=False)),
    Peer("wasmtime_py", "a fresh instance by the public bindings, fuel and epochs, CBOR", wasmtime_py(fresh=True)),
    Peer("wasmtime_py_reused", "one instance for all calls", wasmtime_py(fresh=False)),
    Peer("wasmtime_c_api", "a fresh instance by the C API, pooled, fuel, epochs, limits, CBOR", c_api(fresh=True)),
    Peer("wasmtime_c_api_reused", "one instance for all calls", c_api(fresh=False)),
    Peer("python_subprocess", "python -I, a new process a call, no limits", subprocess),
    Peer("python_function", "a plain function, no sandbox at all", function),
)
"""Ours first, then in the order of the table."""
