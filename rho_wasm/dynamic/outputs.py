"""Texts too long for a model, kept beside the store: they outlive the process, as the sessions that read them do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rho_wasm.builtin.outputs import new_output_id
from rho_wasm.dynamic.database import Database
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import Corrupt, TooLarge, VersionMismatch
from rho_wasm.limits import HostLimits

__all__ = ["StoreOutputs"]

_NAME = "outputs.sqlite"
_VERSION = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS outputs (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, session_id TEXT, bytes INTEGER NOT NULL,
    text BLOB NOT NULL
) STRICT
"""


class StoreOutputs:
    """An output store (:class:`rho_wasm.builtin.Outputs`) in a file of its own in the store's folder.

    At most ``max_bytes`` of UTF-8 together, all sessions in one; the oldest are let go. Ids are 128 random bits and
    bound to the session: another session's id is as unknown as one that never was. A file of its own, so that no output
    can harm what the store holds; a damaged one is begun anew. A store in memory, or one that cannot be written, keeps
    its outputs in memory.

    Raises :class:`StoreError` as the store does, and :class:`TooLarge` for a single text over ``max_bytes``.
    """

    def __init__(self, store: Store, *, max_bytes: int | None = None) -> None:
        self.max_bytes = HostLimits().output_bytes if max_bytes is None else max_bytes
        path = None if store.folder is None or store.read_only else store.folder / _NAME
        try:
            self._database = _opened(path)
        except Corrupt:
            assert path is not None
            for name in (_NAME, f"{_NAME}-wal", f"{_NAME}-shm"):
                with suppress(OSError):
                    path.with_name(name).unlink()
            self._database = _opened(path)

    def keep(self, text: str, *, session_id: str | None) -> str:
        """Keeps ``text`` for that session and answers its id."""
        data = text.encode("utf-8", "replace")
        if len(data) > self.max_bytes:
            raise TooLarge("bytes", self.max_bytes, len(data))
        output_id = new_output_id()
        with self._database.write(durable=False) as connection:
            connection.execute(
                "INSERT INTO outputs (id, session_id, bytes, text) VALUES (?, ?, ?, ?)",
                (output_id, session_id, len(data), data),
            )
            connection.execute(
                "DELETE FROM outputs WHERE place IN (SELECT place FROM "
                "(SELECT place, sum(bytes) OVER (ORDER BY place DESC) AS total FROM outputs) WHERE total > ?)",
                (self.max_bytes,),
            )
        return output_id

    def read(self, output_id: str, *, session_id: str | None) -> str | None:
        """The text kept under that id in that very session, or None."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT text FROM outputs WHERE id = ? AND session_id IS ?", (output_id, session_id)
            ).fetchone()
        return None if row is None else str(row[0], "utf-8")

    def close(self) -> None:
        """Lets go of the file. May be called twice."""
        self._database.close()


def _opened(path: Path | None) -> Database:
    database = Database(path)
    try:
        with database.read() as connection:
            found = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if found > _VERSION:
            raise VersionMismatch(found=found, known=_VERSION, path=str(path))
        database.prepare()
        with database.write() as connection:
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        database.close()
        raise
    return database
