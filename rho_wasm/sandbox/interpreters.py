"""The engines of one sandbox: found when the first of their images is loaded, compiled once, shared by all of them.

Interpreters run under a configuration of their own, with a deeper stack. What belongs to it is made when the first is
needed: a host without images pays nothing. An engine stays while its sandbox lives; the next tool of it then loads in
milliseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio.lowlevel
import anyio.to_thread

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.admission_engine import admit_engine, check_engine_hash
from rho_wasm.sandbox.cache import NativeCache, native_key
from rho_wasm.sandbox.compile import compile_native
from rho_wasm.sandbox.frames_section import frames_section
from rho_wasm.sandbox.images import EngineBinary, EngineFinder
from rho_wasm.sandbox.loading import LoadedEngine
from rho_wasm.sandbox.module import Linked
from rho_wasm.sandbox.rewrite import rewritten
from rho_wasm.sandbox.runtime import Runtime
from rho_wasm.sandbox.sealed import SealedFile, can_seal
from rho_wasm.sandbox.turns import Turns
from rho_wasm.untrusted import inert, type_name

__all__ = ["EngineMissing", "Interpreters", "link_native", "sealed"]


class EngineMissing(ModuleRejected):
    """An engine that is needed is not on this host. Nothing is wrong with the tool, and installing the engine helps.

    ``sha256`` is 32 bytes. ``needs`` is what needs it.
    """

    def __init__(self, sha256: bytes, why: str = "is not installed", *, needs: str = "the image") -> None:
        super().__init__(
            "engine_missing",
            f"the engine {sha256.hex()[:12]} that {needs} needs {why}",
            name=sha256.hex(),
            hint="install it with rho-wasm engines install, or build the tool again for an engine that is there",
        )


class Interpreters:
    """Loads engines. The same one is compiled once, however many images of it are loaded at once."""

    def __init__(
        self,
        limits: HostLimits,
        *,
        make_runtime: Callable[[], Runtime],
        cache: NativeCache | None,
        finder: EngineFinder | None,
    ) -> None:
        self._limits = limits
        self._make_runtime = make_runtime
        self._cache = cache
        self._finder = finder
        self._lock = threading.Lock()
        self._runtime: Runtime | None = None
        self._loaded: dict[bytes, LoadedEngine] = {}
        self._of_loop: anyio.lowlevel.RunVar[Turns] = anyio.lowlevel.RunVar("rho_wasm.sandbox.interpreters")
        self._closed = False
        self.compiled = 0
        """Engines that were compiled here."""

    @property
    def loaded(self) -> int:
        """Engines whose native code is in memory."""
        return len(self._loaded)

    def runs(self, runtime: object) -> bool:
        """Whether ``runtime`` is the one of these engines."""
        return runtime is not None and runtime is self._runtime

    async def of_hash(self, sha256: bytes) -> LoadedEngine:
        """The engine of that hash, found and loaded if need be. Raises :class:`ModuleRejected`."""
        if (known := self._loaded.get(sha256)) is not None:
            return known

        async def find_and_load() -> LoadedEngine:
            known = self._loaded.get(sha256)
            return known or await self._load(await anyio.to_thread.run_sync(self._found, sha256))

        return await self._alone(find_and_load)

    async def runtime(self) -> Runtime:
        """What engines run on. Made now, if it is not there yet."""
        return await anyio.to_thread.run_sync(self._its_runtime)

    def find(self, sha256: bytes) -> EngineBinary | None:
        """The engine of that hash, if it is installed. In a thread: it reads files."""
        try:
            return self._found(sha256)
        except EngineMissing:
            return None

    async def of(self, binary: EngineBinary) -> LoadedEngine:
        """``binary``, loaded if need be. Raises :class:`ModuleRejected`."""
        if (known := self._loaded.get(binary.sha256)) is not None:
            return known

        async def load() -> LoadedEngine:
            return self._loaded.get(binary.sha256) or await self._load(binary)

        return await self._alone(load)

    def close(self) -> None:
        """Once no call runs. Idempotent."""
        with self._lock:
            self._closed = True
            runtime, self._runtime = self._runtime, None
            engines, self._loaded = self._loaded, {}
        for engine in engines.values():
            engine.linked.close()
        if runtime is not None:
            runtime.close()

    async def _alone(self, load: Callable[[], Coroutine[Any, Any, LoadedEngine]]) -> LoadedEngine:
        """One engine is loaded at a time: compiling one takes every core as it is."""
        turns = self._of_loop.get(None)
        if turns is None:
            turns = Turns()
            self._of_loop.set(turns)
        return await turns.run("engine", load)

    def _found(self, sha256: bytes) -> EngineBinary:
        if self._finder is None:
            raise EngineMissing(sha256)
        try:
            binary = self._finder(sha256)
        except Exception as error:
            raise EngineMissing(sha256, f"could not be looked for ({type_name(error)})") from None
        if binary is None or binary.sha256 != sha256:
            raise EngineMissing(sha256)
        return binary

    async def _load(self, binary: EngineBinary) -> LoadedEngine:
        await anyio.to_thread.run_sync(check_engine_hash, binary)
        runtime = await self.runtime()
        key = native_key(binary.sha256.hex(), runtime.config)
        linked = await anyio.to_thread.run_sync(self._from_cache, runtime, key)
        if linked is None:
            # What is in the cache was admitted when it was compiled.
            admitted = await anyio.to_thread.run_sync(partial(admit_engine, binary, limits=self._limits))
            code = await anyio.to_thread.run_sync(rewritten, admitted.code)
            compiled = await compile_native(
                code,
                original=b"" if code is admitted.code else admitted.code,
                code_bytes=admitted.code_bytes,
                limits=self._limits.for_engines(),
                config=runtime.config,
            )
            linked = await anyio.to_thread.run_sync(self._linked, runtime, key, compiled)
            self.compiled += 1
        linked.frames = frames_section(binary.wasm)
        loaded = LoadedEngine(binary.sha256, inert(binary.name, limit=128), linked)
        self._loaded[binary.sha256] = loaded
        return loaded

    def _its_runtime(self) -> Runtime:
        with self._lock:
            if self._closed:
                raise ModuleRejected("engine_missing", "the sandbox is closed")
            if self._runtime is None:
                self._runtime = self._make_runtime()
            return self._runtime

    def _from_cache(self, runtime: Runtime, key: str) -> Linked | None:
        if self._cache is None:
            return None
        found = self._cache.load_sealed(key) if can_seal() else self._cache.load(key)
        if found is None:
            return None
        try:
            return link_native(runtime, found)
        except ValueError:
            self._cache.discard(key)
            return None

    def _linked(self, runtime: Runtime, key: str, compiled: bytes) -> Linked:
        try:
            linked = link_native(runtime, sealed(compiled))
        except ValueError as error:
            raise ModuleRejected("compile_failed", str(error)) from None
        if self._cache is not None:
            self._cache.store(key, compiled)
        return linked


def sealed(compiled: bytes) -> SealedFile | bytes:
    """Native code of many megabytes as a file, which is mapped and not copied; as it is where that cannot be."""
    try:
        return SealedFile.of(compiled) if can_seal() else compiled
    except OSError:
        return compiled  # There is no memory for a second copy.


def link_native(runtime: Runtime, native: SealedFile | bytes, *, guest: bool = False) -> Linked:
    """As :meth:`Runtime.link`. A file is closed where it raises."""
    try:
        return runtime.link(native, guest=guest)
    except BaseException:
        if isinstance(native, SealedFile):
            native.close()
        raise
