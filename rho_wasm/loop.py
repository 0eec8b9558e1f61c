"""From a model's calls to their results and back to the model, until it has none: manual tools, questions, halts."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import anyio.lowlevel

from rho_wasm.calls import ToolCall
from rho_wasm.errors import PlainError, ToolError
from rho_wasm.messages import (
    Message,
    assistant_message,
    for_model,
    open_calls,
    open_question,
    readable,
    settled,
    tool_message,
)
from rho_wasm.offered import ToolSnapshot
from rho_wasm.option_checks import check_function, check_kind, check_whole
from rho_wasm.plain import encode, plain
from rho_wasm.rendering import error_text, model_text, printed_name, value_text
from rho_wasm.results import Failed, Ok, ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.tools import Tool
from rho_wasm.untrusted import type_name

__all__ = ["KeepDetails", "LoopOutcome", "Model", "OnToolError", "Retry", "ToolLoop", "retry"]

_AT_ONCE: Final = 64

Model: TypeAlias = Callable[[list[Message], Sequence[Tool]], Awaitable[Mapping[str, Any]]]
"""``(messages, tools)`` to an assistant's message; see :mod:`rho_wasm.messages` for their shapes."""

KeepDetails: TypeAlias = Literal[False] | int | Callable[[ToolResult], Any]
LoopStatus: TypeAlias = Literal["completed", "manual_tool_calls", "ask_user", "halt", "max_turns", "aborted", "ready"]


@dataclass(frozen=True, slots=True)
class Retry:
    """Crashed calls of ``idempotent`` tools run again, up to ``times`` more; then the last crash is reported."""

    times: int


def retry(times: int) -> Retry:
    """The policy for ``on_tool_error``. The tries of one call are one call: only the first of them may strike."""
    if type(times) is not int or times < 1:
        raise ValueError("a retry is a whole number of further tries, at least 1")
    return Retry(times)


OnToolError: TypeAlias = Literal["report", "abort"] | Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOutcome:
    """Where a loop stopped. ``status`` is the loop's own word and the one to decide on:

    * ``completed``: the model made no further call; ``text`` is what it said.
    * ``manual_tool_calls``: ``manual_tool_calls`` wait for the caller's results. Their arguments were not checked;
      they are text where the model wrote no JSON.
    * ``ask_user``: ``question`` with its ``options`` waits for a person.
    * ``halt``: a tool ended the loop; ``halted_reason`` is its word, ``value`` the outcome.
    * ``aborted``: a call crashed under ``on_tool_error="abort"``; ``halted_reason`` is the crash's reason.
    * ``max_turns``: the model was asked as often as allowed; run ``messages`` again to go on.
    * ``ready``: nothing waits any more; run ``messages`` to go on. (Of ``submit_tool_result`` and ``answer`` only.)

    ``halted_reason`` is None for ``completed`` and ``ready``, and the status itself where nothing else is said.
    """

    status: LoopStatus
    messages: list[Message]
    halted_reason: str | None = None
    manual_tool_calls: tuple[ToolCall, ...] = ()
    question: str | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    value: Any = None

    @property
    def text(self) -> str:
        """What the assistant said last; empty if it said nothing."""
        spoken = (message["content"] for message in reversed(self.messages) if message["role"] == "assistant")
        return str(next(spoken, ""))


