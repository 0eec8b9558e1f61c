"""The source of agent-written tools: what is live is offered, what is staged waits, what fails is taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread

from rho_wasm.calls import RunningCall
from rho_wasm.capabilities.capability import Capability
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.follower import Follower
from rho_wasm.dynamic.gates import Approve, Rebuild, SwitchGates
from rho_wasm.dynamic.generation import Candidate, Generation, ToolVersion
from rho_wasm.dynamic.granting import grants_to_stage
from rho_wasm.dynamic.guard import Guard
from rho_wasm.dynamic.handler import GuestHandler
from rho_wasm.dynamic.history import STRIKES_AUTHOR, Check, Switched
from rho_wasm.dynamic.judge import StrikeJudge
from rho_wasm.dynamic.live import LiveTools
from rho_wasm.dynamic.modules import ModulePool
from rho_wasm.dynamic.offer import OfferMaker
from rho_wasm.dynamic.recorder import Recorder, RecorderStatistics, Redact, check_redact
from rho_wasm.dynamic.recording import RecordingRow
from rho_wasm.dynamic.replay_report import ReplayReport
from rho_wasm.dynamic.replayer import Replayer
from rho_wasm.dynamic.review import Review
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import Quarantine, Strike, StrikeLedger
from rho_wasm.dynamic.teller import Teller
from rho_wasm.dynamic.worker import StoreWorker
from rho_wasm.errors import Closed, NameInvalid
from rho_wasm.events import OnEvent
from rho_wasm.frozen import FrozenMap
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.policy import Policy
from rho_wasm.portable import check_declared
from rho_wasm.sandbox import Sandbox
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert, type_name

__all__ = ["DynamicSource"]

Result = TypeVar("Result")

_FIRST_LOOK_S = _WRITE_S = 10.0
_AUTHOR_CHARS, _NOTE_CHARS = 128, 2_000


class DynamicSource:
    """Offers the live generation of a store; stages, switches, and returns to what worked.

    Look-ups answer from memory. A thread of the source's own sees within a second what other processes did to the
    store; nothing else needs to run for that. Several processes may have a source on one store.

    ``policy`` narrows what tools may do and names the switch gates; ``limits`` bound one call, whatever a manifest
    says: its ``call`` of a guest, its ``engine_call`` of an image, or both. ``approve`` answers the gate ``approval``
    where no person has done so in the store; ``rebuild`` builds an artifact's source again, so that an imported one can
    become ``built here``. ``redact`` sees each recorded call before it is written, where the policy has calls recorded:
    a sync function, called in the thread that writes the store. ``capabilities`` are what there is to grant: what the
    policy grants beyond them is not there. The store and the sandbox stay the caller's to close, after :meth:`aclose`.
    """

    cancels_calls = False

    def __init__(
        self,
        store: Store,
        sandbox: Sandbox,
        *,
        policy: Policy | None = None,
        limits: HostLimits | Limits | None = None,
        approve: Approve | None = None,
        rebuild: Rebuild | None = None,
        capabilities: Iterable[Capability] = (),
        redact: Redact | None = None,
        on_event: OnEvent | None = None,
        name: str = "dynamic",
    ) -> None:
        check_redact(redact)
        self.name = name
        self.store = store
        self._policy = policy or Policy()
        self._teller = Teller(on_event)
        self._ledger = StrikeLedger(self._policy.strikes, clock=store.clock)
        self._guard = Guard(self._ledger, clock=store.clock)
        self._modules = ModulePool(store, sandbox)
        recordings = self._policy.recordings
        self._recorder = (
            Recorder(store, policy=recordings, redact=redact, tell=self._teller.tell_later, name=name)
            if recordings.on
            else None
        )
        maker = OfferMaker(
            store,
            sandbox,
            modules=self._modules,
            guard=self._guard,
            policy=self._policy,
            limits=HostLimits(call=limits) if isinstance(limits, Limits) else limits or HostLimits(),
            capabilities={capability.name: capability for capability in capabilities},
            recorder=self._recorder,
            failed=self._teller.tell_from,
        )
        self._replayer = Replayer(store, sandbox, modules=self._modules, offers=maker)
        self._gates = SwitchGates(
            store,
            sandbox,
            modules=self._modules,
            policy=self._policy,
            limits=maker.limits,
            approve=approve,
            rebuild=rebuild,
            replayer=self._replayer,
        )
        self._closed = False
        self._guard.refresh(store.quarantines())
        self._live = LiveTools(store, maker, modules=self._modules, teller=self._teller, name=name)
        self._worker = StoreWorker()
        self._judge = StrikeJudge(
            store,
            policy=self._policy.strikes,
            ledger=self._ledger,
            guard=self._guard,
            worker=self._worker,
            teller=self._teller,
            switches=self._live,
        )
        self._follower = Follower(
            store,
            window_s=self._policy.strikes.window_s,
            ledger=self._ledger,
            guard=self._guard,
            live=self._live,
            judge=self._judge,
            recorder=self._recorder,
            teller=self._teller,
            name=name,
        )
        self._worker.start(self._follower.tick)
        # What struck before a restart counts before the first look-up.
        wait([self._worker.submit(self._follower.tick)], timeout=_FIRST_LOOK_S)

    # What a registry asks.

    @property
    def version(self) -> int:
        """Differs whenever the tools changed."""
        return self._live.serial

    def list(self) -> Sequence[Tool]:
        """The tools of the live generation, sorted by name."""
        return self._live.offer.listed

    def lookup(self, name: str) -> Tool | None:
        """The tool of that name in the live generation, or None."""
        return self._live.offer.tools.get(name)

    def held(self, tool: str) -> tuple[Quarantine, ...]:
        """Which versions of a tool may not run now, the oldest quarantine first. From memory, so at once."""
        return self._guard.of(tool)

    def watch(self, call: RunningCall) -> None:
        """Told of every call that is about to run; its own are counted when they end."""
        handler = call.tool.handler
        if isinstance(handler, GuestHandler) and handler.guard is self._guard:
            call.add_done_callback(partial(self._judge.ended, call, handler))

    # What an operator, or a model through the workshop, asks.

    async def stage(
        self,
        add: Iterable[Artifact] = (),
        remove: Iterable[str] = (),
        *,
        author: str,
        note: str = "",
        limits: Mapping[str, Mapping[str, int]] | None = None,
        grants: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    ) -> Candidate:
        """Makes a candidate of the live generation: with every tool of ``add``, without the tools named in ``remove``.

        Nothing of it is offered until :meth:`activate`. ``limits`` lowers bounds of calls, by tool and field of
        :class:`Limits`. Each tool gets what the policy grants it now of what its manifest declares; ``grants``, by tool
        and capability, narrows that to what it names, within the bounds that it says. ``author`` is at most 128
        characters, ``note`` 2,000.

        Raises :class:`NameInvalid` for a tool that two artifacts declare, that is added and removed, or that is to be
        removed and is not there; ValueError for no change at all, a wrong author, bounds that are none, or grants that
        there are not; :class:`ModuleRejected` (``schema_unportable``) for a tool that the API of a model would refuse;
        :class:`StoreError`, also where the author has too many open candidates (``too_many_candidates``: reject
        some).
        """
        artifacts, gone = tuple(add), _names(remove)
        for artifact in artifacts:
            if not isinstance(artifact, Artifact):
                raise TypeError(f"an Artifact is staged, not a {type_name(artifact)}: see Artifact.from_wasm")
        if not artifacts and not gone:
            raise ValueError("nothing to stage: name artifacts to add or tools to remove")
        if not author or author == STRIKES_AUTHOR:
            raise ValueError(f"an author is text, and not {STRIKES_AUTHOR!r}, which is the host's own")
        versions = self._versions(artifacts, gone, limits or {}, grants or {})
        author = inert(author, limit=_AUTHOR_CHARS)

        def write() -> Candidate:
            self.store.history.check_room(author)
            for artifact in artifacts:
                self.store.put(artifact)
            shown = inert(note, limit=_NOTE_CHARS, newlines=True)
            return self.store.history.stage(versions, gone, author=author, note=shown)

        candidate = await self._in_thread(write)
        if self._live.offer.damaged:
            await self._in_thread(self._live.rebuild)  # Staging an artifact again mends it.
        return candidate

    async def activate(
        self, candidate: Generation | int, *, floor: bool = False, check: Check | None = None
    ) -> Generation:
        """Asks the switch gates, then makes the candidate live: one atomic switch. Answers the live generation.

        Where the live generation moved on since, in other tools only, the candidate's changes are made to it, and the
        answer has a number of its own. With ``floor`` an automatic return never goes below the versions that it brings.
        ``check`` is asked last, in the switch itself: gates may take long, and others go on meanwhile.

        Raises :class:`GateRejected` (the candidate stays one if a gate only waits for somebody),
        :class:`GenerationConflict` if what it changes was changed meanwhile, :class:`UnknownGeneration` for anything
        but a candidate and while a version in it is quarantined, :class:`StoreError`.
        """
        number = candidate.number if isinstance(candidate, Generation) else candidate
        found = await self._in_thread(partial(self.store.history.candidate, number))
        await self.write_recordings()
        async with AsyncExitStack() as held:
            await self._gates.judge(found, held)
            return await self._switch(partial(self.store.history.activate, number, floor=floor, check=check))

    async def rollback(
        self,
        to: int | None = None,
        *,
        author: str = "operator",
        note: str = "",
        live: int | None = None,
        check: Check | None = None,
    ) -> Generation:
        """Makes the parent of the live generation live again, or ``to``, any other that was live. At once.

        No gate is asked: its versions passed them, and today's policy narrows them all the same. With ``live`` nothing
        happens unless that is the live one still; ``check`` is asked in the switch itself. Raises
        :class:`UnknownGeneration`, also while a version in it is quarantined, and :class:`StoreError`.
        """
        return await self._switch(
            partial(
                self.store.history.roll_back,
                to,
                author=inert(author, limit=_AUTHOR_CHARS),
                note=inert(note, limit=_NOTE_CHARS, newlines=True),
                expected=live,
                check=check,
            )
        )

    async def pardon(self, tool: str) -> tuple[Quarantine, ...]:
        """Ends every quarantine of ``tool``; its strikes no longer count. Answers what was ended, () if there was none.

        A pardoned version can be rolled back to and activated again; nothing becomes live by a pardon, except that a
        suspended version, which is still in the live generation, is offered again.
        """
        ended = await self._in_thread(partial(self._judge.pardon, tool))
        await self._in_thread(self._live.rebuild)
        return ended

    async def review(self, candidate: Generation | int) -> Review:
        """What a person is shown before saying yes: sources, capabilities, provenance, what changes."""
        number = candidate.number if isinstance(candidate, Generation) else candidate
        await self.write_recordings()
        return await self._gates.review(await self._in_thread(partial(self.store.generation, number)))

    async def replay(
        self, recordings: Iterable[RecordingRow], *, against: Generation | int | Artifact | None = None
    ) -> tuple[ReplayReport, ...]:
        """What recorded calls (rows of ``store.recordings``) come to on the live generation, another, or an artifact.

        Runs in the sandbox with the recorded answers of the host, as the gate ``replay`` does: nothing is touched and
        nothing strikes. A report for each tool. Raises :class:`UnknownGeneration`, :class:`ModuleRejected`,
        :class:`StoreError`, and :class:`ToolError` (``overloaded``) where the host could not run one.
        """
        if against is None:
            against = self.live()
        elif isinstance(against, int):
            against = await self._in_thread(partial(self.store.generation, against))
        return await self._replayer.rows(recordings, against)

    async def write_recordings(self) -> None:
        """Returns once the calls that ended so far are in the store, if they are recorded; after 10 s in any case."""
        if self._recorder is not None:
            write = self._recorder.write
            await self._in_thread(lambda: wait([self._worker.submit(write)], timeout=_WRITE_S))

    def live(self) -> Generation:
        """The generation that is offered now."""
        return self._live.offer.generation

    def damaged(self) -> Mapping[str, str]:
        """Tools of the live generation that cannot be offered because their artifact is damaged, and why."""
        return self._live.offer.damaged

    def generations(self) -> tuple[Generation, ...]:
        """Every generation, the oldest first. Reads the store, which waits for no writer."""
        return self.store.generations()

    def strikes(self, tool: str | None = None) -> tuple[Strike, ...]:
        """The latest strikes, of one tool or of all, the newest first. Reads the store, which waits for no writer."""
        return self.store.strikes(tool)

    def quarantines(self, tool: str | None = None) -> tuple[Quarantine, ...]:
        """Every quarantine, pardoned ones too, the oldest first. Reads the store, which waits for no writer."""
        return self.store.quarantines(tool)

    def recorder_statistics(self) -> RecorderStatistics | None:
        """What became of the calls that were to be recorded; None where the policy has none recorded."""
        return None if self._recorder is None else self._recorder.statistics()

    def loaded_modules(self) -> tuple[str, ...]:
        """The hashes of the modules that are loaded now: of the live generation, and what calls still run on."""
        return self._modules.loaded()

    async def aclose(self) -> None:
        """Writes what is not written yet and ends the source's thread. May be called twice."""
        if self._closed:
            return
        self._closed = self._follower.closing = True
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._worker.close)
        self._modules.close()
        self._teller.flush()

    async def __aenter__(self) -> Self:
        self._teller.adopt()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # How it is done.

    def _versions(
        self,
        artifacts: Iterable[Artifact],
        gone: frozenset[str],
        limits: Mapping[str, Mapping[str, int]],
        grants: Mapping[str, Mapping[str, Mapping[str, Any]]],
    ) -> dict[str, ToolVersion]:
        versions: dict[str, ToolVersion] = {}
        for artifact in artifacts:
            check_declared(artifact.manifest.tools)
            for name in artifact.tools:
                if name in versions:
                    raise NameInvalid(name, "two of the added artifacts declare a tool of that name")
                if name in gone:
                    raise NameInvalid(name, "it is both added and removed; adding it is enough to replace it")
                lowered = FrozenMap(limits.get(name, {}))
                Limits().lowest(lowered)  # Refuses what is no limit.
                given = grants_to_stage(name, artifact.manifest.capabilities, self._policy, grants.get(name))
                versions[name] = ToolVersion(artifact.sha256, given, lowered)
        for name in (limits.keys() | grants.keys()) - versions.keys():
            raise NameInvalid(name, "limits or grants are given for it, but no added artifact declares it")
        return versions

    async def _switch(self, switch: Callable[[], Switched]) -> Generation:
        def run() -> Switched:
            switched = switch()
            self._live.switched(switched)
            return switched

        return (await self._in_thread(run)).live

    async def _in_thread(self, job: Callable[[], Result]) -> Result:
        if self._closed:
            raise Closed("the dynamic source")
        self._teller.adopt()
        result = await anyio.to_thread.run_sync(job)
        self._teller.flush()
        return result


def _names(given: Any) -> frozenset[str]:
    if isinstance(given, str):
        raise TypeError("remove takes a list of tool names, not one text")
    return frozenset(given)
