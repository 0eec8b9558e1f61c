"""Where a replayed call crashed, for an operator: never in words that the guest could have chosen freely.

What a guest says of its own end is its own to choose, and may be what other people asked of the tool. So of that only a
number is told, which is a line of the source that the author knows, and a type that every program has. A trap's frames
are names that stand in the module.
"""

from __future__ import annotations

import builtins
import re
from typing import Final

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.replay import Replay
from rho_wasm.trace_lines import innermost_line, source_lines

__all__ = ["place_of"]

_RUNTIMES: Final = re.compile(r"rho_|rho::|core::|std::|alloc::|__rust|rust_|runtime\.|debug\.|builtin\.")
"""How functions begin that an author did not write, and that say no more than that something ended the call."""
_SAID_BY_GUEST: Final = frozenset({"handler_raised", "out_of_memory", "capability_fault"})
"""Reasons that come with the guest's own words, or may do so."""
_TYPES: Final = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
) | {"HostError", "RangeError", "ReferenceError", "URIError", "EvalError", "AggregateError", "InternalError", "Error"}


def place_of(replay: Replay, artifact: Artifact) -> str:
    """A few words that go on after the reason, as ``ValueError, at line 7 of its source``; empty if nothing is known.

    ``artifact`` is what was replayed on.
    """
    # Over an engine, frames are read in the guest's memory.
    if replay.reason in _SAID_BY_GUEST or artifact.manifest.is_image:
        return ", ".join(filter(None, (_type(replay), _line(replay, artifact))))
    # The function alone: from where in it a guest may choose among more places, and so say more.
    functions = [frame.rpartition(" (+")[0] for frame in replay.backtrace]
    if not functions:
        return ""
    return "in " + next((each for each in functions if not _RUNTIMES.match(each)), functions[0])


def _type(replay: Replay) -> str:
    name = replay.detail.partition(":")[0]
    return name if replay.reason == "handler_raised" and name in _TYPES else ""


def _line(replay: Replay, artifact: Artifact) -> str:
    lines = 0 if artifact.source is None else len(source_lines(artifact.source))
    python = (artifact.language or artifact.manifest.language) == "python"
    line = innermost_line(replay.backtrace, lines=lines, last=python and replay.reason == "handler_raised")
    return "" if line is None else f"at line {line} of its source"
