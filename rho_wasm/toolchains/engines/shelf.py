"""Where engines are kept on a host: made once from a pinned file, tried, and from then on believed only as written.

An entry is one file: a seal under the host's key over a small description, which names the engine's hash, and then the
engine. So nobody else can put an engine here, and no description fits another engine. An entry that fails a check is
as good as none, and making the engine again heals it.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import anyio
import anyio.to_thread

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.host_key import host_key
from rho_wasm.limits import MIB, HostLimits
from rho_wasm.own_files import NotOwn, open_own, own_folder, write_own
from rho_wasm.sandbox import NativeCache
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.toolchains.engines.make import make_engine, unavailable
from rho_wasm.toolchains.engines.spec import EngineSpec, Progress
from rho_wasm.untrusted import inert

__all__ = ["EngineShelf", "Installed", "Verified"]

_MAGIC = b"rho_wasm engine 1\n"
_MAC_BYTES = 32
_SUFFIX = ".engine"
_HEAD_BYTES = 8_192
_ENGINE_BYTES = 64 * MIB
_LOCK = "lock"
_WAIT_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One engine of a shelf, and where it came from: see :class:`EngineSpec`."""

    name: str
    sha256: str
    """Of the engine, in hex."""
    size: int
    languages: tuple[str, ...]
    title: str
    distribution: str
    version: str
    file: str
    file_sha256: str
    licence: str
    upstream: str
    revision: int

    def is_of(self, spec: EngineSpec) -> bool:
        """Whether it is what ``spec`` makes."""
        return (self.name, self.file_sha256, self.revision) == (spec.name, spec.sha256, spec.revision)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"languages": list(self.languages)}


@dataclass(frozen=True, slots=True)
class Verified:
    """What looking at one entry came to. ``problem`` is None where it is as it was written."""

    file: str
    installed: Installed | None
    problem: str | None


