"""The modules that a source has loaded: those of the live generation, and any that a call still runs on."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import anyio.to_thread

from rho_wasm.dynamic.store import Store
from rho_wasm.sandbox import GuestModule, Sandbox
from rho_wasm.sandbox.turns import Turns

__all__ = ["ModulePool", "Used"]


class Used:
    """A module that somebody uses, or is about to: ``module`` is None until it is loaded."""

    __slots__ = ("loading", "module", "sha256", "users")

    def __init__(self, sha256: str) -> None:
        self.sha256 = sha256
        self.module: GuestModule | None = None
        self.users = 0
        self.loading = Turns()


class ModulePool:
    """Loads modules when they are first needed and lets them go when nothing needs them.

    A module stays while the live generation names it (:meth:`retain`) or a call uses it: a call ends on the module that
    it began on, and the last one to end lets go of a module that is no longer offered.
    """

    def __init__(self, store: Store, sandbox: Sandbox) -> None:
        self._store = store
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._entries: dict[str, Used] = {}
        self._wanted: frozenset[str] = frozenset()

    @asynccontextmanager
    async def use(self, sha256: str) -> AsyncIterator[GuestModule]:
        """The module of that hash, loaded if need be, for as long as the block lasts.

        Raises :class:`ModuleRejected`, :class:`StoreError` (:class:`Corrupt`, naming the artifact) or :class:`Closed`.
        """
        used = self.enter(sha256)
        try:
            yield used.module or await self.load(used)
        finally:
            self.leave(used)

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

    def enter(self, sha256: str) -> Used:
        """The module stays until :meth:`leave`, once it is loaded: what :meth:`use` does, for calls in a hurry."""
        with self._lock:
            used = self._entries.get(sha256)
            if used is None:
                used = self._entries[sha256] = Used(sha256)
            used.users += 1
            return used

    def leave(self, used: Used) -> None:
        """One user less. Each calls it once."""
        # Looks at the one entry alone: every call ends here, however many modules there are.
        with self._lock:
            used.users -= 1
            if used.users or (used.module is not None and used.sha256 in self._wanted):
                return
            del self._entries[used.sha256]
        if used.module is not None:
            used.module.close()

    async def load(self, used: Used) -> GuestModule:
        """The module, loaded by whoever is first. Raises as :meth:`use` does."""

        async def load() -> GuestModule:
            if used.module is None:
                artifact = await anyio.to_thread.run_sync(self._store.artifact, used.sha256)
                used.module = await self._sandbox.load(artifact.wasm)
            return used.module

        return await used.loading.run("module", load)

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
