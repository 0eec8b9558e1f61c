"""Strikes, quarantines, traffic and approvals as rows of the store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rho_wasm.dynamic.database import Database
from rho_wasm.dynamic.generation import VersionKey
from rho_wasm.dynamic.seal import Seal
from rho_wasm.dynamic.strikes import SLOT_S, CallKey, Quarantine, Strike, Traffic
from rho_wasm.errors import Corrupt, UnknownGeneration

__all__ = ["Approval", "Approvals", "StrikeRecords"]

_STRIKE_COLUMNS = "id, tool, artifact, generation, reason, call_id, request_id, session_id, at, backtrace, pardoned"
_KEPT_PER_VERSION = 10_000
"""Strikes of one version that are kept as history. The oldest are let go."""


class StrikeRecords:
    """What a ledger needs to be whole again after a restart, and to know of other processes. For any thread."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def add(self, strikes: Iterable[Strike], traffic: Traffic) -> tuple[int, ...]:
        """Writes strikes and calls; answers the strikes' ids. They survive a killed host as soon as this returns."""
        ids = []
        with self._database.write(durable=False) as connection:
            for strike in strikes:
                cursor = connection.execute(
                    "INSERT INTO strikes (tool, artifact, generation, reason, call_id, request_id, session_id, at, "
                    "backtrace) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        *strike.version,
                        strike.generation,
                        strike.reason,
                        *strike.call,
                        strike.at,
                        json.dumps(strike.backtrace),
                    ),
                )
                assert cursor.lastrowid is not None
                ids.append(cursor.lastrowid)
            connection.executemany(
                "INSERT INTO traffic (tool, artifact, slot, calls) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET calls = calls + excluded.calls",
                [(*version, slot, calls) for (version, slot), calls in traffic.items()],
            )
        return tuple(ids)

    def since(self, seen: int) -> tuple[Strike, ...]:
        """The strikes that were written after the one of that id, the oldest first."""
        with self._database.read() as connection:
            return _strikes(connection, "id > ? ORDER BY id", (seen,))

    def last_before(self, at: float) -> int:
        """The id of the latest strike up to that time: what came before it is out of every window."""
        with self._database.read() as connection:
            row = connection.execute("SELECT coalesce(max(id), 0) FROM strikes WHERE at <= ?", (at,)).fetchone()
            return int(row[0])

    def all(self, tool: str | None = None, *, limit: int = 1_000) -> tuple[Strike, ...]:
        """The latest strikes, of one tool or of all, the newest first."""
        with self._database.read() as connection:
            return _strikes(connection, "(?1 IS NULL OR tool = ?1) ORDER BY id DESC LIMIT ?2", (tool, limit))

    def traffic(self, since: float) -> Traffic:
        """Calls of every version that ended since then (POSIX seconds), exact to one slot."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT tool, artifact, slot, calls FROM traffic WHERE slot >= ?", (int(since // SLOT_S),)
            )
            return {(VersionKey(tool, artifact), slot): calls for tool, artifact, slot, calls in rows}

    def quarantines(self, tool: str | None = None) -> tuple[Quarantine, ...]:
        """Every quarantine, pardoned ones too, the oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT tool, artifact, generation, at, mode, until, level, reasons, backtrace, pardoned_at "
                "FROM quarantines WHERE ?1 IS NULL OR tool = ?1 ORDER BY at, tool",
                (tool,),
            )
            return tuple(_quarantine(row) for row in rows)

    def quarantine(self, connection: sqlite3.Connection, held: Quarantine) -> None:
        """Writes a quarantine, in place of an earlier one of that version. Inside the caller's transaction."""
        connection.execute(
            "INSERT OR REPLACE INTO quarantines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *held.version,
                held.generation,
                held.at,
                held.mode,
                held.until,
                held.level,
                json.dumps(held.reasons),
                json.dumps(held.backtrace),
                held.pardoned_at,
            ),
        )

    def pardon(self, tool: str) -> tuple[Quarantine, ...]:
        """Ends every quarantine of ``tool``, and lets its strikes count no longer. Answers what was ended."""
        with self._database.write() as connection:
            ended = tuple(held for held in self.quarantines(tool) if held.active)
            connection.execute(
                "UPDATE quarantines SET pardoned_at = ? WHERE tool = ? AND pardoned_at IS NULL", (self._clock(), tool)
            )
            connection.execute("UPDATE strikes SET pardoned = 1 WHERE tool = ?", (tool,))
            return ended

    def prune(self, *, before: float) -> None:
        """Lets go of traffic from before that time, and of strikes beyond what is kept as history."""
        with self._database.write(durable=False) as connection:
            connection.execute("DELETE FROM traffic WHERE slot < ?", (int(before // SLOT_S),))
            connection.execute(
                "DELETE FROM strikes WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER "
                "(PARTITION BY tool, artifact ORDER BY id DESC) AS place FROM strikes) WHERE place > ?)",
                (_KEPT_PER_VERSION,),
            )


def _strikes(connection: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> tuple[Strike, ...]:
    rows = connection.execute(
        f"SELECT {_STRIKE_COLUMNS} FROM strikes WHERE {where}",  # noqa: S608
        values,
    )
    return tuple(_strike(row) for row in rows)


def _strike(row: tuple[Any, ...]) -> Strike:
    with _readable("strike"):
        return Strike(
            id=row[0],
            version=VersionKey(row[1], row[2]),
            generation=row[3],
            reason=row[4],
            call=CallKey(*row[5:8]),
            at=row[8],
            backtrace=tuple(json.loads(row[9])),
            pardoned=bool(row[10]),
        )


def _quarantine(row: tuple[Any, ...]) -> Quarantine:
    with _readable("quarantine"):
        return Quarantine(
            version=VersionKey(row[0], row[1]),
            generation=row[2],
            at=row[3],
            mode=row[4],
            until=row[5],
            level=row[6],
            reasons=tuple(json.loads(row[7])),
            backtrace=tuple(json.loads(row[8])),
            pardoned_at=row[9],
        )


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError):
        raise Corrupt(f"a {what} in it cannot be read: restore it from a copy") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's word on one candidate. ``by`` names them, ``at`` is a POSIX timestamp."""

    number: int
    yes: bool
    by: str
    note: str
    at: float

    def as_json(self) -> dict[str, Any]:
        return {"number": self.number, "yes": self.yes, "by": self.by, "note": self.note, "at": self.at}


class Approvals:
    """Approvals, each under the host's key: a store that was copied here brings none along."""

    def __init__(self, database: Database, *, seal: Seal, clock: Callable[[], float]) -> None:
        self._database = database
        self._seal = seal
        self._clock = clock

    def get(self, number: int) -> Approval | None:
        """What was said of that candidate on this host, or None."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT a.yes, a.by, a.note, a.at, a.seal, g.digest FROM approvals AS a "
                "JOIN generations AS g USING (number) WHERE number = ?",
                (number,),
            ).fetchone()
        if row is None or not self._seal.holds(row[4], "approval", str(number), row[5], str(row[0]), row[1]):
            return None
        return Approval(number=number, yes=bool(row[0]), by=row[1], note=row[2], at=row[3])

    def say(self, number: int, *, yes: bool, by: str, note: str) -> Approval:
        """Records a yes or a no to a candidate; a no makes it rejected. Raises :class:`UnknownGeneration`."""
        with self._database.write() as connection:
            row = connection.execute("SELECT digest, state FROM generations WHERE number = ?", (number,)).fetchone()
            if row is None:
                raise UnknownGeneration(number)
            if row[1] != "candidate":
                raise UnknownGeneration(number, f"it is no candidate but {row[1]}")
            approval = Approval(number=number, yes=yes, by=by, note=note, at=self._clock())
            seal = self._seal.over("approval", str(number), row[0], str(int(yes)), by)
            connection.execute(
                "INSERT OR REPLACE INTO approvals VALUES (?, ?, ?, ?, ?, ?)",
                (number, yes, by, note, approval.at, seal),
            )
            if not yes:
                why = f"rejected by {by}" + (f": {note}" if note else "")
                connection.execute("UPDATE generations SET state = 'rejected', why = ? WHERE number = ?", (why, number))
            return approval
