"""The modules that a source has loaded: those of the live generation, and any that a call still runs on."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import anyio
import anyio.to_thread

from rho_wasm.dynamic.store import Store
from rho_wasm.sandbox import GuestModule, Sandbox

__all__ = ["ModulePool"]


class _Entry:
    __slots__ = ("loading", "module", "users")

    def __init__(self) -> None:
        self.module: GuestModule | None = None
        self.users = 0
        self.loading = anyio.Lock()


class ModulePool:
    """Loads modules when they are first needed and lets them go when nothing needs them.

    A module stays while the live generation names it (:meth:`retain`) or a call uses it: a call ends on the module that
    it began on, and the last one to end lets go of a module that is no longer offered.
    """

    def __init__(self, store: Store, sandbox: Sandbox) -> None:
        self._store = store
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._wanted: frozenset[str] = frozenset()

    def use(self, sha256: str) -> AbstractAsyncContextManager[GuestModule]:
        """The module of that hash, loaded if need be, for as long as the block lasts.

        Raises :class:`ModuleRejected`, :class:`StoreError` (:class:`Corrupt`, naming the artifact) or :class:`Closed`.
        """
        return _Use(self, sha256)

    @asynccontextmanager
    async def hold(self, hashes: Iterable[str]) -> AsyncIterator[None]:
        """Several modules, loaded, for as long as the block lasts. Raises as :meth:`use` does."""
        async with AsyncExitStack() as stack:
            for sha256 in hashes:
                await stack.enter_async_context(self.use(sha256))
            yield

    def retain(self, wanted: frozenset[str]) -> None:
        """These stay loaded once they are; every other is let go as soon as no call uses it."""
        self._wanted = wanted
        self._let_go()

    def loaded(self) -> tuple[str, ...]:
        """The hashes of the modules that are loaded now, sorted."""
        with self._lock:
            return tuple(sorted(sha256 for sha256, entry in self._entries.items() if entry.module is not None))

    def close(self) -> None:
        """Lets go of every module that no call uses; of the others when their calls end."""
        self.retain(frozenset())

    def _enter(self, sha256: str) -> _Entry:
        with self._lock:
            entry = self._entries.get(sha256)
            if entry is None:
                entry = self._entries[sha256] = _Entry()
            entry.users += 1
            return entry

    def _leave(self, sha256: str, entry: _Entry) -> None:
        # Looks at the one entry alone: every call ends here, however many modules there are.
        with self._lock:
            entry.users -= 1
            if entry.users or (sha256 in self._wanted and entry.module is not None):
                return
            del self._entries[sha256]
        if entry.module is not None:
            entry.module.close()

    async def _load(self, sha256: str, entry: _Entry) -> GuestModule:
        async with entry.loading:
            if entry.module is None:
                artifact = await anyio.to_thread.run_sync(self._store.artifact, sha256)
                entry.module = await self._sandbox.load(artifact.wasm)
        return entry.module

    def _let_go(self) -> None:
        with self._lock:
            idle = [
                sha256
                for sha256, entry in self._entries.items()
                if not entry.users and (sha256 not in self._wanted or entry.module is None)
            ]
            entries = [self._entries.pop(sha256) for sha256 in idle]
        for entry in entries:
            if entry.module is not None:
                entry.module.close()


class _Use(AbstractAsyncContextManager[GuestModule]):
    """A class and no generator: every guest call enters one."""

    __slots__ = ("_entry", "_pool", "_sha256")

    def __init__(self, pool: ModulePool, sha256: str) -> None:
        self._pool = pool
        self._sha256 = sha256

    async def __aenter__(self) -> GuestModule:
        entry = self._entry = self._pool._enter(self._sha256)
        if entry.module is not None:
            return entry.module
        try:
            return await self._pool._load(self._sha256, entry)
        except BaseException:
            self._pool._leave(self._sha256, entry)
            raise

    async def __aexit__(self, *exception: object) -> None:
        self._pool._leave(self._sha256, self._entry)
