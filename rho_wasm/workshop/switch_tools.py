"""``switch_tools``: makes candidates live through every gate, and takes away what was written here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio.to_thread

from rho_wasm.calls import ToolContext
from rho_wasm.dynamic.generation import Candidate, Generation
from rho_wasm.errors import GateRejected, RhoError
from rho_wasm.results import Failed, Ok
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert
from rho_wasm.workshop import schemas
from rho_wasm.workshop.bench import Bench
from rho_wasm.workshop.telling import refusal

__all__ = ["switch_tools"]

TIMEOUT_MS = 300_000
_MOST = 16


def switch_tools(bench: Bench) -> Tool:
    """The tool. All that it is given goes live together, or nothing of it."""

    async def switch(arguments: Mapping[str, Any], context: ToolContext) -> Ok | Failed:
        numbers = list(dict.fromkeys(int(each) for each in arguments.get("candidates", ())))
        if "candidate" in arguments and (one := int(arguments["candidate"])) not in numbers:
            numbers.insert(0, one)
        remove = list(dict.fromkeys(arguments.get("remove", ())))
        discard = [int(each) for each in dict.fromkeys(arguments.get("discard", ()))]
        if not numbers and not remove and not discard:
            raise Failed("switch what? Give a candidate's number, or tools to remove", details={"reason": "nothing"})
        if both := [number for number in discard if number in numbers]:
            raise Failed(
                f"candidate {both[0]} cannot be switched and discarded: leave it out of one of the two",
                details={"reason": "two_ways"},
            )
        limits = bench.limits
        try:
            parts = [await bench.candidate(number, context) for number in numbers]
            unwanted = [await bench.candidate(number, context) for number in discard]
            if not parts and not remove:
                await bench.discard(unwanted, context)
                return Ok({"status": "discarded", "discarded": discard})
            switches = bench.take(
                "switches", context, most=limits.switches_per_hour, of_all=limits.switches_per_hour_of_all
            )
            with switches:
                candidate = await _one(bench, parts, remove, context, note=arguments.get("note", ""))
                await _check_own(bench, candidate, context)
                await bench.discard(unwanted, context)
            if bench.switching.waits(candidate.number):
                switches.give_back()  # It is asked about already, and counted.
            told = await _activated(bench, candidate, context)
            return Ok({**told, "discarded": discard}) if discard else Ok(told)
        except RhoError as error:
            return refusal(error, "nothing was switched")

    return Tool(
        name="switch_tools",
        description=(
            "Makes candidates of write_tool live: from then on their tools are yours to call. Every gate is asked "
            "first; a person may have to say yes, which is told as waiting: call it again then. remove takes away "
            "tools that were written here. Several changes go live together or not at all. discard lets go of your "
            "candidates that nobody needs."
        ),
        input_schema=schemas.arguments(
            {
                "candidate": schemas.CANDIDATE,
                "candidates": {"type": "array", "maxItems": _MOST, "items": schemas.CANDIDATE},
                "remove": {"type": "array", "maxItems": _MOST, "items": schemas.TOOL_NAME},
                "discard": {"type": "array", "maxItems": _MOST, "items": schemas.CANDIDATE},
                "note": schemas.NOTE,
            }
        ),
        read_only=False,
        destructive=True,
        idempotent=False,
        timeout_ms=TIMEOUT_MS,
        handler=switch,
    )


async def _one(
    bench: Bench, parts: Sequence[Candidate], remove: Sequence[str], context: ToolContext, *, note: str
) -> Candidate:
    """The candidate that has it all: the one that was named, or a new one of all parts without what is removed."""
    if len(parts) == 1 and not remove:
        return parts[0]
    live = bench.source.live()
    if gone := [name for name in remove if name not in live.tools]:
        shown = ", ".join(inert(name, limit=100) for name in gone)
        raise Failed(f"there is no such tool to remove: {shown}", details={"reason": "not_found"})
    # Before it is staged, so that an attempt takes no room.
    bench.check_own(remove, await bench.foreign(context))
    artifacts = {}
    taken = set(remove)
    for part in parts:
        taken |= set(part.changes.removed)
        for name in (*part.changes.added, *part.changes.changed):
            artifacts[part.tools[name].artifact] = await bench.artifact(part, name)
    brought = {name for artifact in artifacts.values() for name in artifact.tools}
    gone_too = sorted(name for name in taken - brought if name in live.tools)
    # The parts are older candidates of the same session that bring no more than this one, so it takes their place.
    return await bench.stage(list(artifacts.values()), gone_too, context, note=note or "switch_tools")


async def _check_own(bench: Bench, candidate: Candidate, context: ToolContext) -> None:
    """Raises :class:`Failed` where the candidate changes what is somebody else's, or declares more than there is room.

    That may have become so since it was written. The switch looks again: gates may wait for a person.
    """
    bench.check_own(sorted(candidate.changes.names), await bench.foreign(context))
    live = bench.source.live()
    await anyio.to_thread.run_sync(bench.declared.check, candidate, live, context.session_id)
    for name in (*candidate.changes.added, *candidate.changes.changed):
        bench.check_name(name, context)


async def _activated(bench: Bench, candidate: Candidate, context: ToolContext) -> dict[str, Any]:
    before = bench.source.live()
    still_own = bench.still_own(context)

    def check(live: Generation, names: frozenset[str]) -> None:
        still_own(live, names)
        bench.declared.check(candidate, live, context.session_id)

    try:
        live = await bench.switching.activate(candidate.number, wait_s=bench.limits.approval_wait_s, check=check)
    except GateRejected as rejected:
        if not rejected.waiting:
            raise
        told = [inert(each, limit=500) for each in rejected.told[:8]]
        return _waiting(candidate, {"gate": rejected.gate, "told": told})
    if live is None:
        return _waiting(candidate, bench.asking())
    passed = await anyio.to_thread.run_sync(partial(_passed, bench, candidate))
    return _told(live, before, candidate) | passed


def _passed(bench: Bench, candidate: Candidate) -> dict[str, Any]:
    """The gates, and of recorded calls only that they are no reason against it.

    Other people made them: how a candidate answers them, and with how much fuel, it could choose by what they asked.
    """
    verdicts = [verdict for verdict in bench.store.verdicts(candidate.number) if verdict.passed]
    told: dict[str, Any] = {"gates": [verdict.gate for verdict in verdicts]}
    if any(verdict.gate == "replay" and verdict.problems for verdict in verdicts):
        more = f"the operator sees more: rho-wasm recordings replay --against {candidate.number}"
        told["replayed"] = f"no recorded call that worked rejects it; {more}"
    return told


def _told(live: Generation, before: Generation, candidate: Candidate) -> dict[str, Any]:
    told: dict[str, Any] = {"status": "live", "generation": live.number, "before": before.number}
    changes = candidate.changes.as_json()
    told |= {kind: names for kind, names in changes.items() if names}
    if any(changes.values()):
        told["next"] = "your list of tools has changed: call them by their names"
    else:
        told["next"] = "nothing changed: what was live is the same"
    return told


def _waiting(candidate: Candidate, waits_for: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "status": "waiting",
        "candidate": candidate.number,
        **waits_for,
        "next": (
            "nothing is known against it, and it is not live yet: go on with other work, and call switch_tools with "
            f'{{"candidate": {candidate.number}}} again later'
        ),
    }