class ToolLoop:
    """Asks ``model``, runs the calls that it makes, and asks again with their results.

    ``mode="manual"``: no call runs, and the tools' own flags are not looked at. ``mode="auto"``: ordinary calls of a
    turn run side by side, those of ``manual`` tools are surfaced. ``max_turns`` bounds how often a run asks the model,
    ``max_calls`` how many calls of one answer of it run: each further one gets a result that says so (``blocked``).
    ``on_tool_error`` is for calls that crashed, never for failures that a handler reported: ``"report"`` (the model
    reads it), ``retry(n)``, ``"abort"``. ``keep_details`` is how much of a result's details the messages keep: False
    for none, a bound on their bytes as CBOR (larger ones are left out), or a function of the result that answers what
    to keep. What ``model`` raises leaves the loop.
    """

    def __init__(
        self,
        model: Model,
        runner: ToolRunner,
        *,
        mode: Literal["auto", "manual"] = "auto",
        max_turns: int = 50,
        max_calls: int = 256,
        on_tool_error: OnToolError = "report",
        keep_details: KeepDetails = False,
    ) -> None:
        check_function(model, "a model is an async function (messages, tools)")
        check_kind(runner, ToolRunner, "a loop runs calls with a ToolRunner")
        if mode not in ("auto", "manual"):
            raise ValueError(f"mode is 'auto' or 'manual', not {mode!r}")
        if not isinstance(on_tool_error, Retry) and on_tool_error not in ("report", "abort"):
            raise ValueError(f"on_tool_error is 'report', 'abort' or retry(n), not {on_tool_error!r}")
        if keep_details is not False and not callable(keep_details):
            check_whole(keep_details, "keep_details is False, a function or a number of bytes, which", least=0)
        check_whole(max_turns, "max_turns", least=1)
        check_whole(max_calls, "max_calls", least=1)
        self.model = model
        self.runner = runner
        self.mode = mode
        self.max_turns = max_turns
        self.max_calls = max_calls
        self.on_tool_error = on_tool_error
        self._keep_details = keep_details

    async def run(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        context: Any = None,
        session_id: str | None = None,
        request_id: str | None = None,
        values: Mapping[str, Any] = MappingProxyType({}),
    ) -> LoopOutcome:
        """Runs until the model makes no further call, or something must be decided outside.

        ``messages`` may end anywhere: calls of the last assistant message without a result are run first (or surfaced,
        if manual), a question without an answer is asked again, and no tool is called twice. ``context`` and the rest
        are what handlers are told. The messages given are not changed; the outcome has its own.
        """
        told = {"context": context, "session_id": session_id, "request_id": request_id, "values": values}
        history = settled(messages)
        turns = 0
        while True:
            snapshot = self.runner.registry.snapshot()
            calls = open_calls(history)
            if not calls and (waiting := self._waiting(history, snapshot)) is not None:
                return waiting
            if not calls:
                if turns == self.max_turns:
                    return LoopOutcome(status="max_turns", halted_reason="max_turns", messages=history)
                turns += 1
                said = assistant_message(await _awaited(self.model(for_model(history), snapshot.list())))
                history.append(said)
                calls = said["tool_calls"] = [
                    readable(call) if self._is_manual(call, snapshot) else call for call in said["tool_calls"]
                ]
                if not calls:
                    return LoopOutcome(status="completed", messages=history)
            results = await self._run_calls(
                [call for call in calls if not self._is_manual(call, snapshot)], snapshot, told
            )
            history.extend(tool_message(result, details=self._kept(result)) for result in results)
            if (stopped := self._stopped(results, history, snapshot)) is not None:
                return stopped

    def submit_tool_result(self, outcome: LoopOutcome, call_id: str, result: Any) -> LoopOutcome:
        """``outcome`` with the result of a call that was surfaced; ``ready`` once nothing else waits.

        ``result`` is text, any value, ``Ok``, ``Failed`` or a :class:`ToolResult`. Raises ValueError if no call of that
        id waits, :class:`PlainError` for a value that has no text.
        """
        call = next((call for call in outcome.manual_tool_calls if call.id == call_id), None)
        if call is None:
            waiting = ", ".join(repr(call.id) for call in outcome.manual_tool_calls) or "none"
            raise ValueError(f"no manual call {call_id!r} waits for a result; waiting: {waiting}")
        if not isinstance(result, ToolResult):
            result = _as_result(call, result)
        result = replace(result, call_id=call.id, tool=call.name)
        return self._resumed(outcome, tool_message(result, details=self._kept(result)))

    def answer(self, outcome: LoopOutcome, text: str) -> LoopOutcome:
        """``outcome`` with a person's answer to its question, which becomes that call's result.

        The tool is not called again. ``ready`` once nothing else waits. Raises ValueError if no question waits.
        """
        question = open_question(outcome.messages)
        if question is None:
            raise ValueError("no question waits for an answer")
        answered = {key: value for key, value in question.items() if key != "ask_user"}
        return self._resumed(outcome, {**answered, "content": text, "is_error": False})

    def _resumed(self, outcome: LoopOutcome, message: Message) -> LoopOutcome:
        history = settled([*outcome.messages, message])
        waiting = self._waiting(history, self.runner.registry.snapshot(), surfaced=outcome.manual_tool_calls)
        return waiting or LoopOutcome(status="ready", messages=history)

    def _is_manual(self, call: ToolCall, snapshot: ToolSnapshot) -> bool:
        if self.mode == "manual":
            return True
        tool = snapshot.lookup(call.name)
        return tool is not None and tool.manual

    async def _run_calls(
        self, calls: Sequence[ToolCall], snapshot: ToolSnapshot, told: Mapping[str, Any]
    ) -> list[ToolResult]:
        more, calls = calls[self.max_calls :], calls[: self.max_calls]
        results = await self.runner.run_many(calls, tools=snapshot, model=self.model, **told)
        if isinstance(self.on_tool_error, Retry):
            for attempt in range(2, self.on_tool_error.times + 2):
                again = [n for n, call in enumerate(calls) if _may_retry(results[n], snapshot.lookup(call.name))]
                if not again:
                    break
                tried = await self.runner.run_many(
                    [calls[n] for n in again], tools=snapshot, model=self.model, attempt=attempt, **told
                )
                for n, result in zip(again, tried, strict=True):
                    results[n] = result
        for number, call in enumerate(more):
            if not number % _AT_ONCE:
                await anyio.lowlevel.checkpoint()
            results.append(_one_too_many(call, self.max_calls))
        return results

    def _stopped(
        self, results: Sequence[ToolResult], history: list[Message], snapshot: ToolSnapshot
    ) -> LoopOutcome | None:
        """What stops the loop after a turn's calls: of its results the first, in the order of the calls, that does."""
        for result in results:
            if result.status == "ask_user":
                break
            if result.status == "halt":
                manual = tuple(open_calls(history))
                return LoopOutcome(
                    status="halt",
                    halted_reason=result.halt_reason,
                    messages=history,
                    manual_tool_calls=manual,
                    value=result.value,
                )
            if result.kind == "crashed" and self.on_tool_error == "abort":
                return LoopOutcome(
                    status="aborted",
                    halted_reason=result.reason,
                    messages=history,
                    manual_tool_calls=tuple(open_calls(history)),
                )
        return self._waiting(history, snapshot)

    def _waiting(
        self, history: list[Message], snapshot: ToolSnapshot, *, surfaced: Sequence[ToolCall] = ()
    ) -> LoopOutcome | None:
        """The first question without an answer, else the manual calls without a result, else None."""
        manual = tuple(call for call in open_calls(history) if call in surfaced or self._is_manual(call, snapshot))
        if (question := open_question(history)) is not None:
            return LoopOutcome(
                status="ask_user",
                halted_reason="ask_user",
                messages=history,
                manual_tool_calls=manual,
                question=question["content"],
                options=question["ask_user"],
            )
        if manual:
            return LoopOutcome(
                status="manual_tool_calls",
                halted_reason="manual_tool_calls",
                messages=history,
                manual_tool_calls=manual,
            )
        return None

    def _kept(self, result: ToolResult) -> Any:
        keep = self._keep_details
        if keep is False or result.details is None:
            return None
        if callable(keep):
            return keep(result)
        try:
            details = plain(result.details)
            encode(details, max_bytes=keep)
        except PlainError:
            return None
        return details


