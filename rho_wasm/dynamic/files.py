"""Artifacts as files named by their SHA-256: written whole or not at all, and checked whenever they are read."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from rho_wasm.dynamic.database import disk_error
from rho_wasm.errors import Corrupt
from rho_wasm.limits import HostLimits

__all__ = ["ArtifactFiles", "Files", "MemoryFiles", "sync_folder"]

_NAME = re.compile(r"([0-9a-f]{64})\.wasm")
_LEFT_BEHIND_S = 3600.0
"""A file that nothing names is removed when it is this old: a younger one may be another process's, being staged."""


class Files(Protocol):
    """Where the bytes of artifacts are."""

    def put(self, sha256: str, data: bytes) -> None: ...

    def get(self, sha256: str) -> bytes: ...

    def sweep(self, known: Container[str]) -> None: ...

    def remove(self, hashes: Iterable[str]) -> None: ...

    def is_empty(self) -> bool: ...


class MemoryFiles:
    """The bytes of artifacts in memory, for a store that is not kept."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def put(self, sha256: str, data: bytes) -> None:
        self._files[sha256] = data

    def get(self, sha256: str) -> bytes:
        """Raises :class:`Corrupt` if there is none of that hash."""
        data = self._files.get(sha256)
        if data is None:
            raise Corrupt(f"the artifact {sha256} is missing: stage it again")
        return data

    def sweep(self, known: Container[str]) -> None:
        """Lets go of what nothing names."""
        self._files = {sha256: data for sha256, data in self._files.items() if sha256 in known}

    def remove(self, hashes: Iterable[str]) -> None:
        """Lets go of these."""
        for sha256 in hashes:
            self._files.pop(sha256, None)

    def is_empty(self) -> bool:
        return not self._files


class ArtifactFiles:
    """The bytes of artifacts under ``folder``, as ``ab/ab12...wasm``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / f"{sha256}.wasm"

    def put(self, sha256: str, data: bytes) -> None:
        """Keeps ``data``, durably, before this returns. A damaged file of that hash is replaced.

        Raises :class:`StoreError` (``disk_full``, ``read_only``): then there is no file of that name, or the old one.
        """
        path = self._path(sha256)
        with suppress(Corrupt):
            self.get(sha256)
            with suppress(OSError):
                # It may be an old one that nothing names, which another process is about to sweep away.
                os.utime(path)
            return
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            for folder in (self._folder, path.parent):
                if not folder.exists():
                    folder.mkdir(mode=0o700, exist_ok=True)
                    sync_folder(folder.parent)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)
            sync_folder(path.parent)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise disk_error(error, path) from None

    def get(self, sha256: str) -> bytes:
        """The bytes of that hash. Raises :class:`Corrupt`, naming it, if they are missing, cut short or changed."""
        path = self._path(sha256)
        limit = HostLimits().for_engines().module_bytes
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
                data = file.read(limit + 1) if regular else b""
        except FileNotFoundError:
            raise Corrupt(f"the artifact {sha256} is missing: stage it again", path=str(path)) from None
        except OSError as error:
            raise Corrupt(
                f"the artifact {sha256} cannot be read ({os.strerror(error.errno or 0)}): stage it again",
                path=str(path),
            ) from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Corrupt(
                f"the artifact {sha256} is not what was written ({len(data)} bytes are there): stage it again",
                path=str(path),
            )
        return data

    def sweep(self, known: Container[str]) -> None:
        """Removes what a killed host left behind: half-written files, and old ones that nothing names."""
        for path in self._folder.glob("??/*"):
            match = _NAME.fullmatch(path.name)
            if match is None or match[1] not in known:
                _remove_old(path)

    def remove(self, hashes: Iterable[str]) -> None:
        """Removes these, but for young ones, which another process may have put again; :meth:`sweep` finds them."""
        for sha256 in hashes:
            _remove_old(self._path(sha256))

    def is_empty(self) -> bool:
        """Whether no artifact was ever kept here."""
        return not any(_NAME.fullmatch(path.name) for path in self._folder.glob("??/*"))


def _remove_old(path: Path) -> None:
    with suppress(OSError):
        if path.lstat().st_mtime < time.time() - _LEFT_BEHIND_S:
            path.unlink()


def sync_folder(folder: Path) -> None:
    """Makes the names in ``folder`` durable. A file system that knows no such thing is left alone."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
