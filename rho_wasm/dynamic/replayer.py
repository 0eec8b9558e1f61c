"""Replays many recorded calls on one version, or on all that a candidate brings, within bounded time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import anyio
import anyio.to_thread

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.generation import Generation, ToolVersion
from rho_wasm.dynamic.modules import ModulePool
from rho_wasm.dynamic.recording import Recording, RecordingRow, encoded
from rho_wasm.dynamic.replay import PreparedReplay, Replay, ReplayTarget, replay
from rho_wasm.dynamic.replay_places import place_of
from rho_wasm.dynamic.replay_report import ReplayReport, shape_of
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import Corrupt, ModuleRejected, NameInvalid, RhoError, StoreError
from rho_wasm.frozen import thaw
from rho_wasm.limits import Limits
from rho_wasm.manifest import Manifest, ToolDeclaration
from rho_wasm.sandbox import GuestModule, Sandbox

__all__ = ["Offers", "Replayer"]

_GATE_S = 60.0
"""All replays of a candidate together, the same for each of its tools; the newest calls come first."""
_AT_ONCE = 2
"""Replays that run side by side: live calls come first."""
_PREPARED = 8
"""Recordings that are read together, each of at most some MiB."""
_BROKEN = 8
"""So many of one tool are told; what is left is not replayed."""


class Offers(Protocol):
    """Says how versions are offered. ``manifest`` is the one that ``declaration`` stands in."""

    def limits(
        self, declaration: ToolDeclaration, version: ToolVersion, manifest: Manifest, standalone: bool = False
    ) -> Limits:
        """What bounds the calls of a version. ``standalone`` is what its module, which was loaded, says of itself."""

    def reads_only(self, declaration: ToolDeclaration, version: ToolVersion, manifest: Manifest) -> bool:
        """Whether it changes nothing."""


class Replayer:
    """Runs recordings of a store in a sandbox."""

    def __init__(self, store: Store, sandbox: Sandbox, *, modules: ModulePool, offers: Offers) -> None:
        self._store = store
        self._sandbox = sandbox
        self._modules = modules
        self._offers = offers
        self.clock: Callable[[], float] = anyio.current_time
        """In seconds: what the time of the gate is measured by."""

    async def candidate(self, candidate: Generation, *, calls: int) -> tuple[ReplayReport, ...]:
        """The latest ``calls`` that each tool that ``candidate`` brings answered, on what it brings.

        Whichever version of that name answered them: what counts is that somebody asked this. So no chain of versions
        that were live for a moment, and no tool that is taken away and comes back, makes the gate forget a call. What
        versions answered that are quarantined now comes after, as many again: it takes nobody's place, and rejects
        nobody. Tools of which no call is recorded have no report, unless calls worked that could not be.
        Raises :class:`ToolError` (``overloaded``) where the host could not run them, :class:`ModuleRejected` and
        :class:`StoreError`.
        """
        runs = []
        async with AsyncExitStack() as loaded:
            for name in (*candidate.changes.added, *candidate.changes.changed) if calls else ():
                past = await anyio.to_thread.run_sync(partial(self._past, name, limit=calls))
                if past.rows or past.unkept:
                    target = await loaded.enter_async_context(self._target(name, candidate.tools[name]))
                    runs.append(_Run(self, target, past, most_broken=_BROKEN))
            await self._in_turn(runs)
        reports = [run.report() for run in runs]
        return tuple([await anyio.to_thread.run_sync(self._placed, each) if each.broken else each for each in reports])

    def _past(self, tool: str, *, limit: int) -> _Past:
        held = frozenset(each.version.artifact for each in self._store.quarantines(tool) if each.active)
        recordings = self._store.recordings
        rows = recordings.ended(tool, limit=limit, without=held)
        if held:
            rows += recordings.answered(tool, held, limit=limit)
        unkept, live = recordings.unkept(tool), self._store.live().tools.get(tool)
        if live is not None and any(row.kind == "ok" for row in rows):
            # Of versions before these nothing is to be known: those that came after answered, or a person said yes.
            unkept = {artifact: unkept[artifact] for artifact in unkept.keys() & {live.artifact, *held}}
        return _Past(rows, held, sum(unkept.values()))

    async def _in_turn(self, runs: Sequence[_Run]) -> None:
        """Gives each the same share of the time that is left, so that no tool's calls wait for another's alone."""
        ends = self.clock() + _GATE_S
        waiting = [run for run in runs if not run.ended]
        while waiting and self.clock() < ends:
            for place, run in enumerate(waiting):
                now = self.clock()
                await run.go_on(until=now + max(0.0, ends - now) / (len(waiting) - place))
            waiting = [run for run in waiting if not run.ended]

    def _placed(self, report: ReplayReport) -> ReplayReport:
        artifact = self._store.artifact(report.artifact)
        return replace(report, places={each.id: place_of(each, artifact) for each in report.broken})

    async def rows(self, rows: Iterable[RecordingRow], against: Generation | Artifact) -> tuple[ReplayReport, ...]:
        """These recordings, on the tools of a generation or on an artifact that need not be in the store.

        A report for each tool, sorted by name; of those that are not there one that only says so. Raises as
        :meth:`candidate` does.
        """
        by_tool: dict[str, list[RecordingRow]] = {}
        for row in rows:
            by_tool.setdefault(row.tool, []).append(row)
        reports = []
        for tool, those in sorted(by_tool.items()):
            if tool not in against.tools:
                skipped = ("it has no tool of this name",)
                reports.append(ReplayReport(tool=tool, artifact="", skipped=skipped, left=len(those), shapes={}))
            elif isinstance(against, Artifact):
                reports.append(await self._on_artifact(tool, against, those))
            else:
                async with self._target(tool, against.tools[tool]) as target:
                    reports.append(await self._run(target, those))
        return tuple(reports)

    async def _on_artifact(self, tool: str, artifact: Artifact, rows: Iterable[RecordingRow]) -> ReplayReport:
        module = await self._sandbox.load(artifact.wasm)
        try:
            return await self._run(await self._made(tool, ToolVersion(artifact.sha256), module), rows)
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
        limits = self._offers.limits(declaration, version, module.manifest, module.standalone)
        reads_only = self._offers.reads_only(declaration, version, module.manifest)
        make = partial(ReplayTarget.of, version.artifact, module, declaration, limits=limits, reads_only=reads_only)
        return await anyio.to_thread.run_sync(make)

    async def _run(self, target: ReplayTarget, rows: Iterable[RecordingRow]) -> ReplayReport:
        run = _Run(self, target, _Past(rows))
        await run.go_on(until=math.inf)
        return run.report()

    def prepare(
        self, target: ReplayTarget, rows: Iterable[RecordingRow], withdrawn: Collection[str]
    ) -> list[tuple[RecordingRow, PreparedReplay | str | None]]:
        """What there is of those recordings, or why there is nothing; None where one was dropped meanwhile.

        ``withdrawn`` are the artifacts that are quarantined. Blocks: in a thread.
        """
        return [(row, self._prepared(target, row, quarantined=row.artifact in withdrawn)) for row in rows]

    def _prepared(self, target: ReplayTarget, row: RecordingRow, *, quarantined: bool) -> PreparedReplay | str | None:
        try:
            recording = self._store.recordings.get(row.id)
            if recording is None:
                return None
            as_given = not recording.mended or recording.given is not None or self._same_schema(target, recording)
        except Corrupt as error:
            return error.detail
        return PreparedReplay.of(target, recording, quarantined=quarantined, as_given=as_given)

    def _same_schema(self, target: ReplayTarget, recording: Recording) -> bool:
        recorded = self._store.artifact_if_whole(recording.artifact)
        declared = None if recorded is None else recorded.manifest.tool(recording.tool)
        return declared is not None and _bytes(declared) == _bytes(target.declaration)

    async def one(self, prepared: PreparedReplay) -> Replay | str:
        """Replays a recording; or says why that says nothing."""
        recording = prepared.recording
        found = await replay(self._sandbox, prepared)
        if (found.broke or found.undecided or found.shut_out) and recording.redacted:
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
            if before.shut_out:
                return f"recording {recording.id} was redacted, and the version that answered it refuses what is left"
        return found


@dataclass(frozen=True, slots=True)
class _Past:
    """What is to be replayed of a tool. What the artifacts ``withdrawn`` answered rejects nobody."""

    rows: Iterable[RecordingRow]
    withdrawn: Collection[str] = ()
    unkept: int = 0
    """As a report has it."""


class _Run:
    """Several tasks that replay one list of recordings, for as long as they are given."""

    def __init__(
        self,
        replayer: Replayer,
        target: ReplayTarget,
        past: _Past,
        *,
        most_broken: int | None = None,
    ) -> None:
        self._replayer = replayer
        self._target = target
        self._past = past
        self._rows = deque(past.rows)
        self._most_broken = most_broken
        self._until = math.inf
        self._broken = 0
        self._replays: list[Replay] = []
        self._skipped: list[str] = []
        self._shapes: dict[int, str] = {}
        self._fault: RhoError | None = None

    @property
    def ended(self) -> bool:
        """Whether more time would change nothing."""
        return not self._rows or self._broken_enough

    async def go_on(self, *, until: float) -> None:
        """Begins no replay once it is ``until``, of the replayer's clock. Raises why the host could not go on."""
        self._until = until
        async with anyio.create_task_group() as tasks:
            for _ in range(_AT_ONCE):
                tasks.start_soon(self._work)
        if self._fault is not None:
            raise self._fault

    async def _work(self) -> None:
        try:
            while not self._over():
                rows = [self._rows.popleft() for _ in range(min(_PREPARED, len(self._rows)))]
                prepared = deque(
                    await anyio.to_thread.run_sync(self._replayer.prepare, self._target, rows, self._past.withdrawn)
                )
                while prepared and not self._stopped():
                    await self._replay(prepared.popleft()[1])
                self._rows.extendleft(row for row, _ in reversed(prepared))
        except RhoError as error:
            self._fault = error

    async def _replay(self, prepared: PreparedReplay | str | None) -> None:
        found = await self._replayer.one(prepared) if isinstance(prepared, PreparedReplay) else prepared
        if isinstance(found, str):
            self._skipped.append(found)
        if not isinstance(found, Replay):
            return
        self._replays.append(found)
        if found.broke:
            self._broken += 1
            assert isinstance(prepared, PreparedReplay), "a recording that cannot be read breaks nothing"
            self._shapes[found.id] = shape_of(prepared.arguments, self._target.declaration)

    def report(self) -> ReplayReport:
        return ReplayReport(
            tool=self._target.declaration.name,
            artifact=self._target.artifact,
            replays=tuple(sorted(self._replays, key=lambda each: -each.id)),
            skipped=tuple(self._skipped),
            left=len(self._rows),
            left_worked=sum(row.kind == "ok" for row in self._rows),
            unkept=self._past.unkept,
            shapes=self._shapes,
        )

    def _over(self) -> bool:
        return self.ended or self._stopped()

    def _stopped(self) -> bool:
        return self._broken_enough or self._fault is not None or self._replayer.clock() >= self._until

    @property
    def _broken_enough(self) -> bool:
        return self._most_broken is not None and self._broken >= self._most_broken


def _bytes(declaration: ToolDeclaration) -> bytes:
    """Of its schema, as True is 1 and 1.0 to Python."""
    return encoded(thaw(declaration.input_schema))
