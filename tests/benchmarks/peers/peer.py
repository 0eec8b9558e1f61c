"""What a peer is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rho_wasm import Host
from tests.benchmarks.jobs import Job
from tests.benchmarks.measure import Contender

__all__ = ["OURS", "Enter", "Peer"]

OURS = "rho_wasm"

J = TypeVar("J", bound=Job, contravariant=True)

Enter = Callable[[Host | None, J, int], Awaitable[Contender]]
"""``(host, job, callers)``: a contender that does the job rightly. Raises ``Absent``. Only ours needs a host."""


@dataclass(frozen=True, slots=True)
class Peer(Generic[J]):
    """``what`` one call of it is."""

    name: str
    what: str
    enter: Enter[J]
