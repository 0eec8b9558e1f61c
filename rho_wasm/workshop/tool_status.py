"""``tool_status``: what is live, what waits, what struck, and what calls cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio.to_thread

from rho_wasm.calls import ToolContext
from rho_wasm.dynamic.generation import Candidate
from rho_wasm.dynamic.strikes import Strike, bounded_id
from rho_wasm.errors import RhoError
from rho_wasm.results import Failed, Ok
from rho_wasm.tools import Tool
from rho_wasm.trace_lines import both_ends
from rho_wasm.untrusted import inert
from rho_wasm.workshop import schemas
from rho_wasm.workshop.bench import Bench
from rho_wasm.workshop.telling import refusal

__all__ = ["tool_status"]

_TOOLS, _STRIKES, _FRAMES, _HISTORY = 50, 5, 12, 10
_LINE_CHARS = 300


def tool_status(bench: Bench) -> Tool:
    """The tool. It tells a session of its own calls, and of others' only how many they were, and when and why they
    struck: in a backtrace, or in its fuel, a tool can hold whatever it was asked."""

    async def status(arguments: Mapping[str, Any], context: ToolContext) -> Ok | Failed:
        bench.hear(context)
        name = arguments.get("name")
        tell = partial(_all, bench, context) if name is None else partial(_one, bench, name, context)
        try:
            return Ok(await anyio.to_thread.run_sync(tell))
        except RhoError as error:
            return refusal(error, "how things stand is not known")

    return Tool(
        name="tool_status",
        description=(
            "Tells which tools that were written are live, your open candidates and what they wait for; with name, of "
            "one tool: its version, strikes, quarantine, and of your own calls the fuel, and the last faults with "
            "their backtrace."
        ),
        input_schema=schemas.arguments({"name": schemas.TOOL_NAME}),
        read_only=True,
        idempotent=True,
        handler=status,
    )


def _all(bench: Bench, context: ToolContext) -> dict[str, Any]:
    live = bench.source.live()
    foreign = bench.authors.foreign(bench.store, context.session_id)
    names = sorted(live.tools)
    told: dict[str, Any] = {
        "generation": live.number,
        "tools": [{"name": name, "may_change": foreign.problem(name) is None} for name in names[:_TOOLS]],
        "candidates": [_candidate(bench, each) for each in bench.own_candidates(context.session_id)],
        "history": [
            {"generation": each.number, "author": inert(each.author, limit=64), "note": inert(each.note, limit=100)}
            for each in bench.store.switches(limit=_HISTORY)
        ],
        "limits": bench.bounds(),
    }
    if len(names) > _TOOLS:
        told["more_tools"] = len(names) - _TOOLS
    if held := sorted({each.version.tool for each in bench.store.quarantines() if each.active}):
        told["quarantined"] = held[:_TOOLS]
    return told


def _candidate(bench: Bench, candidate: Candidate) -> dict[str, Any]:
    told: dict[str, Any] = {"candidate": candidate.number, "note": inert(candidate.note, limit=100)}
    told |= {kind: names for kind, names in candidate.changes.as_json().items() if names}
    said = bench.store.approvals.get(candidate.number)
    if said is not None and said.yes:
        told["approved"] = f'a person said yes: switch_tools with {{"candidate": {candidate.number}}} makes it live'
        return told
    waiting = [each for each in bench.store.verdicts(candidate.number) if not each.passed]
    if waiting:
        why = [inert(problem, limit=_LINE_CHARS) for problem in waiting[-1].problems[:4]]
        told["waits_for"] = {"gate": waiting[-1].gate, "told": why}
    elif bench.switching.waits(candidate.number):
        told["waits_for"] = bench.asking()
    return told


def _one(bench: Bench, name: str, context: ToolContext) -> dict[str, Any]:
    live = bench.source.live()
    foreign = bench.authors.foreign(bench.store, context.session_id)
    shown = inert(name, limit=100)
    told: dict[str, Any] = {"tool": shown, "live": name in live.tools, "generation": live.number}
    if name in live.tools:
        told["artifact"] = live.tools[name].artifact
        told["granted"] = sorted(grant.capability for grant in live.tools[name].grants)
    elif name not in foreign.by_name and not _known(bench, name, context):
        host = context.registry.lookup(name) is not None
        why = "it is the host's own tool" if host else "there is no tool of that name, and no candidate brings one"
        raise Failed(f"nothing is told of '{shown}': {why}", details={"reason": "not_found"})
    told["may_change"] = foreign.problem(name) is None
    told |= bench.recent.of(name, context.session_id)
    every = bench.store.strikes(name, limit=100)
    own = [each for each in every if _is_own(each, context.session_id)]
    for fault in told.get("faults", ()):
        fault["strike"] = _counted(bench, fault, own)
    strikes = [each for each in every if not each.pardoned]
    told["strikes"] = {
        "count": len(strikes),
        "limit": bench.policy.strikes.limit,
        "window_s": bench.policy.strikes.window_s,
        "latest": [_strike(each, own=_is_own(each, context.session_id)) for each in strikes[:_STRIKES]],
    }
    held = [each for each in bench.store.quarantines(name) if each.active]
    if held:
        told["quarantine"] = [
            {"artifact": each.version.artifact, "mode": each.mode, "reasons": list(each.reasons[:8])}
            for each in held[-4:]
        ]
        told["next"] = "mend the source (read_tool shows it) and write it again; a person can pardon the version"
    return told


def _is_own(strike: Strike, session_id: str | None) -> bool:
    """Whether it struck in a call of that session; an id that was shortened when it was written names none."""
    return strike.call.session_id == session_id == bounded_id(session_id)


def _strike(strike: Strike, *, own: bool) -> dict[str, Any]:
    told = {
        "reason": strike.reason,
        "generation": strike.generation,
        "artifact": strike.version.artifact,
        "at": strike.at,
    }
    if own:
        told["backtrace"] = [inert(frame, limit=_LINE_CHARS) for frame in both_ends(strike.backtrace, _FRAMES)]
    return told


def _known(bench: Bench, name: str, context: ToolContext) -> bool:
    """Whether there is, was or may be a tool of that name, names of others apart, as this session knows."""
    if bench.store.quarantines(name) or bench.store.strikes(name, limit=1) or bench.recent.knows(name):
        return True
    return any(name in each.changes.names for each in bench.own_candidates(context.session_id))


def _counted(bench: Bench, fault: Mapping[str, Any], strikes: Sequence[Strike]) -> str:
    """Whether a fault is a strike, and why not."""
    strike = next((each for each in strikes if each.call.call_id == fault["call_id"]), None)
    if strike is not None:
        return "pardoned by a person" if strike.pardoned else "yes"
    kinds = bench.policy.strikes.kinds
    if kinds is not None and fault["reason"] not in kinds:
        return "no: the policy counts other faults"
    if fault["reason"] == "deadline":
        return "no: the tool computed for less than half of its time, or was given less than its own"
    return "no: its guest had not begun, or another call was counted for it"
