"""Native code kept on disk between processes, and never believed unless this host wrote it.

Native code is run as it is, so whoever can put a file here could run code in the host (8 flipped bits in a cached
artifact: 9 of 40 died by a signal, 17 ran altered in silence). Therefore every entry carries an HMAC-SHA256 under a key
that lies elsewhere, folder and files must belong to this user and to nobody else, and the bytes that were verified are
the very bytes that are handed to wasmtime: they are read once, into memory of this process. Mapping the file itself
would share pages between processes, but what was verified could be changed before it runs; large code is copied into a
sealed file and mapped from there.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.metadata
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from rho_wasm.host_key import host_key
from rho_wasm.limits import HostLimits
from rho_wasm.own_files import TEMPORARY, NotOwn, open_own, own_folder, write_own
from rho_wasm.sandbox.capi import library_path
from rho_wasm.sandbox.config import EngineConfig
from rho_wasm.sandbox.rewrite import VERSION as REWRITE_VERSION
from rho_wasm.sandbox.sealed import SealedFile

__all__ = ["CacheStatistics", "NativeCache", "native_key"]

_Found = TypeVar("_Found", bytes, SealedFile)

_MAGIC = b"rho_wasm native 1\n"
_MAC_BYTES = 32
_SUFFIX = ".native"
_PIECE = 1024 * 1024
_CHANGED = "its content is not what this host wrote"
_STALE_S = 3600
"""A half-written file this old was left by a process that died."""


def native_key(sha256: str, config: EngineConfig) -> str:
    """The name of a module's native code: the module, what made the code, and what it needs to run (hex)."""
    parts = ("1", sha256, str(REWRITE_VERSION), _wasmtime(), platform.machine(), _processor(), config.as_json())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _wasmtime() -> str:
    """Which wasmtime: its version, and the size of its library, for builds that share a version."""
    return f"{importlib.metadata.version('wasmtime')} {Path(library_path()).stat().st_size}"


def _processor() -> str:
    """What this processor can do. wasmtime compiles for it, and refuses the code on one that can do less."""
    if sys.platform != "linux":
        return platform.processor()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return " ".join(sorted(value.split()))
    return platform.processor()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatistics:
    """``state`` is ``on``, or ``off: `` and why: then every process compiles for itself."""

    state: str
    hits: int
    misses: int
    stored: int
    rejected: int
    """Entries that failed a check; they were deleted."""


