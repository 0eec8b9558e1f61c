"""The generations in the store, and the one transaction in which one of them becomes live in place of another."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rho_wasm.dynamic.database import Database
from rho_wasm.dynamic.generation import (
    Candidate,
    Changes,
    Generation,
    State,
    Switch,
    ToolVersion,
    Verdict,
    VersionKey,
    from_row,
)
from rho_wasm.dynamic.pruning import PRUNED, Pruned, prune
from rho_wasm.dynamic.room import check_room
from rho_wasm.errors import Corrupt, GenerationConflict, NameInvalid, UnknownGeneration
from rho_wasm.frozen import FrozenMap

__all__ = ["STRIKES_AUTHOR", "Check", "History", "Switched"]

STRIKES_AUTHOR = "strikes"
"""The author of generations that an automatic return made."""

Check: TypeAlias = Callable[[Generation, frozenset[str]], None]
"""Asked of the generation that is live and the names whose tools would change, before a switch writes anything.

It may read the store, in which nobody else can write meanwhile. What it raises comes out, and nothing was switched.
"""

_COLUMNS = "number, state, floor, why, body, digest"


@dataclass(frozen=True, slots=True)
class Switched:
    """``live`` took the place of ``previous``; ``changes`` are between the two. ``id`` grows with every switch."""

    id: int
    live: Generation
    previous: int
    changes: Changes
    author: str
    note: str


class History:
    """Generations, their states, and the switches between them. Safe to use from any thread.

    Every method raises :class:`StoreError` as :class:`Database` does, and :class:`Corrupt` for a row that is not what
    was written.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def begin(self, connection: sqlite3.Connection) -> None:
        """Makes generation 0, empty and live, in a store that has none. Inside the caller's transaction."""
        if connection.execute("SELECT 1 FROM generations LIMIT 1").fetchone() is None:
            first = Generation(
                number=0,
                parent=None,
                author="rho_wasm",
                note="a fresh store",
                created_at=self._clock(),
                tools=FrozenMap(),
                changes=Changes(),
                state="live",
            )
            _insert(connection, first)

    def live(self) -> Generation:
        """The generation that is live now."""
        with self._database.read() as connection:
            return _live(connection)

    def live_switch(self) -> tuple[int, Generation]:
        """The number of the latest switch (0 before the first) and the generation that is live since."""
        with self._database.read() as connection:
            return _last_switch(connection), _live(connection)

    def get(self, number: int) -> Generation:
        """One generation; a :class:`Candidate` while it is one. Raises :class:`UnknownGeneration`."""
        with self._database.read() as connection:
            return _get(connection, number)

    def candidate(self, number: int) -> Candidate:
        """The same, if it is a candidate still. Raises :class:`UnknownGeneration`."""
        found = self.get(number)
        _require_candidate(found)
        assert isinstance(found, Candidate)
        return found

    def all(self) -> tuple[Generation, ...]:
        """Every generation, the oldest first. One whose row is damaged is left out; ask for it to hear why."""
        with self._database.read() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM generations ORDER BY number").fetchall()  # noqa: S608
        found = []
        for row in rows:
            try:
                found.append(from_row(*row))
            except Corrupt:
                continue
        return tuple(found)

    def authors(self) -> Mapping[VersionKey, frozenset[str]]:
        """Who brought each version that was ever live: the authors of the generations that it came with."""
        found: dict[VersionKey, frozenset[str]] = {}
        for generation in self.all():
            if generation.state not in ("candidate", "rejected") and generation.author != STRIKES_AUTHOR:
                for name in (*generation.changes.added, *generation.changes.changed):
                    key = generation.key(name)
                    found[key] = found.get(key, frozenset()) | {generation.author}
        return found

    def switches(self, *, limit: int = 1_000) -> tuple[Switch, ...]:
        """The latest switches, the newest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id, number, previous, author, note, at FROM switches ORDER BY id DESC LIMIT ?", (limit,)
            )
            return tuple(Switch(*row) for row in rows)

    def stage(self, add: Mapping[str, ToolVersion], remove: Iterable[str], *, author: str, note: str) -> Candidate:
        """Writes a candidate on the generation that is live at this moment.

        Raises :class:`NameInvalid` for a name to remove that the live generation does not have, and as
        :meth:`check_room` does.
        """
        with self._database.write() as connection:
            check_room(connection, author, now=self._clock())
            live = _live(connection)
            gone = frozenset(remove)
            for name in sorted(gone - live.tools.keys()):
                raise NameInvalid(name, f"generation {live.number}, which is live, has no such tool to remove")
            tools = {name: version for name, version in live.tools.items() if name not in gone} | dict(add)
            return self._made(connection, live, tools, author, note)

    def check_room(self, author: str) -> None:
        """Raises :class:`StoreError` (``too_many_candidates``) where ``author`` may not stage one more now."""
        with self._database.read() as connection:
            check_room(connection, author, now=self._clock())

    def rejected_artifacts(self, *, before: float) -> tuple[str, ...]:
        """Hashes that nothing names but candidates that were staged before that time (POSIX seconds) and rejected."""
        with self._database.read() as connection:
            if connection.execute("SELECT 1 FROM generations WHERE NOT json_valid(body) LIMIT 1").fetchone():
                return ()  # What a damaged generation needs cannot be known.
            rows = connection.execute(
                "WITH named AS (SELECT json_extract(version.value, '$.artifact') AS sha256, "
                "state = 'rejected' AND json_extract(body, '$.created_at') < ? AS old "
                "FROM generations, json_each(body, '$.tools') AS version) "
                "SELECT DISTINCT sha256 FROM named WHERE old "
                "AND sha256 NOT IN (SELECT sha256 FROM named WHERE NOT old) ORDER BY sha256",
                (before,),
            )
            return tuple(row[0] for row in rows)

    def prune(self, *, keep: int, before: float) -> Pruned:
        """As :meth:`rho_wasm.dynamic.store.Store.prune`, of what is in the database."""
        with self._database.write() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM generations ORDER BY number").fetchall()  # noqa: S608
            found = [from_row(*row) for row in rows]
            return prune(
                connection,
                found,
                keep=keep,
                before=before,
                last_good=lambda live, tool: _last_good(connection, live, tool),
            )

    def verdicts(self, number: int) -> tuple[Verdict, ...]:
        """What the switch gates said of a generation when they were last asked, in that order."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT gate, passed, problems FROM verdicts WHERE number = ? ORDER BY id", (number,)
            ).fetchall()
        return tuple(Verdict(gate, bool(passed), tuple(json.loads(problems))) for gate, passed, problems in rows)

    def judge(self, number: int, verdicts: Iterable[Verdict], *, rejected: str | None) -> None:
        """Records what the gates said; with ``rejected`` (why) the candidate can never become live."""
        with self._database.write() as connection:
            for verdict in verdicts:
                connection.execute(
                    "INSERT OR REPLACE INTO verdicts (number, gate, passed, problems, at) VALUES (?, ?, ?, ?, ?)",
                    (number, verdict.gate, verdict.passed, json.dumps(verdict.problems), self._clock()),
                )
            if rejected is not None:
                _require_candidate(_get(connection, number))
                _set_state(connection, number, "rejected", rejected)

    def activate(self, number: int, *, floor: bool = False, check: Check | None = None) -> Switched:
        """Makes a candidate live, if nothing that it changes was changed since it was staged.

        Where the live generation moved on in other tools only, the candidate's changes are made to what is live now, as
        a generation of its own (``parent`` is the live one), and the candidate becomes ``superseded``.

        Raises :class:`UnknownGeneration` (none of that number, no candidate, or with a quarantined version),
        :class:`GenerationConflict`, and what ``check`` raises.
        """
        with self._database.write() as connection:
            candidate = _get(connection, number)
            _require_candidate(candidate)
            live = _live(connection)
            if check is not None:
                check(live, _differing(candidate.changes.names, candidate, live))
            target: Generation = candidate
            if candidate.parent != live.number:
                target = self._rebased(connection, candidate, live)
            _refuse_quarantined(connection, target, number)
            if floor:
                connection.execute("UPDATE generations SET floor = 1 WHERE number = ?", (target.number,))
            return self._switch(connection, target, live, "superseded", candidate.author, candidate.note)

    def _rebased(self, connection: sqlite3.Connection, candidate: Generation, live: Generation) -> Generation:
        assert candidate.parent is not None
        base = _get(connection, candidate.parent)
        moved = Changes.between(base.tools, live.tools).names
        clash = sorted(_differing(candidate.changes.names & moved, candidate, live))
        if clash:
            raise GenerationConflict(candidate.number, based_on=base.number, live=live.number, tools=clash)
        tools = candidate.changes.applied(live.tools, candidate.tools)
        rebased = self._made(connection, live, tools, candidate.author, candidate.note)
        _set_state(connection, candidate.number, "superseded", f"rebased on {live.number} as {rebased.number}")
        return rebased

    def _made(
        self, connection: sqlite3.Connection, live: Generation, tools: Mapping[str, ToolVersion], author: str, note: str
    ) -> Candidate:
        made = Candidate(
            number=_next_number(connection),
            parent=live.number,
            author=author,
            note=note,
            created_at=self._clock(),
            tools=FrozenMap(dict(sorted(tools.items()))),
            changes=Changes.between(live.tools, tools),
        )
        _insert(connection, made)
        return made

    def roll_back(
        self, to: int | None, *, author: str, note: str, expected: int | None = None, check: Check | None = None
    ) -> Switched:
        """Makes the parent of the live generation live again, or ``to``, any other that was live before.

        Its versions passed their gates then; no gate is asked. Raises :class:`UnknownGeneration`, also if a version in
        it is quarantined, and where another generation than the ``expected`` one is live; and what ``check`` raises.
        """
        with self._database.write() as connection:
            live = _live(connection)
            if expected is not None and live.number != expected:
                raise UnknownGeneration(expected, f"it is live no more: {live.number} went live meanwhile")
            if to is None and (to := live.parent) is None:
                raise UnknownGeneration(live.number, "it is the first one, there is none to return to")
            if to == live.number:
                raise UnknownGeneration(to, "it is live already")
            target = _get(connection, to)
            if (
                target.number != 0
                and not connection.execute("SELECT 1 FROM switches WHERE number = ? LIMIT 1", (to,)).fetchone()
            ):
                raise UnknownGeneration(to, f"it was never live ({target.state}), so nothing can return to it")
            if target.why == PRUNED:
                raise UnknownGeneration(to, "it was pruned, and artifacts of it are gone: stage its sources again")
            _refuse_quarantined(connection, target, to)
            if check is not None:
                check(live, Changes.between(live.tools, target.tools).names)
            return self._switch(connection, target, live, "rolled_back", author, note)

    def revert(self, connection: sqlite3.Connection, key: VersionKey, *, note: str) -> Switched | None:
        """Replaces a version by its tool's last good one, or takes the tool away. None if it is not live.

        Inside the caller's transaction, in which the version was quarantined.
        """
        live = _live(connection)
        version = live.tools.get(key.tool)
        if version is None or version.artifact != key.artifact:
            return None
        tools = {name: kept for name, kept in live.tools.items() if name != key.tool}
        if (good := _last_good(connection, live, key.tool)) is not None:
            tools[key.tool] = good
        made = self._made(connection, live, tools, STRIKES_AUTHOR, note)
        return self._switch(connection, made, live, "superseded", STRIKES_AUTHOR, note)

    def _switch(
        self,
        connection: sqlite3.Connection,
        target: Generation,
        live: Generation,
        becomes: State,
        author: str,
        note: str,
    ) -> Switched:
        _set_state(connection, live.number, becomes)
        _set_state(connection, target.number, "live")
        cursor = connection.execute(
            "INSERT INTO switches (number, previous, author, note, at) VALUES (?, ?, ?, ?, ?)",
            (target.number, live.number, author, note, self._clock()),
        )
        assert cursor.lastrowid is not None
        changes = Changes.between(live.tools, target.tools)
        return Switched(cursor.lastrowid, _get(connection, target.number), live.number, changes, author, note)