def _awaited(answer: Any) -> Awaitable[Mapping[str, Any]]:
    if not inspect.isawaitable(answer):
        raise TypeError(
            f"a model is awaited: make it an async function (messages, tools), this one answered a {type_name(answer)}"
        )
    return answer


def _may_retry(result: ToolResult, tool: Tool | None) -> bool:
    return result.kind == "crashed" and tool is not None and tool.idempotent is True


def _one_too_many(call: ToolCall, most: int) -> ToolResult:
    tool = printed_name(call)
    detail = f"it was not run: one answer may ask for {most} calls at most; ask for it again in the next answer"
    text = error_text(tool, ToolError("blocked", tool=tool, detail=detail))
    return ToolResult(call_id=call.id, tool=tool, status="error", kind="refused", reason="blocked", text=text)


def _as_result(call: ToolCall, result: Any) -> ToolResult:
    """A result that the caller made: the host's own, so it is trusted and never cut."""
    answer = result if isinstance(result, (Ok, Failed)) else Ok(result)
    text = model_text(value_text(answer)[0], trusted=True)
    if isinstance(answer, Failed):
        return ToolResult(
            call_id=call.id, tool=call.name, status="error", kind="failed", reason="failed", value=answer.reason,
            text=text, details=answer.details,
        )  # fmt: skip
    return ToolResult(
        call_id=call.id, tool=call.name, status="ok", kind="ok", value=answer.value, text=text,
        images=tuple(answer.images), details=answer.details,
    )  # fmt: skip