class NativeCache:
    """A folder of native code, shared by any number of processes of one user. Thread-safe; its methods block on disk.

    ``key_path`` is the file of the host key, made at first use (0600), outside ``folder``. Entries beyond
    ``max_bytes`` are let go, the least recently used first. Nothing here raises for what is on the disk: a cache that
    cannot be read or written is off, and says so in :meth:`statistics`.
    """

    def __init__(
        self, folder: str | Path, key_path: str | Path, max_bytes: int = HostLimits().compiled_cache_bytes
    ) -> None:
        self.folder = Path(folder)
        self.key_path = Path(key_path)
        if self.key_path.resolve().is_relative_to(self.folder.resolve()):
            raise ValueError("the host key lies outside the cache: whoever may write the one must not have the other")
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._key: bytes | None = None
        self._off = ""
        self._hits = self._misses = self._stored = self._rejected = 0

    @classmethod
    def default(
        cls,
        *,
        environment: Mapping[str, str] | None = None,
        max_bytes: int = HostLimits().compiled_cache_bytes,
    ) -> Self:
        """``RHO_WASM_CACHE`` or ``rho_wasm/native`` in the user's cache folder (XDG); the key in the state folder."""
        given = os.environ if environment is None else environment
        home = Path(given.get("HOME") or Path.home())
        caches = Path(given.get("XDG_CACHE_HOME") or home / ".cache")
        states = Path(given.get("XDG_STATE_HOME") or home / ".local" / "state")
        folder = Path(given["RHO_WASM_CACHE"]) if given.get("RHO_WASM_CACHE") else caches / "rho_wasm" / "native"
        return cls(folder, states / "rho_wasm" / "host.key", max_bytes)

    def statistics(self) -> CacheStatistics:
        with self._lock:
            return CacheStatistics(
                state=f"off: {self._off}" if self._off else "on",
                hits=self._hits,
                misses=self._misses,
                stored=self._stored,
                rejected=self._rejected,
            )

    def load(self, key: str) -> bytes | None:
        """The native code under ``key``, verified, or None. An entry that fails a check is deleted."""
        return self._load(key, _read_verified)

    def load_sealed(self, key: str) -> SealedFile | None:
        """The same as a file that nobody can change any more, for code of many megabytes. Whoever gets it closes it.

        Only where there are such files (:func:`rho_wasm.sandbox.sealed.can_seal`).
        """
        return self._load(key, _copy_verified)

    def _load(self, key: str, read: Callable[[Path, bytes, str], _Found]) -> _Found | None:
        path = self._path(key)
        try:
            found = read(path, self._ready(), key)
        except FileNotFoundError:
            self._count_miss()
            return None
        except NotOwn:
            with self._lock:
                self._rejected += 1
            self.discard(key)
            self._count_miss()
            return None
        except OSError as error:
            self._turn_off(error)
            self._count_miss()
            return None
        with self._lock:
            self._hits += 1
        _touch(path)
        return found

    def store(self, key: str, native: bytes) -> None:
        """Keeps ``native``. A file appears under its name only whole: it is synced before it is renamed."""
        if len(native) > self.max_bytes:
            return
        try:
            secret = self._ready()
            head = _MAGIC + bytes(_MAC_BYTES)
            write_own(self._path(key), _MAGIC + _mac(secret, key, head + native) + native)
            self._shrink()
        except OSError as error:
            self._turn_off(error)
            return
        with self._lock:
            self._stored += 1
            self._off = ""

    def discard(self, key: str) -> None:
        """Deletes an entry, because it failed a check here or wasmtime did not take it."""
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            self._turn_off(error)

    def _path(self, key: str) -> Path:
        return self.folder / (key + _SUFFIX)

    def _count_miss(self) -> None:
        with self._lock:
            self._misses += 1

    def _turn_off(self, error: OSError) -> None:
        with self._lock:
            self._off = error.strerror or type(error).__name__

    def _ready(self) -> bytes:
        """The host key, once the folder is there and is ours. Raises OSError."""
        with self._lock:
            own_folder(self.folder)
            if self._key is None:
                self._key = host_key(self.key_path)
            return self._key

    def _shrink(self) -> None:
        """Lets the least recently used go. Other processes may do the same at once: what is gone already is gone."""
        entries: list[tuple[float, int, Path]] = []
        with os.scandir(self.folder) as found:
            for entry in found:
                try:
                    about = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(TEMPORARY) and about.st_mtime < time.time() - _STALE_S:
                        Path(entry.path).unlink()
                    elif entry.name.endswith(_SUFFIX):
                        entries.append((about.st_mtime, about.st_size, Path(entry.path)))
                except FileNotFoundError:
                    continue
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def _mac(secret: bytes, key: str, data: bytes) -> bytes:
    """Over the entry's name too, so that one module's code cannot be put in another's place."""
    mac = hmac.new(secret, _MAGIC + key.encode(), hashlib.sha256)
    mac.update(memoryview(data)[len(_MAGIC) + _MAC_BYTES :])
    return mac.digest()


def _read_verified(path: Path, secret: bytes, key: str) -> bytes:
    """The native code in the entry ``path``. Raises :class:`NotOwn`."""
    with open_own(path) as file:
        data = file.read()
    if not hmac.compare_digest(data[len(_MAGIC) :][:_MAC_BYTES], _mac(secret, key, data)):
        raise NotOwn(_CHANGED)
    return data[len(_MAGIC) + _MAC_BYTES :]


def _copy_verified(path: Path, secret: bytes, key: str) -> SealedFile:
    """The same in a sealed file. What is checked is what was copied, so the entry itself may change meanwhile."""
    with open_own(path) as file:
        head = file.read(len(_MAGIC) + _MAC_BYTES)
        mac = hmac.new(secret, _MAGIC + key.encode(), hashlib.sha256)
        copy = SealedFile()
        try:
            while piece := file.read(_PIECE):
                mac.update(piece)
                copy.write(piece)
            if not hmac.compare_digest(head[len(_MAGIC) :], mac.digest()):
                raise NotOwn(_CHANGED)
            copy.seal()
        except BaseException:
            copy.close()
            raise
    return copy


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:
        return  # Only the order in which entries are let go suffers.
