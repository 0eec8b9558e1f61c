"""The store: everything about agent-written tools that outlives the process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.authorship import Authorship
from rho_wasm.dynamic.database import Database
from rho_wasm.dynamic.files import ArtifactFiles, Files, MemoryFiles
from rho_wasm.dynamic.folder import DATABASE_NAME, is_writable, prepare_folder
from rho_wasm.dynamic.generation import Generation, Switch, Verdict
from rho_wasm.dynamic.history import History, Switched
from rho_wasm.dynamic.kv import KvTable
from rho_wasm.dynamic.pruning import Pruned
from rho_wasm.dynamic.recordings import Recordings
from rho_wasm.dynamic.records import Approval, Approvals, StrikeRecords
from rho_wasm.dynamic.room import REJECTED_KEPT_S
from rho_wasm.dynamic.schema import APPLICATION_ID, SCHEMA_VERSION, migrate
from rho_wasm.dynamic.seal import Seal, default_key_path
from rho_wasm.dynamic.strikes import Quarantine, Strike
from rho_wasm.errors import Corrupt, ModuleRejected, StoreError, VersionMismatch
from rho_wasm.untrusted import inert

__all__ = ["Store"]

_MEMORY = ":memory:"
_BY_CHARS = 128


class Store:
    """Artifacts, generations, strikes and approvals. Made by :meth:`open`; safe to use from any thread.

    A folder of mode 0700: one SQLite file in WAL mode, and the artifacts beside it, named by their hash. Several
    processes may have one store open. A process killed at any moment leaves the last live generation, its strikes and
    its history; what was half written is never named by anything.

    Every method may raise :class:`StoreError`: :class:`Locked` (another process kept it for longer than ``busy_ms``),
    :class:`Corrupt`, or with the reasons ``disk_full``, ``read_only``, ``io_error``; and :class:`Closed` after
    :meth:`close`. What was not written then is not there in part either.
    """

    def __init__(
        self, database: Database, files: Files, *, folder: Path | None, seal: Seal, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._files = files
        self._seal = seal
        self.folder = folder
        """None for a store in memory."""
        self.clock = clock
        """Answers POSIX seconds."""
        self.history = History(database, clock=clock)
        self.authorship = Authorship(database)
        self.records = StrikeRecords(database, clock=clock)
        self.approvals = Approvals(database, seal=seal, clock=clock)
        self.recordings = Recordings(database)
        self.kv = KvTable(database)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        busy_ms: int = 5_000,
        key_path: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Opens the store in the folder ``path``, or makes it; ``":memory:"`` is a store that is not kept.

        With ``read_only``, or where the folder cannot be written or its disk is full, nothing in it is changed: what is
        live is offered, and every change raises ``StoreError`` (``read_only``). ``key_path`` is the host's key, which
        vouches for what was built and approved here (see :mod:`rho_wasm.dynamic.seal`).

        Raises :class:`StoreError` (``not_a_store``, ``unsafe``, ``unreadable`` and as above), :class:`Corrupt`, and
        :class:`VersionMismatch` for a store of a newer version, which is left as it is.
        """
        if os.fspath(path) == _MEMORY:
            store = cls(Database(None), MemoryFiles(), folder=None, seal=Seal.random(), clock=clock)
            store._set_up()
            return store
        folder = Path(path).absolute()
        prepare_folder(folder, read_only=read_only)
        seal = Seal.of_host(key_path or default_key_path())
        read_only = read_only or not is_writable(folder)
        try:
            return cls._in_folder(folder, read_only=read_only, busy_ms=busy_ms, seal=seal, clock=clock)
        except StoreError as error:
            if read_only or error.reason not in ("disk_full", "io_error"):
                raise
            try:
                return cls._in_folder(folder, read_only=True, busy_ms=busy_ms, seal=seal, clock=clock)
            except StoreError:
                raise error from None

    @classmethod
    def _in_folder(cls, folder: Path, *, read_only: bool, busy_ms: int, seal: Seal, clock: Callable[[], float]) -> Self:
        database = Database(folder / DATABASE_NAME, read_only=read_only, busy_ms=busy_ms)
        store = cls(database, ArtifactFiles(folder / "artifacts"), folder=folder, seal=seal, clock=clock)
        try:
            store._set_up()
        except BaseException:
            database.close()
            raise
        return store

    @property
    def read_only(self) -> bool:
        return self._database.read_only

    def _set_up(self) -> None:
        with self._database.read() as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            application = int(connection.execute("PRAGMA application_id").fetchone()[0])
            tables = int(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
            problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        where = None if self.folder is None else str(self.folder)
        if tables and application != APPLICATION_ID:
            raise Corrupt(f"its {DATABASE_NAME} belongs to another program", path=where)
        if not tables and not self._files.is_empty():
            # Taken for a fresh one it would forget what was live and what was quarantined.
            raise Corrupt("the database is empty, but its artifacts are there: restore it from a copy", path=where)
        if version > SCHEMA_VERSION:
            raise VersionMismatch(found=version, known=SCHEMA_VERSION, path=where)
        if problem != "ok":
            raise Corrupt("the database is damaged: restore it from a copy", path=where)
        if self.read_only:
            if version < SCHEMA_VERSION:
                detail = "it is of an older version: open it once where it can be written"
                raise StoreError(detail, path=where, reason="outdated")
            return
        self._database.prepare()
        if version < SCHEMA_VERSION:
            with self._database.write() as connection:
                migrate(connection)
                self.history.begin(connection)
        with self._database.read() as connection:
            known = {row[0] for row in connection.execute("SELECT sha256 FROM artifacts")}
        self._files.sweep(known)

    def put(self, artifact: Artifact) -> None:
        """Keeps an artifact, durably, before a candidate may name it. One that is there is repaired if it was damaged.

        Of two builds of the same bytes the one that was built here stays.
        """
        self._files.put(artifact.sha256, artifact.wasm)
        seal = self._seal.over(*_sealed(artifact)) if artifact.provenance == "built here" else None
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO artifacts (sha256, source, language, toolchain, log, created_at, seal) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET source = excluded.source, language = "
                "excluded.language, toolchain = excluded.toolchain, log = excluded.log, seal = excluded.seal "
                "WHERE artifacts.seal IS NULL AND (excluded.seal IS NOT NULL OR artifacts.source IS NULL)",
                (
                    artifact.sha256,
                    artifact.source,
                    artifact.language,
                    artifact.toolchain,
                    artifact.log,
                    self.clock(),
                    seal,
                ),
            )
            # As new as the candidate that is about to name it: see sweep().
            connection.execute("UPDATE artifacts SET created_at = ? WHERE sha256 = ?", (self.clock(), artifact.sha256))

    def sweep(self) -> None:
        """Lets go of artifacts that only rejected candidates name, all of them staged over an hour ago."""
        oldest = self.clock() - REJECTED_KEPT_S
        unneeded = self.history.rejected_artifacts(before=oldest)
        if not unneeded:
            return
        with self._database.write(durable=False) as connection:
            gone = [
                sha256
                for sha256 in unneeded
                # Unless it was just put again, for a candidate that is not written yet.
                if connection.execute(
                    "DELETE FROM artifacts WHERE sha256 = ? AND created_at < ?", (sha256, oldest)
                ).rowcount
            ]
        self._files.remove(gone)

    def prune(self, *, keep: int) -> Pruned:
        """Lets go of artifacts that only generations name to which nobody is to return any more.

        Kept are the live generation, its parent and the ``keep`` that were live last before it, open candidates, and of
        each live tool the version that an automatic return would bring back. The history itself stays whole; rolling
        back to a pruned generation is refused. Artifacts younger than an hour stay until a later one. What a tool kept
        for itself (kv) goes with the last generation that names the tool and can still be live.

        Raises :class:`Corrupt` where a generation is damaged: what it needs cannot be known.
        """
        if keep < 1:
            raise ValueError("keep is at least 1: an operator must be able to go back")
        pruned = self.history.prune(keep=keep, before=self.clock() - REJECTED_KEPT_S)
        self._files.remove(pruned.artifacts)
        return pruned

    def artifact(self, sha256: str) -> Artifact:
        """The artifact of that hash, its bytes checked. Raises :class:`Corrupt`, naming it, if they are not whole."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT source, language, toolchain, log, seal FROM artifacts WHERE sha256 = ?", (sha256,)
            ).fetchone()
        if row is None:
            raise Corrupt(f"the artifact {sha256} is missing: stage it again")
        source, language, toolchain, log, seal = row
        try:
            found = Artifact(
                wasm=self._files.get(sha256), source=source, language=language, toolchain=toolchain, log=log
            )
        except ModuleRejected as error:
            raise Corrupt(f"the artifact {sha256} is no guest that this version knows ({error.reason})") from None
        return replace(found, provenance="built here") if self._seal.holds(seal, *_sealed(found)) else found

    def artifact_if_whole(self, sha256: str) -> Artifact | None:
        """The same, or None where it is damaged or missing."""
        try:
            return self.artifact(sha256)
        except Corrupt:
            return None

    def generation(self, number: int) -> Generation:
        """One generation. Raises :class:`UnknownGeneration`."""
        return self.history.get(number)

    def generations(self) -> tuple[Generation, ...]:
        """Every generation, the oldest first."""
        return self.history.all()

    def live(self) -> Generation:
        """The generation that is live."""
        return self.history.live()

    def switches(self, *, limit: int = 1_000) -> tuple[Switch, ...]:
        """The latest switches, the newest first."""
        return self.history.switches(limit=limit)

    def verdicts(self, number: int) -> tuple[Verdict, ...]:
        """What the switch gates said of a generation."""
        return self.history.verdicts(number)

    def strikes(self, tool: str | None = None, *, limit: int = 1_000) -> tuple[Strike, ...]:
        """The latest strikes, of one tool or of all, the newest first."""
        return self.records.all(tool, limit=limit)

    def quarantines(self, tool: str | None = None) -> tuple[Quarantine, ...]:
        """Every quarantine, pardoned ones too, the oldest first."""
        return self.records.quarantines(tool)

    def quarantine(self, held: Quarantine) -> Switched | None:
        """Quarantines a version and, in the same transaction, returns its tool to its last good version.

        Answers the switch, None where the version is not live (another process was first) or is only suspended.
        """
        with self._database.write() as connection:
            self.records.quarantine(connection, held)
            if held.mode == "suspend" or not held.active:
                return None
            tool, artifact = held.version
            note = f"{tool} {artifact[:12]} was quarantined: {', '.join(dict.fromkeys(held.reasons))}"
            return self.history.revert(connection, held.version, note=note)

    def data_version(self) -> int:
        """A number that changes whenever another process, or this one, changed the store. Costs microseconds."""
        return self._database.data_version()

    def approve(self, number: int, *, by: str, note: str = "") -> Approval:
        """Records a person's yes to a candidate, which the gate ``approval`` then finds."""
        return self.approvals.say(number, yes=True, by=inert(by, limit=_BY_CHARS), note=inert(note))

    def reject(self, number: int, *, by: str, note: str = "") -> Approval:
        """Records a person's no: the candidate can never become live."""
        return self.approvals.say(number, yes=False, by=inert(by, limit=_BY_CHARS), note=inert(note))

    def close(self) -> None:
        """Lets go of the files. May be called twice."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _sealed(artifact: Artifact) -> tuple[str, ...]:
    return (
        "artifact",
        artifact.sha256,
        "" if artifact.source is None else artifact.source,
        artifact.language or "",
        artifact.toolchain or "",
    )
