"""What tools keep, in the store: compared, counted and written in one step, whichever processes have it open."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

import anyio

from rho_wasm.capabilities.kv_backend import KvCondition, KvRoom
from rho_wasm.dynamic.database import Database
from rho_wasm.errors import CapabilityError, Closed, StoreError
from rho_wasm.host_threads import HostThreads, NoThread
from rho_wasm.limits import HostLimits

__all__ = ["KvTable", "StoreKv", "forget_namespaces"]

_MAX_ABANDONED = 16
_AT_ONCE = 4
"""The store does one write at a time: whoever else has one to do must not wait behind those of every call."""
_SHARE: Final = 4
"""Of what others leave, the tools of one artifact may keep one part in so many: whoever comes later has some too."""
_WHY: Final = MappingProxyType(
    {
        "locked": "the store is busy: try again",
        "read_only": "the store is open for reading only",
        "disk_full": "the disk of the store is full",
        "closed": "the store is closed",
    }
)

Answer = TypeVar("Answer")


class KvTable:
    """Keys and values by tool. Blocks; from any thread. Raises as :class:`rho_wasm.dynamic.store.Store` does.

    What is written survives a killed host. A power cut may take the last moments of it, as a whole.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, tool: str, key: str) -> bytes | None:
        """The value, or None."""
        with self._database.read() as connection:
            return _value(connection, tool, key)

    def put(
        self,
        tool: str,
        key: str,
        value: bytes,
        *,
        room: KvRoom,
        only_if: KvCondition = None,
        siblings: Sequence[str] = (),
        all_bytes: int,
    ) -> bool:
        """Whether it was stored, as :class:`rho_wasm.capabilities.kv_backend.KvBackend` says it.

        All tools together keep at most ``all_bytes``: one that would grow beyond it is told ``unavailable``, since that
        is not its own doing. The tools of one artifact (``siblings``) keep together what one of them may, or a quarter
        of what all others leave if that is more: beyond it is ``quota``.
        """
        with self._database.write(durable=False) as connection:
            old = _value(connection, tool, key)
            if only_if is not None and old != (None if only_if == "absent" else only_if):
                return False
            grown = len(value) - len(old) if old is not None else len(value) + len(key.encode())
            keys, size = _size(connection, tool)
            keys, size = keys + (old is None), size + grown
            if grown > 0:
                room.check(keys=keys, bytes=size)
                total = int(connection.execute("SELECT total(bytes) FROM kv_sizes").fetchone()[0])
                if len(siblings) > 1:
                    _check_together(_sizes_of(connection, siblings), grown, left=all_bytes - total, one=room.bytes)
                if total + grown > all_bytes:
                    raise CapabilityError("unavailable", "the store has no more room for what tools keep", fault=True)
            connection.execute("INSERT OR REPLACE INTO kv (tool, key, value) VALUES (?, ?, ?)", (tool, key, value))
            _set_size(connection, tool, keys, size)
        return True

    def delete(self, tool: str, key: str) -> bool:
        """Whether there was such a key."""
        with self._database.write(durable=False) as connection:
            old = _value(connection, tool, key)
            if old is None:
                return False
            connection.execute("DELETE FROM kv WHERE tool = ? AND key = ?", (tool, key))
            keys, size = _size(connection, tool)
            _set_size(connection, tool, keys - 1, size - len(old) - len(key.encode()))
        return True

    def keys(self, tool: str, *, prefix: str = "", after: str = "", limit: int) -> tuple[str, ...]:
        """The first ``limit`` keys that begin with ``prefix`` and come after ``after``, in the order of UTF-8."""
        with self._database.read() as connection:
            # No UTF-8 has the byte FF, so that this ends behind every key with the prefix, and the index is used.
            rows = connection.execute(
                "SELECT key FROM kv WHERE tool = ? AND key >= ? AND key < CAST(? AS TEXT) AND key > ? "
                "ORDER BY key LIMIT ?",
                (tool, prefix, prefix.encode() + b"\xff", after, limit),
            ).fetchall()
        return tuple(row[0] for row in rows)

    def sizes(self) -> dict[str, KvRoom]:
        """How much each tool keeps that keeps anything, sorted by name."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT tool, keys, bytes FROM kv_sizes ORDER BY tool").fetchall()
        return {tool: KvRoom(keys, size) for tool, keys, size in rows}


def forget_namespaces(connection: sqlite3.Connection, named: Collection[str]) -> tuple[str, ...]:
    """Deletes what tools kept whose names are not ``named``, inside the caller's transaction. Answers their names."""
    rows = connection.execute("SELECT tool FROM kv_sizes ORDER BY tool").fetchall()
    gone = tuple(tool for (tool,) in rows if tool not in named)
    for table in ("kv", "kv_sizes"):
        connection.executemany(f"DELETE FROM {table} WHERE tool = ?", [(tool,) for tool in gone])  # noqa: S608
    return gone


