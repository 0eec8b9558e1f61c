"""``write_tool``: builds a source in the sandbox and stages what it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from rho_wasm.calls import ToolContext
from rho_wasm.dynamic.generation import Candidate
from rho_wasm.errors import BuildError, RhoError
from rho_wasm.grants import BOUNDS
from rho_wasm.results import Failed, Ok
from rho_wasm.toolchains import tinycc
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert
from rho_wasm.workshop import schemas
from rho_wasm.workshop.asked import asked_for, check_schemas, no_capability
from rho_wasm.workshop.bench import Bench
from rho_wasm.workshop.building import Asked, Built, built
from rho_wasm.workshop.hints import NETWORK
from rho_wasm.workshop.idioms import IDIOMS
from rho_wasm.workshop.places import Place
from rho_wasm.workshop.rates import Taken
from rho_wasm.workshop.telling import refusal, shown, told_build_error
from rho_wasm.workshop.trying import Case, trial

__all__ = ["write_tool"]

TIMEOUT_MS = 300_000
"""An interpreter that is made at its first use takes most of a minute, a native compiler too."""
_CHEAP_S = 1.0
"""What is refused within it took nothing of what others have: a source with a slip in it, mostly."""
_FAILED_SHOWN = 4
_NOTE_CHARS = 1_000
_SCHEMA = (
    "JSON Schema of its arguments, unless the source says it: "
    '{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}.'
)
_NOT_GRANTED = "not granted here: such a call answers denied"


def write_tool(bench: Bench) -> Tool:
    """The tool. What it is given is only ever built and run inside the sandbox, or by a compiler that is confined."""

    async def write(arguments: Mapping[str, Any], context: ToolContext) -> Ok | Failed:
        asked = asked_for(arguments, bench)
        try:
            return Ok(await _written(bench, asked, context))
        except BuildError as error:
            return told_build_error(error, source=asked.source, language=asked.language, name=asked.name)
        except RhoError as error:
            return refusal(error, f"{inert(asked.name, limit=100)} was not written")

    return Tool(
        name="write_tool",
        description=_description(bench),
        input_schema=schemas.arguments(
            {
                "language": {
                    "type": "string",
                    "maxLength": 64,
                    "description": f"One of: {', '.join(bench.languages)}.",
                },
                "source": {"type": "string", "minLength": 1, "description": "The whole file."},
                "name": {**schemas.TOOL_NAME, "description": "Of the tool, and of its function."},
                "description": {"type": "string", "maxLength": 4_096, "description": "Unless the source says it."},
                "schema": {"type": "object", "description": _SCHEMA},
                "examples": {
                    "type": "array",
                    "items": schemas.arguments(
                        {
                            "arguments": {"type": "object"},
                            "answer": {"description": 'A value, or a whole answer such as {"error": "reason"}.'},
                            "host": schemas.host_replies(exact=True),
                        },
                        "arguments",
                        "answer",
                    ),
                    "description": "Calls and what they must answer: asked now, and before a switch.",
                },
                "capabilities": {
                    "type": "array",
                    "maxItems": 16,
                    "items": {"type": "string", "maxLength": 128},
                    "description": (
                        "What it may ask of the host, as far as the policy grants it: "
                        f"{', '.join(BOUNDS)}, or what the host has of its own."
                    ),
                },
            },
            "language",
            "source",
            "name",
        ),
        read_only=False,
        destructive=False,
        idempotent=False,
        timeout_ms=TIMEOUT_MS,
        handler=write,
    )


async def _written(bench: Bench, asked: Asked, context: ToolContext) -> dict[str, Any]:
    """What is told of the candidate that it became. Names are looked at before anything costs anything."""
    bench.check_name(asked.name, context)
    foreign = await bench.foreign(context)
    bench.check_own([asked.name], foreign)
    limits = bench.limits
    builds = bench.take("builds", context, most=limits.builds_per_hour, of_all=limits.builds_per_hour_of_all)
    async with AsyncExitStack() as held:
        with builds:
            place = await held.enter_async_context(bench.places.one(context.session_id))
        made = await _build(bench, asked, builds)
        for name in made.artifact.tools:
            bench.check_name(name, context)
        bench.check_own(made.artifact.tools, foreign)
        check_schemas(made.artifact.manifest.tools)
        bench.declared.check_one(made.artifact.manifest.tools)
        tried = await _examples(bench, made, asked.name, context, place)
        candidate = await bench.stage([made.artifact], (), context, note=f"write_tool {asked.name}")
    return _told(bench, made, candidate, tried, asked.name)


async def _build(bench: Bench, asked: Asked, builds: Taken) -> Built:
    began = bench.rates.clock()
    try:
        return await built(asked, bench.images, host_limits=bench.host_limits, tinycc=tinycc.is_installed())
    except BuildError:
        if bench.rates.clock() - began < _CHEAP_S:
            builds.give_back(own=False)
        raise


def _description(bench: Bench) -> str:
    text = (
        "Writes a tool: builds its source in a sandbox and stages it as a candidate, which nobody can call yet. Try it "
        "with test_tool, then switch_tools makes it one of your tools. Writing a name again replaces your own tool of "
        "that name. A tool has no files, network or clock but by capabilities; each call begins as the source was "
        "loaded. What the caller can mend is answered as a failure; anything else that is raised counts as a crash."
    )
    language = next((each for each in bench.languages if each in IDIOMS and each != "wat"), None)
    if language is None:
        return text
    if language in NETWORK:
        text += f" The network, for example, is {NETWORK[language]}."
    return f"{text} In {language}, for example:\n{IDIOMS[language]}"


async def _examples(bench: Bench, made: Built, name: str, context: ToolContext, place: Place) -> dict[str, Any]:
    """How the examples of ``name`` came out, those of the source and those of the call."""
    declaration = made.artifact.manifest.tool(name)
    assert declaration is not None, "a build without the tool that was asked for is an error"
    given = [each.as_plain() for each in declaration.examples][: bench.limits.examples]
    if not given:
        return {}
    limits = bench.limits
    bench.take("test cases", context, most=limits.cases_per_hour, of_all=limits.cases_per_hour_of_all, times=len(given))
    failed: list[dict[str, Any]] = []
    passed = 0
    async with trial(bench.sandbox, made.artifact, name, policy=bench.policy, limits=bench.host_limits) as trying:
        for example in given:
            await place.pause()
            host = [{**request, "reply": reply} for request, reply in example.get("host", ())]
            case = Case(arguments=example["arguments"], expect=example["answer"], host=host, exact=True)
            tried = await trying.run(case)
            passed += tried.passed is True
            if tried.passed is not True and len(failed) < _FAILED_SHOWN:
                failed.append(tried.told)
    return {"passed": passed, "of": len(given)} | ({"failed": failed} if failed else {})


def _told(bench: Bench, made: Built, candidate: Candidate, tried: Mapping[str, Any], name: str) -> dict[str, Any]:
    artifact = made.artifact
    tools = [
        {"name": each.name, "description": inert(each.description, limit=500, newlines=True)}
        | {"input_schema": shown(each.input_schema)}
        for each in artifact.manifest.tools
    ]
    told: dict[str, Any] = {"candidate": candidate.number, "tools": tools}
    if artifact.manifest.capabilities:
        granted = {grant.capability for grant in candidate.tools[name].grants}
        told["capabilities"] = {
            inert(each, limit=128): "granted" if each in granted else no_capability(each) or _NOT_GRANTED
            for each in artifact.manifest.capabilities
        }
    if tried:
        told["examples"] = dict(tried)
    warnings = [inert(line, limit=300) for line in artifact.log.splitlines()[:8] if line.strip()]
    warnings += [inert(note, limit=_NOTE_CHARS, newlines=True) for note in made.notes]
    warnings += [
        f"{each.name} has no description, so no model knows what it is for: say it in the source, or give description"
        for each in artifact.manifest.tools
        if not each.description.strip()
    ]
    if warnings:
        told["warnings"] = warnings
    if made.added is not None:
        told["added_to_the_source"] = inert(made.added, limit=_NOTE_CHARS, newlines=True)
    told["gates"] = bench.gates()
    if "failed" in tried:
        told["next"] = "examples fail, so the gate would reject it: mend the source and write it again"
    else:
        told["next"] = (
            f'test_tool with {{"name": "{name}"}}, then switch_tools with {{"candidate": {candidate.number}}}'
        )
    return told
