"""What of a long history may go: artifacts that only generations name to which nobody returns any more."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rho_wasm.dynamic.generation import Generation, State, ToolVersion
from rho_wasm.dynamic.kv import forget_namespaces

__all__ = ["PRUNED", "Pruned", "prune"]

PRUNED = "pruned"
"""Why a generation that was live cannot be returned to: artifacts of it were let go."""

_MAY_GO: tuple[State, ...] = ("superseded", "rolled_back")


@dataclass(frozen=True, slots=True)
class Pruned:
    """What :meth:`rho_wasm.dynamic.store.Store.prune` let go. The generations stay in the history."""

    generations: tuple[int, ...]
    """Those that can be returned to no more, since now."""
    artifacts: tuple[str, ...]
    """The hashes of what is kept no more."""
    namespaces: tuple[str, ...] = ()
    """The tools whose keys and values (kv) are kept no more."""


def prune(
    connection: sqlite3.Connection,
    generations: Iterable[Generation],
    *,
    keep: int,
    before: float,
    last_good: Callable[[Generation, str], ToolVersion | None],
) -> Pruned:
    """Keeps the live generation, its parent, and the ``keep`` that were live last before it; open candidates; and of
    each live tool the version to which ``last_good`` would return. Inside the caller's transaction.

    What was put since ``before`` (POSIX seconds) stays: a candidate may be about to name it. What tools kept goes where
    only rejected and pruned generations name the tool.
    """
    by_number = {generation.number: generation for generation in generations}
    live = next(generation for generation in by_number.values() if generation.state == "live")
    rows = connection.execute("SELECT number FROM switches GROUP BY number ORDER BY max(id) DESC").fetchall()
    were_live = [row[0] for row in rows if row[0] != live.number]
    kept = {live.number, live.parent, *were_live[:keep]}
    needed = {
        version.artifact
        for generation in by_number.values()
        if generation.number in kept or generation.state in ("candidate", "rejected")
        for version in generation.tools.values()
    }
    needed |= {good.artifact for tool in live.tools if (good := last_good(live, tool)) is not None}
    gone = []
    for number in sorted(were_live):
        generation = by_number[number]
        if number in kept or generation.state not in _MAY_GO or generation.why == PRUNED:
            continue
        if any(version.artifact not in needed for version in generation.tools.values()):
            connection.execute("UPDATE generations SET why = ? WHERE number = ?", (PRUNED, number))
            gone.append(number)
    unneeded = [
        sha256
        for (sha256,) in connection.execute("SELECT sha256 FROM artifacts WHERE created_at < ?", (before,)).fetchall()
        if sha256 not in needed
    ]
    connection.executemany("DELETE FROM artifacts WHERE sha256 = ?", [(sha256,) for sha256 in unneeded])
    named = {
        tool
        for generation in by_number.values()
        if generation.state != "rejected" and generation.why != PRUNED and generation.number not in gone
        for tool in generation.tools
    }
    return Pruned(tuple(gone), tuple(sorted(unneeded)), forget_namespaces(connection, named))
