"""Replays many recorded calls on one version, or on all that a candidate brings, within bounded time."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio
import anyio.to_thread

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.generation import Generation, ToolVersion
from rho_wasm.dynamic.modules import ModulePool
from rho_wasm.dynamic.recording import RecordingRow
from rho_wasm.dynamic.replay import PreparedReplay, Replay, ReplayTarget, replay
from rho_wasm.dynamic.replay_places import place_of
from rho_wasm.dynamic.replay_report import ReplayReport, shape_of
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import Corrupt, ModuleRejected, NameInvalid, RhoError, StoreError
from rho_wasm.limits import Limits
from rho_wasm.manifest import Manifest, ToolDeclaration
from rho_wasm.sandbox import GuestModule, Sandbox

__all__ = ["Replayer"]

_GATE_S = 60.0
"""All replays of a candidate together; the newest calls come first."""
_AT_ONCE = 2
"""Replays that run side by side: live calls come first."""
_PREPARED = 8
"""Recordings that are read together, each of at most some MiB."""
_BROKEN = 8
"""So many of one tool are told; what is left is not replayed."""


class Replayer:
    """Runs recordings of a store in a sandbox. ``limits`` says what bounds the calls of a version."""

    def __init__(
        self,
        store: Store,
        sandbox: Sandbox,
        *,
        modules: ModulePool,
        limits: Callable[[ToolDeclaration, ToolVersion, Manifest, bool], Limits],
    ) -> None:
        self._store = store
        self._sandbox = sandbox
        self._modules = modules
        self._limits = limits

    async def candidate(self, candidate: Generation, *, calls: int) -> tuple[ReplayReport, ...]:
        """The latest ``calls`` that each tool that ``candidate`` brings answered, on what it brings.

        Whichever version of that name answered them: what counts is that somebody asked this. So no chain of versions
        that were live for a moment, and no tool that is taken away and comes back, makes the gate forget a call. Only
        what a version answered that is quarantined now says nothing. Tools of which no call is recorded have no report.
        Raises :class:`ToolError` (``overloaded``) where the host could not run them, :class:`ModuleRejected` and
        :class:`StoreError`.
        """
        ends = anyio.current_time() + _GATE_S
        reports = []
        for name in (*candidate.changes.added, *candidate.changes.changed):
            rows = await anyio.to_thread.run_sync(partial(self._ended, name, limit=calls))
            if rows:
                ids = [row.id for row in rows]
                async with self._target(name, candidate.tools[name]) as target:
                    report = await self._run(target, ids, ends=ends, most_broken=_BROKEN)
                reports.append(await anyio.to_thread.run_sync(self._placed, report) if report.broken else report)
        return tuple(reports)

    def _ended(self, tool: str, *, limit: int) -> tuple[RecordingRow, ...]:
        held = {each.version.artifact for each in self._store.quarantines(tool) if each.active}
        return self._store.recordings.ended(tool, limit=limit, without=held)

    def _placed(self, report: ReplayReport) -> ReplayReport:
        artifact = self._store.artifact(report.artifact)
        return replace(report, places={each.id: place_of(each, artifact) for each in report.broken})

    async def rows(self, rows: Iterable[RecordingRow], against: Generation | Artifact) -> tuple[ReplayReport, ...]:
        """These recordings, on the tools of a generation or on an artifact that need not be in the store.

        A report for each tool, sorted by name; of those that are not there one that only says so. Raises as
        :meth:`candidate` does.
        """
        by_tool: dict[str, list[int]] = {}
        for row in rows:
            by_tool.setdefault(row.tool, []).append(row.id)
        reports = []
        for tool, ids in sorted(by_tool.items()):
            if tool not in against.tools:
                skipped = ("it has no tool of this name",)
                reports.append(ReplayReport(tool=tool, artifact="", skipped=skipped, left=len(ids), shapes={}))
            elif isinstance(against, Artifact):
                reports.append(await self._on_artifact(tool, against, ids))
            else:
                async with self._target(tool, against.tools[tool]) as target:
                    reports.append(await self._run(target, ids))
        return tuple(reports)

    async def _on_artifact(self, tool: str, artifact: Artifact, ids: Iterable[int]) -> ReplayReport:
        module = await self._sandbox.load(artifact.wasm)
        try:
            return await self._run(await self._made(tool, ToolVersion(artifact.sha256), module), ids)
        finally:
            module.close()

    @asynccontextmanager
    async def _target(self, tool: str, version: ToolVersion) -> AsyncIterator[ReplayTarget]:
        async with self._modules.use(version.artifact) as module:
            yield await self._made(tool, version, module)

    async def _made(self, tool: str, version: ToolVersion, module: GuestModule) -> ReplayTarget:
        declaration = module.manifest.tool(tool)
        if declaration is None:
            raise NameInvalid(tool, f"the module {version.artifact[:12]} has no tool of that name to replay calls on")
        limits = self._limits(declaration, version, module.manifest, module.standalone)
        return await anyio.to_thread.run_sync(ReplayTarget.of, version.artifact, module, declaration, limits)

    async def _run(
        self, target: ReplayTarget, ids: Iterable[int], *, ends: float = math.inf, most_broken: int | None = None
    ) -> ReplayReport:
        run = _Run(self, target, list(ids), ends=ends, most_broken=most_broken)
        async with anyio.create_task_group() as tasks:
            for _ in range(_AT_ONCE):
                tasks.start_soon(run.work)
        if run.fault is not None:
            raise run.fault
        return run.report()

    def prepare(self, target: ReplayTarget, ids: Sequence[int]) -> list[PreparedReplay | str]:
        """What there is of those recordings, in any order, and why of some there is nothing. Blocks: in a thread."""
        found: list[PreparedReplay | str] = []
        for id in ids:
            try:
                recording = self._store.recordings.get(id)
            except Corrupt as error:
                found.append(error.detail)
                continue
            if recording is not None:
                found.append(PreparedReplay.of(target, recording))
        return found

    async def one(self, prepared: PreparedReplay) -> Replay | str:
        """Replays a recording; or says why that says nothing."""
        recording = prepared.recording
        found = await replay(self._sandbox, prepared)
        if (found.broke or found.undecided) and recording.redacted:
            try:
                async with self._target(recording.tool, ToolVersion(recording.artifact)) as own:
                    again = await anyio.to_thread.run_sync(PreparedReplay.of, own, recording)
                    before = await replay(self._sandbox, again)
            except (ModuleRejected, NameInvalid, StoreError):
                return f"recording {recording.id} was redacted, and the version that answered it is gone"
            if before.broke or before.undecided:
                return (
                    f"recording {recording.id} was redacted, and the version that answered it crashes on what is left"
                )
        return found


class _Run:
    """Several tasks that replay one list of recordings."""

    def __init__(
        self, replayer: Replayer, target: ReplayTarget, ids: list[int], *, ends: float, most_broken: int | None
    ) -> None:
        self._replayer = replayer
        self._target = target
        self._ids = ids
        self._begun = 0
        self._ends = ends
        self._most_broken = most_broken
        self._broken = self._left = 0
        self._replays: list[Replay] = []
        self._skipped: list[str] = []
        self._shapes: dict[int, str] = {}
        self.fault: RhoError | None = None
        """Why the host could not go on."""

    async def work(self) -> None:
        try:
            while not self._over() and (ids := self._ids[self._begun : self._begun + _PREPARED]):
                self._begun += len(ids)
                for each in await anyio.to_thread.run_sync(self._replayer.prepare, self._target, ids):
                    if self._over():
                        self._left += 1
                    else:
                        await self._replay(each)
        except RhoError as error:
            self.fault = error

    async def _replay(self, prepared: PreparedReplay | str) -> None:
        found = prepared if isinstance(prepared, str) else await self._replayer.one(prepared)
        if isinstance(found, str):
            self._skipped.append(found)
            return
        self._replays.append(found)
        if found.broke:
            self._broken += 1
            assert not isinstance(prepared, str), "a recording that cannot be read breaks nothing"
            self._shapes[found.id] = shape_of(prepared.arguments, self._target.declaration)

    def report(self) -> ReplayReport:
        return ReplayReport(
            tool=self._target.declaration.name,
            artifact=self._target.artifact,
            replays=tuple(sorted(self._replays, key=lambda each: -each.id)),
            skipped=tuple(self._skipped),
            left=self._left + len(self._ids) - self._begun,
            shapes=self._shapes,
        )

    def _over(self) -> bool:
        enough = self._most_broken is not None and self._broken >= self._most_broken
        return enough or self.fault is not None or anyio.current_time() >= self._ends
