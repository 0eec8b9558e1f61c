"""``python -m tests.benchmarks.resident PEER``: MiB of a process that called the echo guest 200 times by that peer."""

from __future__ import annotations

import json
import resource
import sys

import anyio

from rho_wasm import Host
from tests.benchmarks.guests import Absent
from tests.benchmarks.jobs import ECHO
from tests.benchmarks.measure import rss_bytes
from tests.benchmarks.peers import OURS, PEERS

_CALLS = 200
_PROCESSES = 3


async def measured(name: str) -> float:
    peer = next(peer for peer in PEERS if peer.name == name)
    if name == OURS:
        async with Host.open(":memory:") as host:
            await (await peer.enter(host, ECHO, 1)).block(_CALLS)
            return round(rss_bytes() / 2**20, 1)
    contender = await peer.enter(None, ECHO, 1)
    processes = name == "python_subprocess"
    await contender.block(_PROCESSES if processes else _CALLS)
    # A process a call is over by now: its size at its largest is added.
    ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 if processes else 0
    return round((rss_bytes() + ended) / 2**20, 1)


if __name__ == "__main__":
    try:
        print(json.dumps(anyio.run(measured, sys.argv[1])))
    except Absent as absent:
        sys.exit(str(absent))
