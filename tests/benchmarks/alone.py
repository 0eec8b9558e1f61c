"""Figures that need a process of their own, which nothing else has warmed or filled."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.benchmarks.guests import Absent

__all__ = ["alone"]


def alone(figure: str, *arguments: str) -> dict[str, Any]:
    """What ``python -m tests.benchmarks.fresh FIGURE ARGUMENT...`` answers. Raises :class:`Absent` where it is so."""
    command = [sys.executable, "-m", "tests.benchmarks.fresh", figure, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    if "absent" in told:
        raise Absent(told["absent"])
    return told