def _differing(names: Iterable[str], candidate: Generation, live: Generation) -> frozenset[str]:
    """Those whose tools are not the same in both."""
    return frozenset(name for name in names if candidate.tools.get(name) != live.tools.get(name))


def _get(connection: sqlite3.Connection, number: int) -> Generation:
    row = None
    if 0 <= number < 2**63:
        row = connection.execute(f"SELECT {_COLUMNS} FROM generations WHERE number = ?", (number,)).fetchone()  # noqa: S608
    if row is None:
        raise UnknownGeneration(number)
    return from_row(*row)


def _live(connection: sqlite3.Connection) -> Generation:
    row = connection.execute(f"SELECT {_COLUMNS} FROM generations WHERE state = 'live'").fetchone()  # noqa: S608
    if row is None:
        raise Corrupt("no generation is live: restore it from a copy")
    return from_row(*row)


def _last_switch(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(id), 0) FROM switches").fetchone()[0])


def _next_number(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT max(number) + 1 FROM generations").fetchone()[0])


def _insert(connection: sqlite3.Connection, generation: Generation) -> None:
    body, digest = generation.body()
    connection.execute(
        f"INSERT INTO generations ({_COLUMNS}) VALUES (?, ?, 0, '', ?, ?)",  # noqa: S608
        (generation.number, generation.state, body, digest),
    )


def _set_state(connection: sqlite3.Connection, number: int, state: State, why: str = "") -> None:
    connection.execute("UPDATE generations SET state = ?, why = ? WHERE number = ?", (state, why, number))


def _require_candidate(generation: Generation) -> None:
    if generation.state != "candidate":
        why = f" ({generation.why})" if generation.why else ""
        raise UnknownGeneration(
            generation.number, f"it is no candidate but {generation.state}{why}: stage the artifacts again"
        )


def _is_quarantined(connection: sqlite3.Connection, key: VersionKey, *, mode: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM quarantines WHERE tool = ? AND artifact = ? AND pardoned_at IS NULL AND mode GLOB ?",
        (*key, mode),
    ).fetchone()
    return row is not None


def _refuse_quarantined(connection: sqlite3.Connection, target: Generation, number: int) -> None:
    # A suspended version stays in its generation: it is tried again by itself.
    held = [name for name in target.tools if _is_quarantined(connection, target.key(name), mode="revert")]
    if held:
        names = ", ".join(held)
        raise UnknownGeneration(number, f"the version in it is quarantined, pardon it first: {names}")


def _last_good(connection: sqlite3.Connection, live: Generation, tool: str) -> ToolVersion | None:
    """The version of ``tool`` before the live one that passed its gates and was never quarantined (or was pardoned).

    Parents are followed, not numbers, so that what an operator rolled back is not returned to. A generation that was
    activated as a floor for this tool ends the search, and so does one in which somebody took the tool away.
    """
    current, bad = live, live.tools[tool].artifact
    while current.parent is not None:
        if current.floor and tool in (*current.changes.added, *current.changes.changed):
            return None
        if tool in current.changes.removed and current.author != STRIKES_AUTHOR:
            return None
        try:
            current = _get(connection, current.parent)
        except Corrupt:
            return None  # What came before cannot be known, and the tool must go now.
        version = current.tools.get(tool)
        if version is None or version.artifact == bad:
            continue
        if not _is_quarantined(connection, VersionKey(tool, version.artifact), mode="*"):
            return version
    return None
