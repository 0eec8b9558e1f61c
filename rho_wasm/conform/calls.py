"""The clauses that are seen in calls: of each tool as its schema takes them, then of what no host sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio.to_thread

from rho_wasm import plain
from rho_wasm.conform.answers import ToolAnswers
from rho_wasm.conform.arguments import EVERY_PLANE, ToolArguments, nested
from rho_wasm.conform.floats import FLOATS, check_floats
from rho_wasm.conform.judge import judge
from rho_wasm.conform.probe import Ended, OutOfTime, Probe
from rho_wasm.conform.report import Findings
from rho_wasm.conform.requests import request
from rho_wasm.conform.static import CALLED
from rho_wasm.dynamic.examples import example_problem
from rho_wasm.errors import PlainError, ToolError
from rho_wasm.frozen import thaw
from rho_wasm.limits import Limits
from rho_wasm.manifest import ToolDeclaration
from rho_wasm.sandbox import GuestModule, Sandbox
from rho_wasm.sandbox.abi import ALLOC, PAGE_BYTES

__all__ = ["MOST_TOOLS", "check_calls"]

MOST_TOOLS: Final = 16
"""Tools of one module that are called: the first ones of its manifest."""

_FRAME_BYTES: Final = 256
_NO_TOOL: Final = "no_such_tool"
_GROWN_PAGES: Final = (0, 1, 2, 4, 8, 16, 32)
_MEETS_A_LIMIT: Final = frozenset({"out_of_fuel", "deadline", "out_of_memory"})
"""How a call may end that asks for much."""
_NO_OCCASION: Final[Mapping[str, str]] = {
    "log.text": "no call logged anything",
    "host_call.": "no call asked the host for anything",
    "answer.images": "no answer held images",
    "answer.output_schema": "no answer was ok of a tool that declares an output_schema",
    "examples.answered": "no tool has examples",
}
"""Why a clause, or those that begin so, may not be met in calls that were all made."""
_MALFORMED: Final[Mapping[str, bytes]] = {
    "nothing": b"",
    "a number": b"\x01",
    "a request cut short": b"\xa4\x63abi\x01\x64tool",
    "a length beyond the end": b"\xbb" + b"\xff" * 8,
    "a list of 2^32 items": b"\x9a\xff\xff\xff\xff",
    "an indefinite length": b"\xbf\xff",
    "a tag": b"\xc1\x00",
    "undefined": b"\xf7",
    "100,000 lists in one another": b"\x81" * 100_000 + b"\x00",
}


async def check_calls(
    sandbox: Sandbox,
    module: GuestModule,
    probe: Probe,
    found: Findings,
    *,
    memory_bytes: int,
    progress: Callable[[str], None],
) -> None:
    """Tells ``found`` of the clauses in :data:`CALLED`. ``memory_bytes`` is what the module starts with.

    ``progress`` hears what is done next; names of tools are in it.
    """
    checks = _Checks(sandbox, module, probe, found, memory_bytes=memory_bytes)
    answered: tuple[ToolDeclaration, dict[str, Any]] | None = None
    try:
        tools = module.manifest.tools[:MOST_TOOLS]
        for number, tool in enumerate(tools, 1):
            progress(f"calling {tool.name} ({number} of {len(tools)})")
            arguments = await checks.tool(tool)
            if answered is None and arguments is not None:
                answered = tool, arguments
        if answered is not None:
            progress(f"sending {answered[0].name} what no host sends")
            await checks.strange_requests(answered[0].name, answered[1])
    except OutOfTime:
        found.skipped(CALLED, "not looked at: the calls before took too long together")
    if (failed := found.first_failure(CALLED)) is not None and answered is None:
        found.skipped(CALLED, f"not looked at: {failed} failed first")
    for start, why in _NO_OCCASION.items():
        found.skipped((clause for clause in CALLED if clause.startswith(start)), why)


class _Checks:
    def __init__(
        self, sandbox: Sandbox, module: GuestModule, probe: Probe, found: Findings, *, memory_bytes: int
    ) -> None:
        self._sandbox = sandbox
        self._module = module
        self._probe = probe
        self._found = found
        self._memory_bytes = memory_bytes
        more = len(module.manifest.tools) > MOST_TOOLS
        self._note = f"only the first {MOST_TOOLS} tools were called" if more else ""

    async def tool(self, tool: ToolDeclaration) -> dict[str, Any] | None:
        """All of one tool. Its least arguments, if they end in an answer."""
        with self._probe.timed():
            schema, examples = thaw(tool.input_schema), tuple(thaw(example.arguments) for example in tool.examples)
            arguments = await anyio.to_thread.run_sync(ToolArguments, schema, examples)
        answers, answered = ToolAnswers(tool, self._probe, self._found), True
        if arguments.least is not None:
            answered = await self._least(tool.name, arguments.least, answers)
        await self._examples(tool, answers)
        if arguments.least is None:
            why = f"{tool.name} is not called: {arguments.why_none}; give it an example"
            self._found.skipped((clause for clause in CALLED if clause != "examples.answered"), why)
        if arguments.least is None or not answered:
            return None
        await self._much(tool.name, arguments, answers)
        await self._floats(tool.name, arguments, answers)
        answers.together()
        return arguments.least

    async def _least(self, tool: str, arguments: dict[str, Any], answers: ToolAnswers) -> bool:
        """What is least asked for: whether it is answered, again, with less of everything, and with more keys."""
        asked = f"{tool} with the least arguments"
        data = request(tool, arguments)
        first = await self._probe.send(data)
        failures = self._found.failures
        answered = judge(first, asked, self._found)
        for reason, clause in (("out_of_fuel", "limits.fuel"), ("deadline", "limits.deadline")):
            if first.kind == reason:
                self._found.failed(clause, f"{asked}: {first.why}")
            elif answered:
                self._found.passed(clause)
        if answered:
            self._found.passed("calls.answered", self._note)
        elif self._found.failures > failures:
            self._found.skipped(["calls.answered"], f"{asked}: {first.why}, which is another clause's")
        else:
            self._found.failed("calls.answered", f"{asked}: {first.why}; answer error or raised instead")
        if not answered:
            return False
        await answers.call(first, asked)
        again = await self._probe.send(data)
        self._same(first, again, "calls.repeatable", f"{asked}, called again")
        await self._unknown_keys(tool, arguments, first)
        await self._without_memory(data, first, asked)
        await self._hurried(data, first, asked)
        return True

    async def _unknown_keys(self, tool: str, arguments: dict[str, Any], first: Ended) -> None:
        # What is drawn from the request for chance differs, so the answer may: only how it ends is compared.
        more = request(tool, arguments, later={"tool": "other"}, context={"later": [1], "values": {"a": 1}})
        ended = await self._probe.send(more)
        if ended.kind == first.kind:
            self._found.passed("request.unknown_keys")
        else:
            why = f"{tool} ends in {ended.why or ended.kind}, without them in {first.kind}; ignore what is not known"
            self._found.failed("request.unknown_keys", why)

    async def _without_memory(self, data: bytes, first: Ended, asked: str) -> None:
        """The call with the memory that it starts with, and a little more: another answer is a wrong one."""
        for pages in _GROWN_PAGES:
            limit = min(self._memory_bytes + pages * PAGE_BYTES, self._probe.limits.memory_bytes)
            ended = await self._probe.send(data, limits=self._limits(memory_bytes=limit))
            told = f"{asked} in {limit:,} bytes of memory"
            if ended.answer == first.answer:
                self._found.passed("memory.exhausted")
                break
            if ended.stage == ALLOC and ended.kind == "bad_answer":
                self._found.failed("alloc.zero", f"{told}: {ended.why}; answer 0 where memory.grow answers -1")
            elif ended.kind in ("ok", "ask_user", "halt", "bad_answer"):
                wrong = ended.why or f"another answer, {ended.kind}"
                self._found.failed(
                    "memory.exhausted", f"{told}: {wrong}; trap, or answer raised, where memory is refused"
                )
            else:
                self._found.passed("memory.exhausted")

    async def _hurried(self, data: bytes, first: Ended, asked: str) -> None:
        """The call with half the fuel that it takes, and with a deadline that is nearly over."""
        for clause, limits in (
            ("limits.fuel", self._limits(fuel=max(1, first.fuel_used // 2))),
            ("limits.deadline", self._limits(deadline_ms=1)),
        ):
            ended = await self._probe.send(data, limits=limits)
            if ended.answer != first.answer and ended.kind not in _MEETS_A_LIMIT:
                self._found.failed(clause, f"{asked}, with less of it: {ended.why or 'another answer'}")

    async def _examples(self, tool: ToolDeclaration, answers: ToolAnswers) -> None:
        await answers.of_examples()
        for number, example in enumerate(tool.examples, 1):
            try:
                with self._probe.timed():
                    problem = await example_problem(
                        self._sandbox, self._module, tool.name, example, number=number, limits=self._probe.limits
                    )
            except ToolError as error:
                self._found.skipped(["examples.answered"], f"the host could not run it: {error}")
                return
            if problem is None:
                self._found.passed("examples.answered")
                answers.example_kept(example.answer)
            else:
                self._found.failed("examples.answered", problem)

    async def _floats(self, tool: str, arguments: ToolArguments, answers: ToolAnswers) -> None:
        with self._probe.timed():
            place = await anyio.to_thread.run_sync(arguments.with_fraction)
        if place is None:
            self._found.skipped([FLOATS], f"the schema of {tool} takes no number with a fraction")
        else:
            await check_floats(self._probe, tool, place, self._found, answers)

    async def _much(self, tool: str, arguments: ToolArguments, answers: ToolAnswers) -> None:
        limits = self._probe.limits
        room = (
            limits.request_bytes
            - _FRAME_BYTES
            - len(plain.encode(arguments.least or {}, max_bytes=limits.request_bytes))
        )
        for clause, value, kind, what in (
            ("plain.texts", EVERY_PLANE, "string", "text of every plane"),
            ("plain.depth", nested(limits.depth - 2), "array", "arguments at the limit of depth"),
            ("plain.items", [0] * (limits.items - 64), "array", f"a list of {limits.items - 64:,} items"),
            ("plain.large", "x" * max(room, 0), "string", f"a text of {max(room, 0):,} bytes"),
        ):
            with self._probe.timed():
                made = await anyio.to_thread.run_sync(arguments.with_value, value, kind)
            if made is None:
                room_too = ("alloc.large", "alloc.zero") if clause == "plain.large" else ()
                self._found.skipped([clause, *room_too], f"the schema of {tool} takes no such arguments")
                continue
            await self._one_of_much(clause, tool, made, what, answers)

    async def _one_of_much(
        self, clause: str, tool: str, arguments: dict[str, Any], what: str, answers: ToolAnswers
    ) -> None:
        try:
            data = request(tool, arguments)
        except PlainError:
            self._found.skipped([clause], "the least arguments leave no room for it")
            return
        asked = f"{tool} with {what}"
        large = clause in ("plain.large", "plain.items")
        ended = await self._probe.send(data)
        answered = judge(ended, asked, self._found, large=large)
        await answers.call(ended, asked)
        if large and ended.stage == ALLOC:
            self._found.skipped([clause, "alloc.zero"], f"rho_alloc has no room for {what}")
            if ended.kind == "out_of_memory":
                self._found.passed("alloc.large", "it answers 0")
            else:
                self._found.failed("alloc.large", f"{asked}: {ended.why}; answer 0 where there is no room")
        elif large:
            self._found.passed("alloc.large")
            await self._no_room(data, asked)
        if answered or (large and ended.kind in _MEETS_A_LIMIT):
            self._found.passed(clause, "" if answered else f"{asked} meets a limit: {ended.kind}")
        elif ended.stage != ALLOC and ended.kind != "bad_answer":
            self._found.failed(clause, f"{asked}: {ended.why}")

    async def _no_room(self, data: bytes, asked: str) -> None:
        """A large request, where memory cannot grow at all."""
        limit = min(self._memory_bytes, self._probe.limits.memory_bytes)
        ended = await self._probe.send(data, limits=self._limits(memory_bytes=limit))
        if ended.stage == ALLOC and ended.kind == "bad_answer":
            self._found.failed("alloc.zero", f"{asked}, where memory cannot grow: {ended.why}; answer 0 there")
        else:
            self._found.passed("alloc.zero")

    async def strange_requests(self, tool: str, arguments: dict[str, Any]) -> None:
        """What a host never sends. A guest that answers it well would answer anything well."""
        proper = request(tool, arguments)
        strange = {
            "request.unknown_tool": {f"the tool {_NO_TOOL}": request(_NO_TOOL, arguments)},
            "request.abi": {"ABI 2": request(tool, arguments, abi=2)},
            "request.malformed": dict(_MALFORMED)
            | {"something after the request": proper + b"\x00", "a key twice": b"\xa5" + proper[1:] + b"\x63abi\x01"},
        }
        for clause, requests in strange.items():
            for what, data in requests.items():
                ended = await self._probe.send(data)
                if ended.kind in ("ok", "ask_user", "halt"):
                    self._found.failed(clause, f"{what}: the answer was {ended.kind}; answer raised")
                    break
            else:
                self._found.passed(clause)

    def _same(self, first: Ended, second: Ended, clause: str, asked: str) -> None:
        if first.answer == second.answer:
            self._found.passed(clause)
        else:
            self._found.failed(clause, f"{asked}: another answer")

    def _limits(self, **lower: int) -> Limits:
        return self._probe.limits.lowest(lower)
