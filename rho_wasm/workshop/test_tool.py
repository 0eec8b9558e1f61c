"""``test_tool``: calls a candidate, or a live tool, in the sandbox with nothing granted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import anyio.to_thread

from rho_wasm.calls import ToolContext
from rho_wasm.dynamic.generation import Candidate, Generation
from rho_wasm.errors import RhoError
from rho_wasm.results import Failed, Ok
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert
from rho_wasm.workshop import schemas
from rho_wasm.workshop.bench import Bench
from rho_wasm.workshop.telling import refusal
from rho_wasm.workshop.trying import Case, trial

__all__ = ["chosen", "test_tool"]

TIMEOUT_MS = 180_000
_NAMES = 20
_NOTHING_EXPECTED = {"checked": "no: nothing was expected of it; expect says what it must answer"}
_CASE = ("arguments", "expect", "host")
_REPLY = ("capability", "arguments", "reply")
_SAME = "answer"
"""As an example of ``write_tool`` has what a case expects: whoever copies one must not test nothing."""


def test_tool(bench: Bench) -> Tool:
    """The tool. What it runs strikes nothing and is recorded nowhere."""

    async def test(arguments: Mapping[str, Any], context: ToolContext) -> Ok | Failed:
        cases = _cases(arguments, bench)
        limits = bench.limits
        taken = bench.take(
            "test cases", context, most=limits.cases_per_hour, of_all=limits.cases_per_hour_of_all, times=len(cases)
        )
        name = arguments["name"]
        async with AsyncExitStack() as held:
            try:
                with taken:
                    place = await held.enter_async_context(bench.places.one(context.session_id))
                    generation = await chosen(bench, name, arguments.get("candidate"), context)
                    artifact = await bench.artifact(generation, name)
                told: list[dict[str, Any]] = []
                passed: list[bool | None] = []
                async with trial(
                    bench.sandbox, artifact, name, policy=bench.policy, limits=bench.host_limits
                ) as trying:
                    for number, case in enumerate(cases):
                        if number:
                            await place.pause()
                        tried = await trying.run(case)
                        passed.append(tried.passed)
                        judged = _NOTHING_EXPECTED if tried.passed is None else {"passed": tried.passed}
                        told.append({**judged, **tried.told})
            except RhoError as error:
                return refusal(error, f"{inert(name, limit=100)} was not tested")
        answer = {"tool": name, "tested": f"{_what(generation)} {generation.number}", "cases": told}
        if False in passed:
            failed = passed.count(False)
            return Failed(answer | {"failed": failed, "of": len(cases)}, details={"reason": "test_failed"})
        return Ok(answer)

    case = schemas.case(bench.limits)
    return Tool(
        name="test_tool",
        description=(
            "Calls one of your tools in a sandbox, before it is switched on or after: nothing is granted and nothing "
            "is counted. Tells answer or fault with its lines, log, fuel and host calls. Without candidate: your "
            "latest candidate with that tool, else the live one. Several calls at once: cases."
        ),
        input_schema=schemas.open_arguments(
            {
                "name": schemas.TOOL_NAME,
                "candidate": schemas.CANDIDATE,
                **case,
                "cases": {
                    "type": "array",
                    "minItems": 1,
                    "items": schemas.open_arguments(case),
                    "description": "In place of arguments, expect and host.",
                },
            },
            "name",
        ),
        read_only=True,
        idempotent=True,
        timeout_ms=TIMEOUT_MS,
        handler=test,
    )


async def chosen(bench: Bench, name: str, number: int | None, context: ToolContext) -> Generation:
    """The candidate of that number; without one the latest of this session's that brings ``name``, else the live one;
    where that has no such tool, the latest open one that this session may change, as after a new connection.

    Raises :class:`Failed` where there is none.
    """
    if number is not None:
        found: Generation = await bench.candidate(int(number), context)
        if name in found.tools:
            return found
        raise _without(found, name, ())
    author = bench.authors.of(context.session_id)
    seen = await bench.candidates(context)
    brings = [each for each in seen if name in (*each.changes.added, *each.changes.changed)]
    own = [each for each in brings if each.author == author]
    live = bench.source.live()
    if own or (brings and name not in live.tools):
        return (own or brings)[0]
    if name in live.tools:
        return live
    for held in reversed(bench.source.held(name)):
        # What was withdrawn can still be read and tried: else nobody could mend it.
        withdrawn = await anyio.to_thread.run_sync(bench.store.generation, held.generation)
        if name in withdrawn.tools:
            return withdrawn
    raise _without(live, name, seen)


def _without(generation: Generation, name: str, candidates: Sequence[Candidate]) -> Failed:
    there = ", ".join(sorted(generation.tools)[:_NAMES]) or "none"
    said = f"{_what(generation)} {generation.number} has no tool '{inert(name, limit=100)}'; it has: {there}"
    brought = [(tool, each.number) for each in candidates for tool in (*each.changes.added, *each.changes.changed)]
    if brought:
        said += "; open candidates bring: " + ", ".join(f"{tool} ({number})" for tool, number in brought[:_NAMES])
    return Failed(said, details={"reason": "not_found"})


def _what(generation: Generation) -> str:
    if generation.state == "candidate":
        return "candidate"
    return "live generation" if generation.state == "live" else "earlier generation"


def _cases(arguments: Mapping[str, Any], bench: Bench) -> list[Case]:
    """Raises :class:`Failed` for none that can be run, and for a key that nobody knows: it says what is not checked."""
    if "cases" not in arguments:
        case = {key: value for key, value in arguments.items() if key not in ("name", "candidate")}
        return [_case(case, "test_tool", also=("name", "candidate", "cases"))]
    if both := [key for key in arguments if key not in ("name", "candidate", "cases")]:
        raise Failed(
            f"say {inert(both[0], limit=64)} inside each of the cases, or leave cases out",
            details={"reason": "two_ways"},
        )
    cases = arguments["cases"]
    if len(cases) > bench.limits.cases:
        raise Failed(
            f"{len(cases)} cases, of {bench.limits.cases} that may be at once",
            details={"reason": "too_many_cases", "limit": bench.limits.cases},
        )
    return [_case(case, f"cases[{number}]") for number, case in enumerate(cases)]


def _case(given: Mapping[str, Any], where: str, *, also: Sequence[str] = ()) -> Case:
    if _SAME in given:
        if "expect" in given:
            raise Failed(f"{where}: say expect or {_SAME}, not both", details={"reason": "two_ways"})
        given = {"expect" if key == _SAME else key: value for key, value in given.items()}
    _check_keys(given, where, (*also, *_CASE))
    for number, reply in enumerate(given.get("host", ())):
        _check_keys(reply, f"{where}: host[{number}]", _REPLY)
    return Case.of(given)


def _check_keys(given: Mapping[str, Any], where: str, known: Sequence[str]) -> None:
    if unknown := [key for key in given if key not in known]:
        shown = inert(unknown[0], limit=64)
        raise Failed(
            f"{where} has no {shown!r}, so nothing was tested: it has {', '.join(known)}"
            + (", and expect is what it must answer" if "expect" in known else ""),
            details={"reason": "unknown_key", "key": shown},
        )
