"""One group: the same job by every peer, in turns."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from rho_wasm import Host
from tests.benchmarks.guests import Absent
from tests.benchmarks.jobs import Job
from tests.benchmarks.measure import Contender, Figures, Pace, alternate
from tests.benchmarks.peers import Peer

__all__ = ["Group", "compare", "resident"]

J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class Group:
    """What one group came to. ``absent`` says of each peer that has no figures why."""

    name: str
    title: str
    figures: dict[str, Figures]
    absent: dict[str, str]
    rss_mib: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, dict[str, float]]:
        return {
            name: figures.as_json() | ({"rss_mib": self.rss_mib[name]} if name in self.rss_mib else {})
            for name, figures in self.figures.items()
        }


async def compare(
    host: Host,
    job: J,
    *,
    callers: int,
    pace: Pace,
    peers: Sequence[Peer[J]],
    without: Mapping[str, str] | None = None,
) -> Group:
    """Times ``peers`` on ``job`` with ``callers`` at once. ``without`` names those left out, and why."""
    contenders: dict[str, Contender] = {}
    absent = dict(without or {})
    with ExitStack() as stack:
        for peer in peers:
            if peer.name in absent:
                continue
            try:
                contender = await peer.enter(host, job, callers)
            except Absent as why:
                absent[peer.name] = f"absent: {why}"
            else:
                stack.callback(contender.close)
                contenders[peer.name] = contender
        figures = await alternate(contenders, pace)
    many = callers > 1
    name = f"{job.group}_callers_{callers}" if many else job.group
    return Group(name, f"{job.title}, {callers} callers" if many else job.title, figures, absent)


def resident(names: Sequence[str]) -> dict[str, float]:
    """MiB that a process of its own holds after calls of each peer, which one process for all could not tell apart."""
    sizes: dict[str, float] = {}
    for name in names:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.resident", name], capture_output=True, text=True, check=True
        )
        sizes[name] = json.loads(done.stdout)
    return sizes
