"""The store's tables, and how an older store becomes one of this version."""

from __future__ import annotations

import sqlite3

__all__ = ["APPLICATION_ID", "MIGRATIONS", "SCHEMA_VERSION", "migrate"]

APPLICATION_ID = 0x72686F57
"""``PRAGMA application_id`` of a store ("rhoW"): another program's database is told apart from ours."""

_VERSION_1 = (
    # What is known of an artifact beside its bytes, which lie in a file named by their hash. ``seal`` is an HMAC under
    # the host's key: without a right one the artifact is merely claimed to have been built from ``source``.
    """
    CREATE TABLE artifacts (
        sha256 TEXT PRIMARY KEY, source TEXT, language TEXT, toolchain TEXT, log TEXT NOT NULL,
        created_at REAL NOT NULL, seal BLOB
    ) STRICT
    """,
    # ``body`` is the part that never changes, as canonical JSON with its SHA-256 beside it.
    """
    CREATE TABLE generations (
        number INTEGER PRIMARY KEY, state TEXT NOT NULL, floor INTEGER NOT NULL DEFAULT 0, why TEXT NOT NULL DEFAULT '',
        body TEXT NOT NULL, digest TEXT NOT NULL,
        CHECK (state IN ('candidate', 'live', 'superseded', 'rejected', 'rolled_back'))
    ) STRICT
    """,
    # No crash and no fault of ours can make two generations live.
    "CREATE UNIQUE INDEX one_live ON generations (state) WHERE state = 'live'",
    """
    CREATE TABLE switches (
        id INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL REFERENCES generations, previous INTEGER NOT NULL,
        author TEXT NOT NULL, note TEXT NOT NULL, at REAL NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE verdicts (
        id INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL REFERENCES generations, gate TEXT NOT NULL,
        passed INTEGER NOT NULL, problems TEXT NOT NULL, at REAL NOT NULL, UNIQUE (number, gate)
    ) STRICT
    """,
    """
    CREATE TABLE approvals (
        number INTEGER PRIMARY KEY REFERENCES generations, yes INTEGER NOT NULL, by TEXT NOT NULL, note TEXT NOT NULL,
        at REAL NOT NULL, seal BLOB
    ) STRICT
    """,
    """
    CREATE TABLE strikes (
        id INTEGER PRIMARY KEY AUTOINCREMENT, tool TEXT NOT NULL, artifact TEXT NOT NULL, generation INTEGER NOT NULL,
        reason TEXT NOT NULL, call_id TEXT NOT NULL, request_id TEXT, session_id TEXT, at REAL NOT NULL,
        backtrace TEXT NOT NULL, pardoned INTEGER NOT NULL DEFAULT 0
    ) STRICT
    """,
    "CREATE INDEX strikes_of_version ON strikes (tool, artifact, id)",
    # How many calls of a version ended, by the start of their ten seconds: what strikes are measured against.
    """
    CREATE TABLE traffic (
        tool TEXT NOT NULL, artifact TEXT NOT NULL, slot INTEGER NOT NULL, calls INTEGER NOT NULL,
        PRIMARY KEY (tool, artifact, slot)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE quarantines (
        tool TEXT NOT NULL, artifact TEXT NOT NULL, generation INTEGER NOT NULL, at REAL NOT NULL, mode TEXT NOT NULL,
        until REAL, level INTEGER NOT NULL, reasons TEXT NOT NULL, backtrace TEXT NOT NULL, pardoned_at REAL,
        PRIMARY KEY (tool, artifact)
    ) STRICT, WITHOUT ROWID
    """,
)

_VERSION_2 = (
    # What tools keep for themselves: by the tool's name, so that its next version finds it.
    """
    CREATE TABLE kv (
        tool TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (tool, key)
    ) STRICT, WITHOUT ROWID
    """,
    # What that comes to, altered in the same transaction: counting it anew took 2 ms for a tool with all its room full.
    """
    CREATE TABLE kv_sizes (
        tool TEXT PRIMARY KEY, keys INTEGER NOT NULL, bytes INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    # Calls kept to be run again. ``body`` is plain CBOR (request, host calls, answer) with its SHA-256 beside it;
    # ``bytes`` is its length, so that a ring is measured without reading it.
    """
    CREATE TABLE recordings (
        id INTEGER PRIMARY KEY AUTOINCREMENT, tool TEXT NOT NULL, artifact TEXT NOT NULL, generation INTEGER NOT NULL,
        at REAL NOT NULL, kind TEXT NOT NULL, reason TEXT, fuel INTEGER, duration_ms REAL NOT NULL,
        host_calls INTEGER NOT NULL, bytes INTEGER NOT NULL, body BLOB NOT NULL, digest TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX recordings_of_tool ON recordings (tool, id, bytes)",
)

_VERSION_3 = (
    # How many calls of a version worked and could not be kept: of one of which none is kept, its successor is held to
    # nothing that anybody asked.
    """
    CREATE TABLE unkept (
        tool TEXT NOT NULL, artifact TEXT NOT NULL, calls INTEGER NOT NULL, PRIMARY KEY (tool, artifact)
    ) STRICT, WITHOUT ROWID
    """,
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1, _VERSION_2, _VERSION_3)
"""The statements that lead from version n to n + 1. What was released here never changes; append."""

SCHEMA_VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection) -> None:
    """Brings the database to :data:`SCHEMA_VERSION`. Inside the caller's write transaction, so all of it or nothing."""
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    for statements in MIGRATIONS[found:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
