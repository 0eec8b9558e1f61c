"""Recordings as rows of the store: for each tool a ring of the latest, bounded in number and in bytes."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from rho_wasm.dynamic.database import Database
from rho_wasm.dynamic.generation import VersionKey
from rho_wasm.dynamic.recording import Recording, RecordingRow, damaged
from rho_wasm.errors import StoreError

__all__ = ["Recordings"]

_COLUMNS = "id, tool, artifact, generation, at, kind, reason, fuel, duration_ms, host_calls, bytes"
_MOST, _MOST_BYTES = 20_000, 256 * 1024 * 1024
"""Of all tools together: a model can make any number of tools. Beyond, the oldest of all is let go first."""


class Recordings:
    """Calls that were kept to be run again. For any thread and several processes; they hold users' data.

    Raises :class:`StoreError` as :class:`Database` does.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        recordings: Iterable[Recording],
        *,
        per_tool: int,
        bytes_per_tool: int,
        unkept: Mapping[VersionKey, int] | None = None,
    ) -> None:
        """Keeps recordings, in one transaction, and lets the oldest of their tools go where that is too many.

        ``unkept`` are how many calls of which versions worked and could not be kept, beside these. All of it survives a
        killed host as soon as this returns.
        """
        tools: set[str] = set()
        with self._database.write(durable=False) as connection:
            for recording in recordings:
                body = recording.body()
                connection.execute(
                    "INSERT INTO recordings (tool, artifact, generation, at, kind, reason, fuel, duration_ms, "
                    "host_calls, bytes, body, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        recording.tool,
                        recording.artifact,
                        recording.generation,
                        recording.at,
                        recording.kind,
                        recording.reason,
                        recording.fuel,
                        recording.duration_ms,
                        len(recording.host_calls),
                        len(body),
                        body,
                        _digest(body),
                    ),
                )
                tools.add(recording.tool)
            for version, calls in (unkept or {}).items():
                connection.execute(
                    "INSERT INTO unkept VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls",
                    (*version, calls),
                )
            for tool in sorted(tools):
                _trim(connection, tool, most=per_tool, most_bytes=bytes_per_tool)
            _trim_all(connection)

    def rows(self, tool: str | None = None, *, limit: int = 1_000) -> tuple[RecordingRow, ...]:
        """The latest recordings, of one tool or of all, the newest first. Their contents are not read.

        ``limit`` of them at most, or all that there are if it is -1.
        """
        with self._database.read() as connection:
            if tool is None:
                return _rows(connection, "TRUE ORDER BY id DESC LIMIT ?", (limit,))
            return _rows(connection, "tool = ? ORDER BY id DESC LIMIT ?", (tool, limit))

    def counts(self) -> dict[str, int]:
        """How many there are of each tool of which there are some, sorted by name."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT tool, count(*) FROM recordings GROUP BY tool ORDER BY tool").fetchall()
        return dict(rows)

    def find(self, ids: Iterable[int]) -> tuple[RecordingRow, ...]:
        """Those of ``ids`` that are there, in that order."""
        with self._database.read() as connection:
            return tuple(row for id in ids if 0 < id < 2**63 for row in _rows(connection, "id = ?", (id,)))

    def ended(self, tool: str, *, limit: int, without: Iterable[str] = ()) -> tuple[RecordingRow, ...]:
        """The latest recordings of ``tool`` in which it answered, the newest first, then those in which it failed.

        By whichever version, but for the artifacts in ``without``. What failed never takes the place of an answer: a
        version that always fails could else push out what its successors are to be held to.
        """
        with self._database.read() as connection:
            where = (
                "tool = ? AND kind IN ('ok', 'failed') AND artifact NOT IN (SELECT value FROM json_each(?)) "
                "ORDER BY kind = 'failed', id DESC LIMIT ?"
            )
            return _rows(connection, where, (tool, json.dumps(sorted(without)), limit))

    def answered(self, tool: str, artifacts: Iterable[str], *, limit: int) -> tuple[RecordingRow, ...]:
        """The latest recordings in which one of ``artifacts`` answered as ``tool``, the newest first."""
        with self._database.read() as connection:
            where = "tool = ? AND kind = 'ok' AND artifact IN (SELECT value FROM json_each(?)) ORDER BY id DESC LIMIT ?"
            return _rows(connection, where, (tool, json.dumps(sorted(artifacts)), limit))

    def unkept(self, tool: str) -> dict[str, int]:
        """How many calls of ``tool`` worked and could not be kept, by artifact. Not of those of which one is here."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT artifact, calls FROM unkept WHERE tool = ? AND artifact NOT IN "
                "(SELECT artifact FROM recordings WHERE tool = ? AND kind = 'ok')",
                (tool, tool),
            )
            return dict(found.fetchall())

    def get(self, id: int) -> Recording | None:
        """One recording; None where there is none of that id. Raises :class:`Corrupt` if it is damaged."""
        if not 0 < id < 2**63:
            return None
        with self._database.read() as connection:
            row = connection.execute(f"SELECT body, digest, {_COLUMNS} FROM recordings WHERE id = ?", (id,)).fetchone()  # noqa: S608
        if row is None:
            return None
        body, digest = row[:2]
        if _digest(body) != digest:
            raise damaged(id)
        return Recording.of(_row(row[2:]), body)

    def drop(self, ids: Iterable[int] = (), *, tool: str | None = None) -> int:
        """Forgets recordings: those ids, or all of ``tool``, also that some of its calls could not be kept. Answers how
        many there were. Durable.

        Their bytes are overwritten in the database and, unless another process is reading just now, in its log.
        """
        with self._database.write(overwrite=True) as connection:
            gone = sum(connection.execute("DELETE FROM recordings WHERE id = ?", (id,)).rowcount for id in ids)
            if tool is not None:
                gone += connection.execute("DELETE FROM recordings WHERE tool = ?", (tool,)).rowcount
                connection.execute("DELETE FROM unkept WHERE tool = ?", (tool,))
        with suppress(StoreError):
            self._database.truncate_log()
        return gone


def _rows(connection: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> tuple[RecordingRow, ...]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM recordings WHERE {where}", values)  # noqa: S608
    return tuple(_row(row) for row in rows)


def _row(columns: tuple[Any, ...]) -> RecordingRow:
    return RecordingRow(**dict(zip(RecordingRow.__slots__, columns, strict=True)))


def _trim(connection: sqlite3.Connection, tool: str, *, most: int, most_bytes: int) -> None:
    """Lets the oldest of ``tool`` go until what is left is within both bounds."""
    _delete_oldest(connection, "tool = :tool", {"tool": tool, "most": most, "most_bytes": most_bytes})


def _trim_all(connection: sqlite3.Connection) -> None:
    number, total = connection.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM recordings").fetchone()
    if number > _MOST or total > _MOST_BYTES:
        _delete_oldest(connection, "TRUE", {"most": _MOST, "most_bytes": _MOST_BYTES})


def _delete_oldest(connection: sqlite3.Connection, which: str, values: dict[str, Any]) -> None:
    last = connection.execute(
        "SELECT max(id) FROM (SELECT id, row_number() OVER latest AS place, sum(bytes) OVER latest AS total "  # noqa: S608
        f"FROM recordings WHERE {which} WINDOW latest AS (ORDER BY id DESC)) "
        "WHERE place > :most OR total > :most_bytes",
        values,
    ).fetchone()[0]
    if last is not None:
        connection.execute(f"DELETE FROM recordings WHERE {which} AND id <= :last", values | {"last": last})  # noqa: S608


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
