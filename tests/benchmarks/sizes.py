"""How much is measured: in full, and so little that a quick run ends within 50 seconds."""

from __future__ import annotations

from dataclasses import dataclass

from tests.benchmarks.jobs import LOOP, SHA256
from tests.benchmarks.language_jobs import LANGUAGE_JOBS
from tests.benchmarks.measure import Pace
from tests.benchmarks.peers import OURS, PEERS
from tests.benchmarks.steady import WATCHED

__all__ = ["FULL", "QUICK", "Size"]

_QUICK_S = 38.0
"""A quick run begins nothing after this long: what still runs then ends within 50 seconds."""
_SLOW = "left out of a quick run: one call takes many seconds"
_SAME = "left out of a quick run: beside so long a job an instance costs nothing"
_ALONE = "left out of a quick run: one caller has shown it"
_PROCESS = "left out of a quick run: the shortest job has shown what a process costs"
_PYTHON = tuple(peer.name for peer in PEERS if peer.name.startswith("python_"))
_PROCESSES = ("python_subprocess", "node_subprocess")
_REUSED = tuple(peer.name for peer in PEERS if peer.name.endswith("_reused"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """``skips``: by section, or by a language job's tool, the peers that are left out, and why."""

    quick: bool
    pace: Pace
    language_pace: Pace
    callers: tuple[int, ...]
    resident: tuple[str, ...]
    tools: tuple[int, ...]
    in_flight: int
    repeats: int
    spin_s: float
    calls: int
    cached: int
    recorded: int
    language_tools: int
    builds: int
    clients: int
    watched: tuple[str, ...]
    begin_s: float
    skips: dict[str, dict[str, str]]
    left_out: dict[str, str]
    """Sections that are begun only where they are asked for by name, and why."""


FULL = Size(
    quick=False,
    pace=Pace(rounds=9, block_s=0.3),
    language_pace=Pace(rounds=9, block_s=0.15),
    callers=(2, 3, 4),
    resident=tuple(peer.name for peer in PEERS),
    tools=(1, 100, 10_000),
    in_flight=5_000,
    repeats=20,
    spin_s=3.0,
    calls=100_000,
    cached=1_000,
    recorded=1_000,
    language_tools=1_000,
    builds=50,
    clients=100,
    watched=WATCHED,
    begin_s=float("inf"),
    skips={},
    left_out={},
)
QUICK = Size(
    quick=True,
    pace=Pace(rounds=3, block_s=0.04, slow_s=0.15),
    language_pace=Pace(rounds=3, block_s=0.02, slow_s=0.15),
    callers=(2, 4),
    resident=(OURS, "extism"),
    tools=(1, 100, 1_000),
    in_flight=500,
    repeats=3,
    spin_s=0.5,
    calls=1_000,
    cached=20,
    recorded=50,
    language_tools=10,
    builds=5,
    clients=10,
    watched=("public",),
    begin_s=_QUICK_S,
    skips={
        SHA256.group: dict.fromkeys(_REUSED, _SAME),
        LOOP.group: dict.fromkeys(_REUSED, _SAME) | dict.fromkeys(_PYTHON, _SLOW),
        "callers": dict.fromkeys((*_REUSED, "python_subprocess"), _ALONE),
        **{tool: dict.fromkeys(_PROCESSES, _PROCESS) for tool in LANGUAGE_JOBS if tool != "tiny"},
    },
    left_out={
        "python_loop_1m": "a call takes long, and the loop of 10^8 says what a loop costs",
        "javascript_loop_1m": "a call takes long, and the loop of 10^8 says what a loop costs",
        "host_calls": "their calls are long, and have to be many for a few microseconds to show",
        "mcp": "its servers take long to start, and its calls many milliseconds each",
        "languages_tools": "a few tools say nothing of a thousand",
        "languages_install": "an engine takes many seconds to make and to compile",
    },
)
