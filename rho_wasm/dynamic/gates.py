"""The switch gates: what a candidate must pass before anything of it is offered."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import anyio
import anyio.to_thread

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.examples import example_problem
from rho_wasm.dynamic.generation import Generation, ToolVersion, Verdict
from rho_wasm.dynamic.modules import ModulePool
from rho_wasm.dynamic.replay_report import ReplayReport
from rho_wasm.dynamic.replayer import Replayer
from rho_wasm.dynamic.review import Review, review_of
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import Quarantine, within_an_hour
from rho_wasm.errors import GateRejected, ModuleRejected, ToolError
from rho_wasm.limits import Limits
from rho_wasm.manifest import Manifest, ToolDeclaration
from rho_wasm.policy import Policy
from rho_wasm.sandbox import GuestModule, Sandbox
from rho_wasm.signatures import is_async
from rho_wasm.untrusted import inert, type_name

__all__ = ["Approve", "Rebuild", "SwitchGates"]

Approve: TypeAlias = Callable[[Review], bool | str | Awaitable[bool | str]]
"""Says yes (True) or no (False, or a text that says why) to a candidate, sync (in a worker thread) or async."""
Rebuild: TypeAlias = Callable[[Artifact], Awaitable[bytes]]
"""Builds an artifact's source again with this host's toolchain and answers the module's bytes."""

_AUTHOR_S = 24 * 3600.0
"""How long quarantines count against their author, beside their tool and artifact."""
_PROBLEMS = 8
"""So many are told; a model mends the first ones and stages again."""
_EXAMPLES_S = 60.0
"""All examples of a candidate together."""


class _Undecided(Exception):
    """The gate says neither yes nor no: the candidate stays one."""

    def __init__(self, problem: str) -> None:
        self.problem = problem


