"""What the tools of a workshop share: the host's parts, who wrote what, and how much is left of what may be done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.to_thread

from rho_wasm.calls import ToolContext
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.generation import Candidate, Generation
from rho_wasm.dynamic.history import Check
from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.errors import UnknownGeneration
from rho_wasm.events import OnEvent
from rho_wasm.limits import HostLimits
from rho_wasm.names import MAX_NAME_CHARS, problem_of
from rho_wasm.policy import Policy
from rho_wasm.results import Failed
from rho_wasm.sandbox import Sandbox
from rho_wasm.toolchains import ImageBuilder
from rho_wasm.untrusted import inert
from rho_wasm.workshop.authors import Authors, Foreign
from rho_wasm.workshop.declared import Declared
from rho_wasm.workshop.limits import WorkshopLimits
from rho_wasm.workshop.places import Places
from rho_wasm.workshop.rates import Rates, Taken
from rho_wasm.workshop.recent import RecentCalls
from rho_wasm.workshop.room import Room
from rho_wasm.workshop.switching import Switching

__all__ = ["Bench"]


class Bench:
    """One workshop on one host. An async context manager, inside the life of the host's parts."""

    def __init__(
        self,
        *,
        source: DynamicSource,
        sandbox: Sandbox,
        images: ImageBuilder,
        policy: Policy,
        host_limits: HostLimits,
        limits: WorkshopLimits,
        languages: Sequence[str],
        authors: Authors,
        rates: Rates,
    ) -> None:
        self.source = source
        self.store = source.store
        self.sandbox = sandbox
        self.images = images
        self.policy = policy
        self.host_limits = host_limits
        self.limits = limits
        self.languages = tuple(languages)
        self.authors = authors
        self.rates = rates
        self.places = Places(at_once=limits.at_once, waiting=limits.waiting)
        self._room = Room(limits.open_candidates, clock=rates.clock)
        self._staging = anyio.Lock()
        self.switching = Switching(source)
        self.declared = Declared(source, authors=authors, limits=limits)
        self.recent = RecentCalls()

    def hearing(self, on_event: OnEvent | None) -> OnEvent:
        """What the host's runner tells its events to, so that ``tool_status`` knows of calls."""
        return self.recent.hearing(on_event)

    async def __aenter__(self) -> Self:
        await self.switching.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.switching.__aexit__(kind, error, trace)

    def hear(self, context: ToolContext) -> None:
        """A session that does something has not ended: what waits of it stays longer than what others left."""
        self._room.hear(self.authors.of(context.session_id))

    def take(self, what: str, context: ToolContext, *, most: int, of_all: int, times: int = 1) -> Taken:
        """As :meth:`Rates.take`, for the session of a call."""
        return self.rates.take(what, context.session_id, most=most, of_all=of_all, times=times)

    # Names.

    def check_name(self, name: str, context: ToolContext) -> None:
        """Raises :class:`Failed` where no generation may have a tool of that name here, whoever wrote it."""
        shown = inert(name, limit=100)
        if (why := problem_of(name)) is not None:
            raise Failed(f"'{shown}' is no name of a tool: {why}{_other(name)}", details={"reason": "name_invalid"})
        if (reserved := context.registry.reservation(name)) is not None:
            raise Failed(str(reserved), details={"reason": "name_reserved"})
        tool = context.registry.lookup(name)
        if tool is not None and tool is not self.source.lookup(name):
            raise Failed(
                f"the host has a tool '{shown}' of its own: choose another name", details={"reason": "name_taken"}
            )

    async def foreign(self, context: ToolContext) -> Foreign:
        """The names that are somebody else's."""
        self.hear(context)
        return await anyio.to_thread.run_sync(self.authors.foreign, self.store, context.session_id)

    def check_own(self, names: Sequence[str], foreign: Foreign) -> None:
        """Raises :class:`Failed` for a name that is somebody else's."""
        for name in names:
            if (why := foreign.problem(name)) is not None:
                raise Failed(why, details={"reason": "not_yours", "tool": name})

    def still_own(self, context: ToolContext) -> Check:
        """What a switch asks inside its transaction: others may have taken a name while gates were asked.

        Raises as :meth:`check_own` does.
        """

        def check(live: Generation, names: frozenset[str]) -> None:
            self.check_own(sorted(names), self.authors.foreign(self.store, context.session_id))

        return check

    # Candidates.

    def own_candidates(self, session_id: str | None) -> list[Candidate]:
        """The open candidates of this workshop, as far as they are this session's, the newest first."""
        return [each for each in self.store.authorship.candidates() if self.authors.own(each.author, session_id)]

    async def candidates(self, context: ToolContext) -> list[Candidate]:
        """The same, not on the event loop's thread."""
        self.hear(context)
        return await anyio.to_thread.run_sync(self.own_candidates, context.session_id)

    async def candidate(self, number: int, context: ToolContext) -> Candidate:
        """One of them. Raises :class:`Failed` for any other, and says nothing of somebody else's."""
        found = [each for each in await self.candidates(context) if each.number == number]
        if found:
            return found[0]
        why = await anyio.to_thread.run_sync(self._state_of, number, context)
        raise Failed(f"there is no open candidate {number} here{why}", details={"reason": "unknown_generation"})

    def _state_of(self, number: int, context: ToolContext) -> str:
        try:
            found = self.store.generation(number)
        except UnknownGeneration:
            return "; tool_status lists those that there are"
        if not self.authors.own(found.author, context.session_id):
            return "; tool_status lists those that there are"
        return f": it is {found.state}" + (f" ({inert(found.why, limit=200)})" if found.why else "")

    async def artifact(self, generation: Generation, name: str) -> Artifact:
        """What a generation has as ``name``. Raises :class:`StoreError`."""
        return await anyio.to_thread.run_sync(self.store.artifact, generation.tools[name].artifact)

    async def stage(
        self, artifacts: Sequence[Artifact], remove: Sequence[str], context: ToolContext, *, note: str
    ) -> Candidate:
        """A candidate of this session. It takes the place of its older open ones that bring the same tools.

        Where there is no room those go that :class:`Room` says. Raises :class:`Failed` where there are too many,
        :class:`RhoError` as ``DynamicSource.stage`` does.
        """
        author = self.authors.of(context.session_id)
        limits = self.limits
        names = {name for artifact in artifacts for name in artifact.tools} | set(remove)
        self.hear(context)
        async with self._staging:
            everybodys, approved = await anyio.to_thread.run_sync(self._open)

            def kept(each: Candidate) -> bool:
                return each.number in approved or self.switching.waits(each.number)

            older = [
                each
                for each in everybodys
                if each.author == author and each.changes.names <= names and not self.switching.waits(each.number)
            ]
            gone = self._room.making(author, [each for each in everybodys if each not in older], kept=kept)
            with self.take("candidates", context, most=limits.stages_per_hour, of_all=limits.stages_per_hour_of_all):
                candidate = await self.source.stage(artifacts, remove, author=author, note=note)
            await self._reject(older, author, f"candidate {candidate.number} takes its place")
            await self._reject(gone, author, f"candidate {candidate.number} needed its room, write it again")
        return candidate

    async def discard(self, candidates: Sequence[Candidate], context: ToolContext) -> None:
        """They can never become live. Raises :class:`StoreError`."""
        await self._reject(candidates, self.authors.of(context.session_id), "it was discarded")

    async def _reject(self, candidates: Sequence[Candidate], author: str, why: str) -> None:
        for each in candidates:
            # Another session, or a person, may have decided about it meanwhile.
            with suppress(UnknownGeneration):
                await anyio.to_thread.run_sync(partial(self.store.reject, each.number, by=author, note=why))

    def _open(self) -> tuple[list[Candidate], frozenset[int]]:
        """Open candidates of all sessions of this workshop, and those of them that a person said yes to."""
        everybodys = Authors(self.authors.workshop)
        found = [each for each in self.store.authorship.candidates() if everybodys.own(each.author, None)]
        said = [self.store.approvals.get(each.number) for each in found]
        return found, frozenset(approval.number for approval in said if approval is not None and approval.yes)

    def gates(self) -> list[str]:
        """The switch gates that will be asked, in their order."""
        return ["admission", *(gate for gate in ("examples", "replay", "approval") if gate in self.policy.gates.on)]

    def asking(self) -> dict[str, Any]:
        """What is told of a candidate that the gates are being asked about: which of them it waits for is not known."""
        gates = self.gates()
        told = "the gates are still being asked"
        if "approval" in gates:
            told += "; for the last of them a person has to say yes, which may take long"
        return {"gate": ", ".join(gates), "told": [told]}

    def bounds(self) -> dict[str, Any]:
        """The bounds that a model should know of before it meets them."""
        limits = self.limits
        return {
            "builds_per_hour": limits.builds_per_hour,
            "candidates_per_hour": limits.stages_per_hour,
            "source_chars": limits.source_chars,
            "declared_bytes": limits.declared_bytes,
            "open_candidates": limits.open_candidates,
        }


def _other(name: str) -> str:
    """A name that could be meant."""
    meant = re.sub("[^A-Za-z0-9-]+", "_", name[: 4 * MAX_NAME_CHARS]).strip("_")[:MAX_NAME_CHARS]
    return "" if problem_of(meant) is not None else f"; call it '{meant}'"
