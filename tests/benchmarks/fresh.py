"""``python -m tests.benchmarks.fresh FIGURE ARGUMENT...``: one figure, as JSON, of a process that does nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from tests.benchmarks import engines, steady
from tests.benchmarks.guests import Absent

FIGURES: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
    "steady": steady.many_calls,
    "first_call": engines.first_call_here,
    "tools": engines.tools_here,
    "install": engines.install_here,
}


def main(figure: str, *arguments: str) -> int:
    try:
        told = anyio.run(FIGURES[figure], *arguments)
    except Absent as absent:
        told = {"absent": str(absent)}
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