class StoreKv:
    """The store as a :class:`rho_wasm.capabilities.kv_backend.KvBackend`. Its work is done in threads.

    A call that is cancelled while it waits leaves at once; what it asked for may still happen, as a whole. Of one
    event loop. ``max_bytes`` bounds what all tools keep together (None: the default of ``HostLimits.kv_bytes``).
    """

    def __init__(self, table: KvTable, *, max_bytes: int | None = None) -> None:
        self.max_bytes = HostLimits().kv_bytes if max_bytes is None else max_bytes
        self._table = table
        self._threads = HostThreads(max_abandoned=_MAX_ABANDONED)
        self._turns = anyio.Semaphore(_AT_ONCE)

    async def get(self, tool: str, key: str) -> bytes | None:
        return await self._run(lambda: self._table.get(tool, key))

    async def put(
        self,
        tool: str,
        key: str,
        value: bytes,
        *,
        room: KvRoom,
        only_if: KvCondition = None,
        siblings: Sequence[str] = (),
    ) -> bool:
        put = partial(self._table.put, tool, key, value, room=room, only_if=only_if, siblings=siblings)
        return await self._run(lambda: put(all_bytes=self.max_bytes))

    async def delete(self, tool: str, key: str) -> bool:
        return await self._run(lambda: self._table.delete(tool, key))

    async def keys(self, tool: str, *, prefix: str, after: str, limit: int) -> tuple[str, ...]:
        return await self._run(lambda: self._table.keys(tool, prefix=prefix, after=after, limit=limit))

    async def _run(self, work: Callable[[], Answer]) -> Answer:
        try:
            async with self._turns:
                outcome = await self._threads.run(work)
        except NoThread:
            raise CapabilityError("unavailable", _WHY["locked"], fault=True) from None
        error = outcome.error
        if isinstance(error, StoreError | Closed):
            # Its text names folders of the host.
            why = _WHY.get(error.reason, "the store has a fault")
            raise CapabilityError("unavailable", why, fault=True) from error
        if error is not None:
            raise error
        answer: Answer = outcome.value
        return answer


def _value(connection: sqlite3.Connection, tool: str, key: str) -> bytes | None:
    row: Any = connection.execute("SELECT value FROM kv WHERE tool = ? AND key = ?", (tool, key)).fetchone()
    return None if row is None else bytes(row[0])


def _size(connection: sqlite3.Connection, tool: str) -> tuple[int, int]:
    row: Any = connection.execute("SELECT keys, bytes FROM kv_sizes WHERE tool = ?", (tool,)).fetchone()
    return (0, 0) if row is None else (row[0], row[1])


def _sizes_of(connection: sqlite3.Connection, tools: Sequence[str]) -> int:
    row: Any = connection.execute(
        "SELECT coalesce(sum(bytes), 0) FROM kv_sizes WHERE tool IN (SELECT value FROM json_each(?))",
        (json.dumps(tools),),
    ).fetchone()
    return int(row[0])


def _check_together(kept: int, grown: int, *, left: int, one: int) -> None:
    """``left`` is what nobody keeps yet, ``one`` what a single tool may keep."""
    most = max(one, (left + kept) // _SHARE)
    if kept + grown > most:
        raise CapabilityError(
            "quota", f"the tools of this module would keep {kept + grown} bytes, over the {most} that they may together"
        )


def _set_size(connection: sqlite3.Connection, tool: str, keys: int, size: int) -> None:
    if keys:
        connection.execute("INSERT OR REPLACE INTO kv_sizes (tool, keys, bytes) VALUES (?, ?, ?)", (tool, keys, size))
    else:
        connection.execute("DELETE FROM kv_sizes WHERE tool = ?", (tool,))
