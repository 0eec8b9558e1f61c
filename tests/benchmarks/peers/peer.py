"""What a peer is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rho_wasm import Host
from tests.benchmarks.jobs import Job
from tests.benchmarks.measure import Contender

__all__ = ["OURS", "Enter", "Peer"]

OURS = "rho_wasm"

Enter = Callable[[Host | None, Job, int], Awaitable[Contender]]
"""``(host, job, callers)``: a contender that does the job rightly. Raises ``Absent``. Only ours needs a host."""


@dataclass(frozen=True, slots=True)
class Peer:
    """``what`` one call of it is."""

    name: str
    what: str
    enter: Enter
