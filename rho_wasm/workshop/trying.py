"""One call of a tool that is tried: in the sandbox, with nothing granted, counted nowhere."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.examples import same
from rho_wasm.dynamic.generation import ToolVersion
from rho_wasm.dynamic.handler import effective_limits
from rho_wasm.envelope import BadAnswer, Raised, answer_of, read_answer
from rho_wasm.errors import CapabilityError, NameInvalid, PlainError, ToolError
from rho_wasm.frozen import thaw
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import ToolDeclaration
from rho_wasm.plain import encode
from rho_wasm.policy import Policy
from rho_wasm.repair import TooMuch, repaired
from rho_wasm.results import KINDS, Failed, HandlerResult, Ok
from rho_wasm.sandbox import GuestModule, Sandbox
from rho_wasm.schema_cache import compiled_schema
from rho_wasm.trace_lines import both_ends, with_texts
from rho_wasm.untrusted import inert
from rho_wasm.workshop.hints import call_hint
from rho_wasm.workshop.telling import shown

__all__ = ["ANSWERS", "Case", "Tried", "trial"]

ANSWERS = ("ok", "error", "raised", "ask_user", "halt")
"""What a map has one of that is a whole answer; any other value is what ``ok`` holds."""

_LOG_LINES, _FRAMES, _ASKED = 20, 12, 20
_LINE_CHARS, _DETAIL_CHARS = 300, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Arguments, the answer that they should have (an answer map; None: any), and what the host replies meanwhile."""

    arguments: Mapping[str, Any]
    expect: Mapping[str, Any] | None = None
    host: Sequence[Mapping[str, Any]] = ()
    """Each has ``capability``, ``arguments`` (left out: any) and ``reply`` (``{"ok": ...}`` or ``{"error": ...}``)."""
    exact: bool = False
    """Asked and judged as the gate does it with examples: the arguments as they are, the answer as a whole."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Case:
        """A case as a model writes it. Raises :class:`Failed` for an expectation that no tool can meet."""
        expect = given.get("expect")
        if "expect" in given and not _is_answer(expect):
            expect = {"ok": expect}
        if expect is not None:
            try:
                read_answer(expect, limits=Limits())
            except BadAnswer as error:
                raise Failed(f"expect is no answer of a tool: {error.detail}") from None
            except Raised:
                pass
        return cls(arguments=given.get("arguments", {}), expect=expect, host=given.get("host", ()))


def _is_answer(value: Any) -> bool:
    return type(value) is dict and any(key in value for key in ANSWERS)


@dataclass(frozen=True, slots=True)
class Tried:
    """How one case ended. ``passed`` is None where nothing was expected and the tool did not crash."""

    passed: bool | None
    told: dict[str, Any] = field(repr=False)


class Trial:
    """A tool that is loaded to be tried."""

    def __init__(
        self,
        sandbox: Sandbox,
        module: GuestModule,
        declaration: ToolDeclaration,
        limits: Limits,
        *,
        language: str | None,
        source: str | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._module = module
        self._declaration = declaration
        self._limits = limits
        self._language = language
        self._source = source

    async def run(self, case: Case) -> Tried:
        """Runs one case. Raises :class:`ToolError` only where the host itself could not."""
        given, problems, told = await anyio.to_thread.run_sync(self._looked_at, case)
        if problems:
            return Tried(False, told | {"refused": "invalid_arguments", "problems": list(problems)})
        host = _ToldHost(case.host)
        meter = CallMeter(CallClock(self._limits.deadline_ms))
        began = time.perf_counter()
        result: HandlerResult | ToolError
        try:
            result = await self._sandbox.call(
                self._module,
                tool=self._declaration.name,
                arguments=given,
                context={} if case.exact else {"call_id": "test"},
                limits=self._limits,
                meter=meter,
                capabilities=host,
            )
        except ToolError as error:
            if KINDS[error.reason] == "host":
                raise
            result = error
        took = round((time.perf_counter() - began) * 1000, 1)
        # What a guest answers may be large, and calls of tools go on meanwhile.
        passed, answer = await anyio.to_thread.run_sync(_judged_and_shown, result, case, self._source)
        if isinstance(result, ToolError) and (hint := call_hint(result.reason, result.detail, self._language)):
            answer["hint"] = hint
        told |= answer | {"fuel_used": meter.fuel_used, "duration_ms": took}
        if meter.log.lines:
            told["log"] = [inert(line.text, limit=_LINE_CHARS) for line in meter.log.lines[:_LOG_LINES]]
        if host.asked:
            told["host_calls"] = host.asked
        return Tried(passed, told)

    def _looked_at(self, case: Case) -> tuple[dict[str, Any], Sequence[str], dict[str, Any]]:
        """The arguments, mended as those of a call would be, what it would be refused for, and how they are shown.

        Those of an example stay as they are, and are refused for their size alone.
        """
        told = {"arguments": shown(case.arguments)}
        given = thaw(case.arguments)
        try:
            encode(given, max_bytes=self._limits.request_bytes)
        except PlainError as error:
            return given, (inert(str(error), limit=_LINE_CHARS),), told
        schema = compiled_schema(self._declaration.input_schema)
        if case.exact or not (problems := schema.problems(given)):
            return given, (), told
        try:
            found = repaired(given, self._declaration.input_schema, reads_only=self._declaration.read_only is True)
        except TooMuch:
            found = None
        if found is None or schema.problems(found[0]):
            return given, problems, told
        return found[0], (), told | {"arguments_repaired": [inert(note, limit=_LINE_CHARS) for note in found[1]]}


@asynccontextmanager
async def trial(
    sandbox: Sandbox, artifact: Artifact, tool: str, *, policy: Policy, limits: HostLimits
) -> AsyncIterator[Trial]:
    """``tool`` of ``artifact``, loaded for as long as the block lasts, within the bounds that its calls would have.

    Raises :class:`ModuleRejected`, and :class:`NameInvalid` where the artifact has no such tool.
    """
    declaration = artifact.manifest.tool(tool)
    if declaration is None:
        raise NameInvalid(tool, f"there are {', '.join(artifact.tools[:8])} in it")
    module = await sandbox.load(artifact.wasm)
    try:
        base = limits.call_of(image=module.manifest.is_image, standalone=module.standalone)
        bounds = effective_limits(declaration, ToolVersion(artifact.sha256), policy=policy, limits=base)
        language = artifact.language or artifact.manifest.language
        yield Trial(sandbox, module, declaration, bounds, language=language, source=artifact.source)
    finally:
        module.close()


def _judged_and_shown(
    result: HandlerResult | ToolError, case: Case, source: str | None
) -> tuple[bool | None, dict[str, Any]]:
    told = _answered(result, source)
    passed = _judged(result, case)
    if passed is False and case.expect is not None:
        told["expected"] = shown(case.expect)
    return passed, told


def _answered(result: HandlerResult | ToolError, source: str | None) -> dict[str, Any]:
    if isinstance(result, ToolError):
        bound = {} if result.limit is None else {"limit": f"{result.limit}={result.value}"}
        crash = {"crashed": result.reason, "message": inert(result.detail, limit=_DETAIL_CHARS), **bound}
        frames = [inert(frame, limit=_LINE_CHARS) for frame in with_texts(both_ends(result.backtrace, _FRAMES), source)]
        return crash | ({"backtrace": frames} if frames else {})
    answer = answer_of(result)
    images = answer.pop("images", ())
    told = {"answer": shown(answer)}
    return told | ({"images": [f"{each['mime_type']}, {len(each['data'])} bytes" for each in images]} if images else {})


def _judged(result: HandlerResult | ToolError, case: Case) -> bool | None:
    """Whether it is what was expected. A crash is never, but where one was."""
    expect = case.expect
    if isinstance(result, ToolError):
        raised = None if expect is None else expect.get("raised")
        return raised is not None and result.reason == "handler_raised" and raised["message"] in result.detail
    if expect is None:
        return None
    if "raised" in expect:
        return False
    got = answer_of(result)
    # What an expectation does not speak of, it leaves open; as a whole answer it would have to name each image.
    if not case.exact and isinstance(result, Ok | Failed):
        got = {key: value for key, value in got.items() if key in expect or key in ("ok", "error")}
    return same(got, answer_of(read_answer(thaw(expect), limits=Limits())))


class _ToldHost:
    """Answers a guest's host calls from what a test says; any other is denied, and told."""

    clock_ns = None
    seed = None

    def __init__(self, replies: Sequence[Mapping[str, Any]]) -> None:
        self._replies = [thaw(each) for each in replies]
        self.asked: list[dict[str, Any]] = []

    def answer_now(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        replies = enumerate(self._replies)
        place = next((at for at, each in replies if _answers(each, capability, arguments)), None)
        if len(self.asked) < _ASKED:
            asked = {"capability": inert(capability, limit=_LINE_CHARS), "arguments": shown(arguments)}
            self.asked.append(asked | {"answered": place is not None})
        if place is None:
            raise CapabilityError(
                "denied", "a test grants nothing: give the reply to this host call in host", capability=capability
            )
        reply = self._replies.pop(place)["reply"]
        if type(reply) is dict and reply.keys() == {"error"} and type(reply["error"]) is dict:
            kind, message = (reply["error"].get(key) for key in ("kind", "message"))
            raise CapabilityError(
                kind if type(kind) is str else "unavailable",
                inert(message, limit=_DETAIL_CHARS) if type(message) is str else "",
                capability=capability,
            )
        return reply["ok"] if type(reply) is dict and reply.keys() == {"ok"} else reply

    async def answer(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        return self.answer_now(capability, arguments, remaining_ms=remaining_ms)


def _answers(reply: Mapping[str, Any], capability: str, arguments: dict[str, Any]) -> bool:
    if reply["capability"] != capability:
        return False
    return "arguments" not in reply or same(reply["arguments"], arguments)