class EngineShelf:
    """A folder of engines, shared by any number of processes of one user. Its sync methods block on the disk.

    ``key_path`` is the file of the host key, outside ``folder``. ``cache`` keeps the native code that is made when an
    engine is tried. Thread-safe.
    """

    def __init__(self, folder: str | Path, key_path: str | Path, *, cache: NativeCache | None = None) -> None:
        self.folder = Path(folder)
        self.key_path = Path(key_path)
        self.cache = cache
        if self.key_path.resolve().is_relative_to(self.folder.resolve()):
            raise ValueError("the host key lies outside the shelf: whoever may write the one must not have the other")

    @classmethod
    def default(cls, *, environment: Mapping[str, str] | None = None) -> Self:
        """``RHO_WASM_ENGINES``, or ``engines`` beside the cache of native code; the key is the cache's."""
        given = os.environ if environment is None else environment
        cache = NativeCache.default(environment=environment)
        if given.get("RHO_WASM_ENGINES"):
            folder = Path(given["RHO_WASM_ENGINES"])
        elif given.get("RHO_WASM_CACHE"):
            folder = cache.folder.with_name(f"{cache.folder.name}-engines")
        else:
            folder = cache.folder.with_name("engines")
        return cls(folder, cache.key_path, cache=cache)

    def find(self, sha256: bytes) -> EngineBinary | None:
        """The engine of that hash, held to it; None where there is none that can be believed."""
        try:
            installed, wasm = self._read(self.folder / f"{sha256.hex()}{_SUFFIX}")
        except (FileNotFoundError, NotOwn, OSError):
            return None
        if installed.sha256 != sha256.hex():
            return None
        return EngineBinary(sha256=sha256, wasm=wasm, name=installed.title)

    def find_made(self, spec: EngineSpec) -> EngineBinary | None:
        """The engine that ``spec`` makes, if it is here."""
        for installed in self.list():
            if installed.is_of(spec):
                return self.find(bytes.fromhex(installed.sha256))
        return None

    def list(self) -> tuple[Installed, ...]:
        """The engines whose descriptions hold, by name and revision. What they describe is checked where it is used."""
        found = [checked.installed for checked in self._checked(whole=False) if checked.installed is not None]
        return tuple(sorted(found, key=lambda each: (each.name, each.revision, each.sha256)))

    def verify(self) -> tuple[Verified, ...]:
        """Looks at all of every entry."""
        return self._checked(whole=True)

    async def get(self, spec: EngineSpec, *, progress: Progress | None = None) -> EngineBinary:
        """The engine that ``spec`` makes, made if it is not here. Raises as :meth:`install` does."""
        found = await anyio.to_thread.run_sync(self.find_made, spec)
        return found if found is not None else await self.install(spec, progress=progress)

    async def install(
        self, spec: EngineSpec, *, progress: Progress | None = None, limits: HostLimits | None = None
    ) -> EngineBinary:
        """Makes the engine of ``spec`` inside the sandbox, tries it, and keeps it; one process at a time.

        What another process made meanwhile, or was here already, is taken. Raises :class:`BuildError`:
        ``missing_extra``, ``engine_unreadable`` and ``engine_mismatch`` of the pinned file, ``engine_failed`` where it
        could not be made or did not answer as it must, ``engine_shelf`` where the folder cannot be used.
        """
        tell = progress or (lambda stage, fraction: None)
        tell("reading its package", 0.0)
        given = await anyio.to_thread.run_sync(spec.read)
        async with self._alone(spec, tell):
            found = await anyio.to_thread.run_sync(self.find_made, spec)
            if found is None:
                found = await make_engine(spec, given, cache=self.cache, limits=limits or HostLimits(), progress=tell)
                try:
                    await anyio.to_thread.run_sync(self._write, spec, found)
                except OSError as error:
                    raise self._unusable(spec, error) from None
        tell("ready", 1.0)
        return found

    def remove(self, name: str, *, in_use: Collection[str] = ()) -> tuple[Installed, ...]:
        """Deletes the engines of that name, or the one of that hash (hex), and answers them.

        ``in_use`` are the hashes (hex) that kept generations name. Raises :class:`BuildError`: ``engine_unknown``, and
        ``engine_in_use`` before anything is deleted.
        """
        chosen = [each for each in self.list() if name in (each.name, each.sha256)]
        if not chosen:
            raise BuildError(
                "engine", [Diagnostic(f"no engine {inert(name, limit=64)} is installed")], reason="engine_unknown"
            )
        if needed := [each for each in chosen if each.sha256 in in_use]:
            raise BuildError(
                "engine",
                [Diagnostic(f"{each.title} is needed: a kept generation has tools over it") for each in needed],
                reason="engine_in_use",
                hint="take those tools out of every kept generation first, or build them again for another engine",
            )
        for each in chosen:
            (self.folder / f"{each.sha256}{_SUFFIX}").unlink(missing_ok=True)
        return tuple(chosen)

    def _checked(self, *, whole: bool) -> tuple[Verified, ...]:
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.name.endswith(_SUFFIX))
        except OSError:
            return ()
        return tuple(self._check(path, whole=whole) for path in paths)

    def _check(self, path: Path, *, whole: bool) -> Verified:
        name = inert(path.name, limit=128)
        try:
            installed = self._read(path)[0] if whole else self._describe(path)
            if path.name != f"{installed.sha256}{_SUFFIX}":
                raise NotOwn("it stands under another name than it was written")
        except NotOwn as refused:
            return Verified(name, None, str(refused))
        except OSError as error:
            return Verified(name, None, error.strerror or "it cannot be read")
        return Verified(name, installed, None)

    def _read(self, path: Path) -> tuple[Installed, bytes]:
        with open_own(path) as file:
            installed = self._head(file)
            wasm = file.read(_ENGINE_BYTES + 1)
        if len(wasm) != installed.size or hashlib.sha256(wasm).hexdigest() != installed.sha256:
            raise NotOwn("the engine is not what its description says")
        return installed, wasm

    def _describe(self, path: Path) -> Installed:
        with open_own(path) as file:
            return self._head(file)

    def _head(self, file: BinaryIO) -> Installed:
        magic, mac = file.read(len(_MAGIC)), file.read(_MAC_BYTES)
        size = int.from_bytes(file.read(4), "big")
        if magic != _MAGIC or size > _HEAD_BYTES:
            raise NotOwn("it is no engine")
        description = file.read(size)
        if not hmac.compare_digest(mac, self._mac(description)):
            raise NotOwn("its description is not what this host wrote")
        fields = json.loads(description)
        return Installed(**fields | {"languages": tuple(fields["languages"])})

    def _write(self, spec: EngineSpec, engine: EngineBinary) -> None:
        installed = Installed(
            name=spec.name,
            sha256=engine.sha256.hex(),
            size=len(engine.wasm),
            languages=spec.languages,
            title=spec.title,
            distribution=spec.distribution,
            version=spec.version,
            file=spec.file,
            file_sha256=spec.sha256,
            licence=spec.licence,
            upstream=spec.upstream,
            revision=spec.revision,
        )
        description = json.dumps(installed.as_json(), sort_keys=True).encode()
        head = _MAGIC + self._mac(description) + len(description).to_bytes(4, "big") + description
        write_own(self.folder / f"{installed.sha256}{_SUFFIX}", head + engine.wasm)

    def _mac(self, description: bytes) -> bytes:
        return hmac.new(host_key(self.key_path), _MAGIC + description, hashlib.sha256).digest()

    @asynccontextmanager
    async def _alone(self, spec: EngineSpec, tell: Progress) -> AsyncIterator[None]:
        """One installer at a time, of all processes. Whoever dies lets go of it. ``tell`` hears of a wait, if any."""
        try:
            descriptor = await anyio.to_thread.run_sync(self._open_lock)
        except OSError as error:
            raise self._unusable(spec, error) from None
        try:
            while not _lock(descriptor):
                tell("waiting for another installer", 0.02)
                await anyio.sleep(_WAIT_S)
            yield
        finally:
            os.close(descriptor)

    def _open_lock(self) -> int:
        own_folder(self.folder)
        host_key(self.key_path)
        return os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def _unusable(self, spec: EngineSpec, error: OSError) -> BuildError:
        why = f"engines cannot be kept: {error.strerror or 'a system error'}"
        return unavailable(spec, "engine_shelf", why, hint="see that the folder of engines can be written and has room")


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
