"""One load of a source in a worker process."""

from __future__ import annotations

import hashlib

from rho_wasm.errors import BuildError, ToolError
from rho_wasm.host_threads import HostThreads
from rho_wasm.limits import Limits
from rho_wasm.sandbox.abi import LOAD
from rho_wasm.sandbox.crossing import as_tool_error
from rho_wasm.sandbox.images import LoadedSource
from rho_wasm.sandbox.instance import GuestInstance
from rho_wasm.sandbox.loading import LoadedEngine, too_large
from rho_wasm.sandbox.module import Linked
from rho_wasm.sandbox.slots import Overloaded
from rho_wasm.sandbox.source_message import read_loaded
from rho_wasm.sandbox.worker_call import WorkerCall
from rho_wasm.sandbox.workers import WorkerPool

__all__ = ["SourceModule", "WorkerLoad"]


class SourceModule:
    """What a worker is told of an engine whose ``rho_load`` is called: it is loaded there as a module is."""

    names = b""
    declared: frozenset[str] = frozenset()

    def __init__(self, engine: LoadedEngine) -> None:
        # A name as long as a module's, and nobody's: an engine may be a guest's module too.
        self.sha256 = hashlib.sha256(b"source " + engine.sha256).hexdigest()
        self.linked: Linked = engine.linked.over(self, entry=LOAD)

    def prepare(self, instance: GuestInstance, limits: Limits) -> None:
        """Nothing is prepared here: it never runs in this process."""


class WorkerLoad:
    """:meth:`run` once."""

    def __init__(
        self,
        pool: WorkerPool,
        threads: HostThreads,
        engine: LoadedEngine,
        request: bytes,
        *,
        limits: Limits,
        image_bytes: int,
    ) -> None:
        self._engine = engine
        self._request = request
        self._limits = limits
        self._image_bytes = image_bytes
        self._call = WorkerCall(
            pool,
            threads,
            SourceModule(engine),
            {},
            tool=engine.name,
            limits=limits,
            deadline_ms=limits.deadline_ms,
            capabilities=None,
        )

    async def run(self) -> LoadedSource | ToolError | BuildError:
        """What the source came to. Raises :class:`Overloaded`. Cancellation stops the engine."""
        name, call = self._engine.name, self._call
        try:
            answer = await call.answer(self._request)
            loaded = await call.in_thread(
                lambda: read_loaded(answer, limits=self._limits, image_bytes=self._image_bytes)
            )
        except Overloaded:
            raise
        except ToolError as error:
            return error
        except Exception as error:
            return as_tool_error(error, tool=name, memory_refused=call.used.memory_refused)
        return too_large(name, self._image_bytes) if loaded is None else loaded
