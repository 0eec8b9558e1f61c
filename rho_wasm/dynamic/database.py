"""One SQLite file: who may write when, what survives a killed host, and which fault becomes which error."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from rho_wasm.errors import Closed, Corrupt, Locked, StoreError

__all__ = ["Database", "disk_error"]

_NO_PLACE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def disk_error(error: OSError, path: Path) -> StoreError:
    """The :class:`StoreError` for a file that cannot be read or written."""
    where = str(path)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreError("the disk is full: nothing was changed", path=where, reason="disk_full")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreError("it may not be written: nothing was changed", path=where, reason="read_only")
    return StoreError(f"the file system says {errno.errorcode.get(error.errno or 0, 'error')}", path=where)


class Database:
    """Connections to one SQLite database, for any thread.

    Reads and writes have a connection each, so that a lookup never waits for a write (SQLite's WAL mode). A write is
    one transaction: all of it or nothing, also when the host is killed in the middle. ``path`` None keeps everything
    in memory. ``busy_ms`` bounds the wait for another process's write, then :class:`Locked`.

    Raises, here and in every method: :class:`Locked`, :class:`Corrupt`, :class:`StoreError` (``read_only``,
    ``disk_full``, ``io_error``, ``unreadable``), and :class:`Closed` after :meth:`close`.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False, busy_ms: int = 5_000) -> None:
        self.path = path
        self.read_only = read_only
        self._busy_ms = busy_ms
        self._closed = False
        self._reading = threading.RLock()
        self._writing = threading.RLock() if path is not None else self._reading
        with self._translated():
            self._reader = self._connect()
            self._writer = self._connect() if path is not None and not read_only else self._reader

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            return self._open(":memory:")
        name = f"file:{quote(str(self.path))}"
        if not self.read_only:
            # SQLite would make it for everyone; its log gets the same mode. Never opened where it is there: to close it
            # again would let go of the locks that this process has on it.
            with suppress(OSError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            return self._open(f"{name}?mode=rwc")
        connection = self._open(f"{name}?mode=ro")
        try:
            connection.execute("PRAGMA schema_version").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            log = self.path.with_name(self.path.name + "-wal")
            no_place = error.sqlite_errorcode & 0xFF in _NO_PLACE
            if not no_place or (log.exists() and log.stat().st_size) or not self.path.exists():
                raise
            # A folder that cannot be written, or a full disk, has no place for SQLite's shared memory. With
            # nothing in the write-ahead log the file is whole, and nobody can write: what "immutable" tells SQLite.
            connection = self._open(f"{name}?mode=ro&immutable=1")
        return connection

    def _open(self, name: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            name, uri=True, timeout=self._busy_ms / 1000, isolation_level=None, check_same_thread=False
        )
        # A store may have been copied from anywhere: what its schema holds must not reach beyond it.
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection

    def prepare(self) -> None:
        """Turns on what the file must have: the write-ahead log and foreign keys. Once, before the first write."""
        with self._writing, self._translated():
            self._patiently("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA foreign_keys = ON")

    def _patiently(self, statement: str) -> None:
        """Waits where SQLite does not: two that turn the log on at once would wait for each other, so it tells one."""
        gives_up = time.monotonic() + self._busy_ms / 1000
        while True:
            try:
                self._writer.execute(statement).fetchone()
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= gives_up:
                    raise
            time.sleep(random.uniform(0.001, 0.01))  # noqa: S311  (so that two do not meet again)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A consistent view of the database. Never waits for a writer."""
        with self._reading, self._translated():
            if self._reader.in_transaction:
                yield self._reader
                return
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                with suppress(sqlite3.Error):
                    self._reader.execute("ROLLBACK")

    @contextmanager
    def write(self, *, durable: bool = True, overwrite: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction that no other process's write comes between.

        It survives a killed host either way; with ``durable`` it is on the disk when this returns, so that it survives
        a power cut too. With ``overwrite`` zeros take the place of what is deleted.
        """
        with self._writing, self._translated():
            if self.read_only:
                raise StoreError("it is open for reading only", path=str(self.path), reason="read_only")
            writer = self._writer
            writer.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            if overwrite:
                writer.execute("PRAGMA secure_delete = ON").fetchone()
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield writer
                writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    writer.execute("ROLLBACK")
                raise
            finally:
                if overwrite:
                    writer.execute("PRAGMA secure_delete = OFF").fetchone()

    def truncate_log(self) -> None:
        """Writes the log into the database and empties it, where no other process reads or writes just now."""
        with self._writing, self._translated():
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def data_version(self) -> int:
        """A number that changes whenever the database was changed by anyone, another process too. Costs microseconds.

        A database in memory is changed by nobody else; its number stays.
        """
        with self._reading, self._translated():
            return int(self._reader.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Lets go of the file. May be called twice."""
        with self._writing, self._reading:
            self._closed = True
            self._reader.close()
            self._writer.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if self._closed:
            raise Closed("store")
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self._store_error(error) from None

    def _store_error(self, error: sqlite3.DatabaseError) -> StoreError:
        where = None if self.path is None else str(self.path)
        code = getattr(error, "sqlite_errorcode", 0)
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        match code & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return Locked(f"another process kept it locked for {self._busy_ms} ms: try again", path=where)
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return Corrupt(f"it is no whole SQLite database ({name}): restore it from a copy", path=where)
            case sqlite3.SQLITE_ERROR | sqlite3.SQLITE_MISMATCH:
                # Every statement is ours and fits our schema.
                return Corrupt("its tables are not those of a store: restore it from a copy", path=where)
            case sqlite3.SQLITE_FULL:
                return StoreError("the disk is full: nothing was changed", path=where, reason="disk_full")
            case sqlite3.SQLITE_READONLY:
                return StoreError("it may not be written: nothing was changed", path=where, reason="read_only")
            case sqlite3.SQLITE_CANTOPEN:
                return StoreError("it cannot be opened", path=where, reason="unreadable")
            case sqlite3.SQLITE_IOERR:
                return StoreError(f"the disk failed ({name}): is it full?", path=where, reason="io_error")
        return StoreError(f"SQLite says {name}", path=where)