class SwitchGates:
    """Asks the gates in their order: ``admission`` always, then of ``examples``, ``replay`` and ``approval`` what the
    policy names.

    Where three versions of one name, of one artifact or of one author were quarantined within an hour, a candidate that
    brings such a one needs approval in any case. So does one whose replays decide nothing
    (:meth:`ReplayReport.doubt <rho_wasm.dynamic.replay_report.ReplayReport.doubt>`): it asked the host what is in no
    recording, and then crashed; it takes no more what worked; calls that worked had no time. What the gates run never
    counts as a strike.
    """

    def __init__(
        self,
        store: Store,
        sandbox: Sandbox,
        *,
        modules: ModulePool,
        policy: Policy,
        limits: Callable[[ToolDeclaration, ToolVersion, Manifest, bool], Limits],
        approve: Approve | None,
        rebuild: Rebuild | None,
        replayer: Replayer,
    ) -> None:
        self._store = store
        self._sandbox = sandbox
        self._modules = modules
        self._policy = policy
        self._limits = limits
        self._approve = approve
        self._rebuild = rebuild
        self._replayer = replayer

    async def judge(self, candidate: Generation, held: AsyncExitStack) -> None:
        """Returns if every gate said yes. The modules that it loaded stay loaded as long as ``held``.

        Raises :class:`GateRejected` with the first gate that did not. The candidate is then rejected for good, unless
        the gate only could not decide: nobody approved yet, or the host is overloaded. Then it can be activated again.
        """
        gates: list[tuple[str, Callable[[Generation], Awaitable[tuple[str, ...]]]]] = [
            ("admission", partial(self._admission, held=held))
        ]
        if "examples" in self._policy.gates.on:
            gates.append(("examples", self._examples))
        replays: dict[str, ReplayReport] = {}
        if "replay" in self._policy.gates.on:
            gates.append(("replay", partial(self._replay, reports=replays)))
        laundering = await anyio.to_thread.run_sync(self._laundering, candidate)
        passed: list[Verdict] = []
        for name, gate in gates:
            await self._ask(candidate, name, gate, passed, replays)
        doubts = [laundering, *(report.doubt() for report in replays.values())]
        because = "".join(f", as {each}" for each in doubts if each)
        if "approval" in self._policy.gates.on or because:
            approval = partial(self._approval, because=because, replays=replays)
            await self._ask(candidate, "approval", approval, passed, replays)
        await self._record(candidate, passed, rejected=None)

    async def _ask(
        self,
        candidate: Generation,
        name: str,
        gate: Callable[[Generation], Awaitable[tuple[str, ...]]],
        passed: list[Verdict],
        replays: Mapping[str, ReplayReport],
    ) -> None:
        """Adds to ``passed``, or raises as :meth:`judge` does."""
        try:
            problems = await gate(candidate)
        except _Undecided as undecided:
            await self._record(candidate, [*passed, Verdict(name, False, (undecided.problem,))], rejected=None)
            raise GateRejected(candidate.number, name, (undecided.problem,), waiting=True) from None
        if problems:
            told = _told(candidate, replays) if name == "replay" else None
            await self._record(candidate, [*passed, Verdict(name, False, problems)], rejected=f"by the gate {name}")
            raise GateRejected(candidate.number, name, problems, told=told)
        notes = tuple(report.summary() for report in replays.values()) if name == "replay" else ()
        passed.append(Verdict(name, True, notes))

    async def review(self, candidate: Generation) -> Review:
        """What a person is shown. A claimed artifact with source is first rebuilt and compared, byte for byte.

        Where the policy has the gate ``replay`` the recorded calls are replayed for it.
        """
        replays: dict[str, ReplayReport] = {}
        if "replay" in self._policy.gates.on and candidate.state == "candidate":
            with suppress(_Undecided, ModuleRejected):  # A review says nothing of them then; the gate itself will.
                await self._replay(candidate, reports=replays)
        return await self._reviewed(candidate, replays)

    async def _reviewed(self, candidate: Generation, replays: Mapping[str, ReplayReport]) -> Review:
        for sha256 in sorted({candidate.tools[name].artifact for name in _coming(candidate)}):
            artifact = await anyio.to_thread.run_sync(self._store.artifact, sha256)
            if self._rebuild is not None and artifact.source is not None and artifact.provenance == "claimed":
                await self._confirm(artifact, self._rebuild)
        return await anyio.to_thread.run_sync(review_of, self._store, candidate, replays)

    async def _record(self, candidate: Generation, verdicts: list[Verdict], *, rejected: str | None) -> None:
        await anyio.to_thread.run_sync(
            partial(self._store.history.judge, candidate.number, verdicts, rejected=rejected)
        )

    async def _admission(self, candidate: Generation, *, held: AsyncExitStack) -> tuple[str, ...]:
        problems: dict[str, str] = {}
        for name in _coming(candidate):
            sha256 = candidate.tools[name].artifact
            if sha256 not in problems:
                try:
                    await held.enter_async_context(self._modules.use(sha256))
                except ModuleRejected as error:
                    if error.reason == "engine_missing":
                        raise _Undecided(f"{name}: {error}, then activate it again") from None
                    problems[sha256] = f"{name}: {error}"
        return tuple(problems.values())

    async def _examples(self, candidate: Generation) -> tuple[str, ...]:
        problems: list[str] = []
        ends = anyio.current_time() + _EXAMPLES_S
        for name in _coming(candidate):
            version = candidate.tools[name]
            async with self._modules.use(version.artifact) as module:
                declaration = module.manifest.tool(name)
                assert declaration is not None
                problems += await self._examples_of(module, declaration, version, ends=ends)
            if len(problems) >= _PROBLEMS:
                return (*problems[:_PROBLEMS], "there may be more: mend these first")
        return tuple(problems)

    async def _examples_of(
        self, module: GuestModule, declaration: ToolDeclaration, version: ToolVersion, *, ends: float
    ) -> list[str]:
        problems: list[str] = []
        limits = self._limits(declaration, version, module.manifest, module.standalone)
        for number, example in enumerate(declaration.examples, 1):
            if anyio.current_time() >= ends:
                seconds = f"{_EXAMPLES_S:.0f} s"
                return [*problems, f"{declaration.name}: the examples took over {seconds} together: keep fewer of them"]
            try:
                problem = await example_problem(
                    self._sandbox, module, declaration.name, example, number=number, limits=limits
                )
            except ToolError as error:
                raise _Undecided(f"the host could not run an example ({error.reason}): activate it again") from None
            if problem is not None:
                problems.append(problem)
            if len(problems) >= _PROBLEMS:
                break
        return problems

    async def _replay(self, candidate: Generation, *, reports: dict[str, ReplayReport]) -> tuple[str, ...]:
        """Fills ``reports``, by tool; a tool that differs from what it was is told of there, and is no problem."""
        try:
            found = await self._replayer.candidate(candidate, calls=self._policy.recordings.gate_calls)
        except ToolError as error:
            raise _Undecided(f"the host could not replay a call ({error.reason}): activate it again") from None
        reports |= {report.tool: report for report in found}
        problems = [problem for report in found for problem in report.problems()]
        # Whether one more than are told was replayed is chance: they run side by side.
        if len(problems) > _PROBLEMS or (len(problems) == _PROBLEMS and any(report.left for report in found)):
            return (*problems[:_PROBLEMS], "there may be more: mend these first")
        return tuple(problems)

    async def _approval(
        self, candidate: Generation, *, because: str, replays: Mapping[str, ReplayReport]
    ) -> tuple[str, ...]:
        said = await anyio.to_thread.run_sync(self._store.approvals.get, candidate.number)
        if said is not None:
            return () if said.yes else (f"{said.by} said no" + (f": {said.note}" if said.note else ""),)
        if self._approve is None:
            raise _Undecided(
                f"it waits for a person's yes{because}: rho-wasm approve {candidate.number} (with the --store of this "
                "host), then activate it again"
            )
        answer = await _answer(self._approve, await self._reviewed(candidate, replays))
        if answer is True:
            return ()
        if isinstance(answer, str):
            return (f"it was not approved: {inert(answer, limit=500)}",)
        if answer is False:
            return ("it was not approved",)
        raise _Undecided(f"the approval callback answered a {type_name(answer)}, not True, False or text")

    def _laundering(self, candidate: Generation) -> str:
        """Why the candidate needs a person whatever the policy says; empty if it does not."""
        names, held = _coming(candidate), [each for each in self._store.quarantines() if each.active]
        if not names or not within_an_hour(held):
            return ""
        authors = self._store.history.authors()
        by_tool, by_artifact, by_author = (defaultdict[str, list[Quarantine]](list) for _ in range(3))
        day_ago = self._store.clock() - _AUTHOR_S
        for each in held:
            by_tool[each.version.tool].append(each)
            by_artifact[each.version.artifact].append(each)
            # An author's name may stand for every session of a model: one hostile one must not stop all for good.
            for author in authors.get(each.version, ()) if each.at > day_ago else ():
                by_author[author].append(each)
        artifacts = sorted({candidate.tools[name].artifact for name in names})
        for what, grouped, which in (
            ("tool", by_tool, names),
            ("artifact", by_artifact, artifacts),
            ("author", by_author, (candidate.author,)),
        ):
            for one in which:
                if within_an_hour(grouped[one]):
                    return f"three versions of the {what} {one} were quarantined within an hour"
        return ""

    async def _confirm(self, artifact: Artifact, rebuild: Rebuild) -> None:
        try:
            rebuilt = await rebuild(artifact)
        except Exception:
            return  # It stays claimed, which is what a source that does not build is.
        if rebuilt == artifact.wasm:
            built = replace(artifact, provenance="built here")
            await anyio.to_thread.run_sync(self._store.put, built)


def _coming(candidate: Generation) -> tuple[str, ...]:
    """The tools that a candidate brings: what its gates look at."""
    return (*candidate.changes.added, *candidate.changes.changed)


def _told(candidate: Generation, replays: Mapping[str, ReplayReport]) -> tuple[str, ...]:
    """What a model may read of a rejection by replays."""
    more = f"the operator sees more: rho-wasm recordings replay --against {candidate.number}"
    return (*(report.told() for report in replays.values() if report.broken), more)


async def _answer(approve: Approve, review: Review) -> object:
    try:
        if is_async(approve):
            answer: object = approve(review)
        else:
            # It may wait for a person at a terminal.
            answer = await anyio.to_thread.run_sync(approve, review)
        return await answer if inspect.isawaitable(answer) else answer
    except Exception as error:
        raise _Undecided(f"the approval callback raised {type_name(error)}") from None
