"""The loop, held to the design page "behaviour", "Loop", and to the loop's sentences of the seeds.

* (allm-tool) manual: true: this tool will not be auto-executed even when the call uses mode: :auto
  -> test_a_manual_tool_is_surfaced_and_not_run
* (allm-tool) the orchestrator halts the loop with halted_reason: :manual_tool_calls and surfaces the call
  -> test_a_manual_tool_is_surfaced_and_not_run
* (allm-tool) The caller resolves it via submit_tool_result
  -> test_a_submitted_result_goes_to_the_model
* (allm-tool) or by appending a :tool message to the thread and re-issuing
  -> test_without_state_a_tool_message_is_appended_and_the_loop_run_again
* (allm-tool) Default: false, the tool is auto-executed under mode: :auto
  -> test_calls_are_run_and_their_results_go_to_the_model
* (allm-tool) The flag is silent under whole-loop mode: :manual; the short-circuit fires before the partition
  -> test_under_manual_mode_no_call_runs_and_the_tools_own_flags_are_not_looked_at
* (allm-tool) :context is the opaque value; :session_id nil when stateless; :tool_call exact; :engine; :request_id
  -> test_handlers_are_told_the_loops_context
* (allm-tool) a tool may be declared without a handler when the caller handles tool calls manually
  -> test_a_manual_tool_needs_no_handler
* (executor) on_tool_error: a handler that returned an error has reported, the orchestrator may surface it verbatim
  -> test_a_reported_failure_is_never_retried_nor_aborted_on
* (executor) a handler that raises has crashed, and the retry / abort policy applies
  -> test_crashes_are_reported_by_default, test_retry_runs_crashed_calls_of_idempotent_tools_again,
     test_abort_ends_the_loop_at_a_crash_after_the_turns_other_calls
* (registry) The loop reads the list at the start of every model call, so a new tool is offered from the next call on
  -> test_a_new_tool_is_offered_from_the_next_model_call_on
* (registry, behaviour) calls of that turn are answered from it, whatever switches meanwhile
  -> test_the_calls_of_a_turn_are_answered_from_what_the_model_was_shown
* (runner) details ... into the session only as far as the host's :keep_details keeps it
  -> test_details_are_kept_as_far_as_the_host_says, test_the_model_never_reads_details
* (runner) The model and the session get output
  -> test_images_are_in_the_session_and_reach_the_model
* AskUser halts with the question; the answer becomes that call's result, the tool is not called again
  -> test_a_question_halts_and_its_answer_becomes_the_calls_result
* Halt: the turn's other calls finish, the first in call order decides
  -> test_a_halt_ends_the_loop_after_the_turns_other_calls, test_the_first_in_call_order_decides
* retry(n) (only idempotent tools; each try may strike)
  -> test_retry_runs_crashed_calls_of_idempotent_tools_again
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.loop import LoopOutcome, ToolLoop, retry
from rho_wasm.messages import Message
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import AskUser, Failed, Halt, Image, Ok, ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.testing import FakeSource
from rho_wasm.tools import Tool
from tests.helpers import PNG, Waiting, answering, call, echo, make, raising, runner_of

pytestmark = pytest.mark.anyio

USER: Message = {"role": "user", "content": "go"}


class Model:
    """Plays one turn after another: each is what it says, or the calls that it makes, or a function of the messages."""

    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)
        self.read: list[list[Message]] = []
        self.offered: list[list[str]] = []

    async def __call__(self, messages: list[Message], tools: Sequence[Tool]) -> Mapping[str, Any]:
        await anyio.lowlevel.checkpoint()
        self.read.append(messages)
        self.offered.append([tool.name for tool in tools])
        turn = self.turns.pop(0) if self.turns else "done"
        if callable(turn):
            turn = turn(messages)
        if isinstance(turn, str):
            return {"role": "assistant", "content": turn}
        return {"role": "assistant", "content": None, "tool_calls": turn}


def loop_of(model: Model, *tools: Tool, **options: Any) -> ToolLoop:
    return ToolLoop(model, runner_of(*tools), **options)


def results_in(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(message["tool_call_id"], message["content"]) for message in messages if message["role"] == "tool"]


async def test_a_model_that_makes_no_call_completes() -> None:
    model = Model("hello")
    outcome = await loop_of(model, echo()).run([USER])
    assert (outcome.status, outcome.halted_reason, outcome.text) == ("completed", None, "hello")
    assert outcome.messages == [USER, {"role": "assistant", "content": "hello", "tool_calls": []}]
    assert model.offered == [["echo"]]


async def test_calls_are_run_and_their_results_go_to_the_model() -> None:
    model = Model([call("echo", {"n": 1}, id="a"), {"id": "b", "name": "echo", "arguments": {"n": 2}}])
    outcome = await loop_of(model, echo()).run([USER])
    assert outcome.status == "completed"
    assert results_in(model.read[1]) == [("a", '{"n":1}'), ("b", '{"n":2}')]
    assert outcome.messages[2] == {
        "role": "tool",
        "tool_call_id": "a",
        "name": "echo",
        "content": '{"n":1}',
        "is_error": False,
    }


async def test_the_calls_of_a_turn_run_side_by_side_and_their_results_are_in_call_order() -> None:
    first, second = Waiting("first"), Waiting("second")

    async def let_go() -> None:
        await first.began.wait()
        await second.began.wait()
        second.let_go.set()
        first.let_go.set()

    model = Model([call("first", id="a"), call("second", id="b")])
    async with anyio.create_task_group() as group:
        group.start_soon(let_go)
        outcome = await loop_of(model, first.tool, second.tool).run([USER])
    assert [one for one, _ in results_in(outcome.messages)] == ["a", "b"]


async def test_the_messages_that_were_given_are_not_changed() -> None:
    given: list[dict[str, Any]] = [dict(USER)]
    model = Model([call("echo")], lambda messages: messages.clear() or "done")
    outcome = await loop_of(model, echo()).run(given)
    assert given == [USER]
    assert len(outcome.messages) == 4


async def test_a_failed_call_reads_as_an_error() -> None:
    model = Model([call("unknown")])
    outcome = await loop_of(model).run([USER])
    assert outcome.messages[2]["is_error"]
    assert "not_found" in outcome.messages[2]["content"]


async def test_handlers_are_told_the_loops_context() -> None:
    told: list[ToolContext] = []

    async def handler(arguments: Any, context: ToolContext) -> Ok:
        told.append(context)
        return Ok(None)

    made, host = call("t"), object()
    model = Model([made], "done", [made])
    loop = loop_of(model, make(handler))
    await loop.run([USER], context=host, session_id="s", request_id="r", values={"tz": "UTC"})
    await loop.run([USER])
    assert told[0].call is made
    assert told[0].context is host
    assert told[0].model is model
    assert (told[0].session_id, told[0].request_id, told[0].values) == ("s", "r", {"tz": "UTC"})
    assert (told[1].context, told[1].session_id, told[1].request_id) == (None, None, None)


async def test_a_manual_tool_is_surfaced_and_not_run() -> None:
    waiting = Waiting("charge", manual=True)
    made = call("charge", {"cents": 5}, id="m")
    outcome = await loop_of(Model([made]), waiting.tool).run([USER])
    assert (outcome.status, outcome.halted_reason) == ("manual_tool_calls", "manual_tool_calls")
    assert (outcome.manual_tool_calls, waiting.runs) == ((made,), 0)


async def test_a_turn_is_split_ordinary_calls_run_and_manual_ones_are_surfaced() -> None:
    model = Model([call("charge", id="m"), call("echo", id="o")])
    outcome = await loop_of(model, answering(Ok("charged"), name="charge", manual=True), echo()).run([USER])
    assert [made.id for made in outcome.manual_tool_calls] == ["m"]
    assert results_in(outcome.messages) == [("o", "{}")]


async def test_a_manual_tool_needs_no_handler() -> None:
    outcome = await loop_of(Model([call("t")]), make(None, manual=True)).run([USER])
    assert outcome.status == "manual_tool_calls"


async def test_a_submitted_result_goes_to_the_model() -> None:
    model = Model([call("t", id="1"), call("t", id="2")], "thanks")
    loop = loop_of(model, make(None, manual=True))
    outcome = await loop.run([USER])
    outcome = loop.submit_tool_result(outcome, "2", {"paid": True})
    assert [made.id for made in outcome.manual_tool_calls] == ["1"]
    outcome = loop.submit_tool_result(outcome, "1", Failed("card refused"))
    assert (outcome.status, outcome.manual_tool_calls) == ("ready", ())
    outcome = await loop.run(outcome.messages)
    assert outcome.text == "thanks"
    assert results_in(model.read[1]) == [("2", '{"paid":true}'), ("1", "card refused")]
    assert [message["is_error"] for message in model.read[1] if message["role"] == "tool"] == [False, True]


async def test_a_result_of_ones_own_runner_may_be_submitted() -> None:
    loop = loop_of(Model([call("t", id="m")]), make(None, manual=True))
    outcome = await loop.run([USER])
    result = await runner_of(answering(Ok("ran", (Image("image/png", PNG),)))).run(call("t", id="other"))
    outcome = loop.submit_tool_result(outcome, "m", result)
    assert results_in(outcome.messages) == [("m", "ran")]
    assert outcome.messages[-1]["images"] == [Image("image/png", PNG)]


async def test_a_result_for_a_call_that_does_not_wait_is_a_value_error() -> None:
    loop = loop_of(Model([call("t", id="m")]), make(None, manual=True))
    outcome = await loop.run([USER])
    with pytest.raises(ValueError, match=r"no manual call 'x' waits for a result; waiting: 'm'"):
        loop.submit_tool_result(outcome, "x", "r")
    submitted = loop.submit_tool_result(outcome, "m", "r")
    with pytest.raises(ValueError, match="waiting: none"):
        loop.submit_tool_result(submitted, "m", "again")


async def test_without_state_a_tool_message_is_appended_and_the_loop_run_again() -> None:
    model = Model([call("t", id="m")], "thanks")
    outcome = await loop_of(model, make(None, manual=True)).run([USER])
    again = loop_of(model, make(None, manual=True))
    answer: Message = {"role": "tool", "tool_call_id": "m", "content": "done by hand"}
    outcome = await again.run([*outcome.messages, answer])
    assert (outcome.status, outcome.text) == ("completed", "thanks")
    assert results_in(model.read[1]) == [("m", "done by hand")]


async def test_run_again_without_a_result_it_surfaces_the_call_again_and_asks_no_model() -> None:
    model = Model([call("t", id="m")])
    loop = loop_of(model, make(None, manual=True))
    outcome = await loop.run([USER])
    again = await loop.run(outcome.messages)
    assert (again.status, again.manual_tool_calls) == ("manual_tool_calls", outcome.manual_tool_calls)
    assert len(model.read) == 1


async def test_a_turn_that_was_left_half_done_is_finished_first() -> None:
    model = Model("done")
    messages: list[Message] = [USER, {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "name": "echo"}]}]
    outcome = await loop_of(model, echo()).run(messages)
    assert results_in(model.read[0]) == [("a", "{}")]
    assert outcome.status == "completed"


async def test_under_manual_mode_no_call_runs_and_the_tools_own_flags_are_not_looked_at() -> None:
    waiting = Waiting("ordinary")
    calls = [call("ordinary", id="1"), call("unknown", id="2"), call("by_hand", id="3")]
    loop = loop_of(Model(calls, "done"), waiting.tool, make(None, name="by_hand", manual=True), mode="manual")
    outcome = await loop.run([USER])
    assert outcome.halted_reason == "manual_tool_calls"
    assert outcome.manual_tool_calls == tuple(calls)
    for one in ("1", "2", "3"):
        outcome = loop.submit_tool_result(outcome, one, "by hand")
    assert (await loop.run(outcome.messages)).status == "completed"
    assert waiting.runs == 0


async def test_two_manual_calls_of_one_id_need_two_results() -> None:
    loop = loop_of(Model([call("t", id="x"), call("t", id="x")]), make(None, manual=True))
    outcome = await loop.run([USER])
    outcome = loop.submit_tool_result(outcome, "x", "one")
    assert (outcome.status, len(outcome.manual_tool_calls)) == ("manual_tool_calls", 1)
    assert loop.submit_tool_result(outcome, "x", "two").status == "ready"


class Asks:
    """A tool that asks and counts how often it was called."""

    def __init__(self, name: str = "asks") -> None:
        self.runs = 0
        self.tool = make(self._handle, name=name)

    async def _handle(self, arguments: Any) -> AskUser:
        self.runs += 1
        return AskUser(f"Which {arguments.get('what', 'one')}?", {"a": 1})


async def test_a_question_halts_and_its_answer_becomes_the_calls_result() -> None:
    asks, model = Asks(), Model([call("asks", id="q")], "thanks")
    loop = loop_of(model, asks.tool)
    outcome = await loop.run([USER])
    assert (outcome.status, outcome.halted_reason) == ("ask_user", "ask_user")
    assert (outcome.question, outcome.options) == ("Which one?", {"a": 1})
    outcome = loop.answer(outcome, "the blue one")
    assert (outcome.status, outcome.question) == ("ready", None)
    outcome = await loop.run(outcome.messages)
    assert (outcome.text, asks.runs) == ("thanks", 1)
    assert results_in(model.read[1]) == [("q", "the blue one")]


async def test_a_question_run_again_is_asked_again_and_its_tool_is_not_called_again() -> None:
    asks, model = Asks(), Model([call("asks", id="q")], "thanks")
    loop = loop_of(model, asks.tool)
    outcome = await loop.run([USER])
    again = await loop.run(outcome.messages)
    assert (again.status, again.question, asks.runs, len(model.read)) == ("ask_user", "Which one?", 1, 1)
    answer = {"role": "tool", "tool_call_id": "q", "content": "without state"}
    assert (await loop.run([*again.messages, answer])).text == "thanks"
    assert results_in(model.read[1]) == [("q", "without state")]
    assert asks.runs == 1


async def test_questions_of_one_turn_are_asked_one_after_the_other() -> None:
    asks, model = Asks(), Model([call("asks", {"what": "hat"}, id="1"), call("asks", {"what": "coat"}, id="2")])
    loop = loop_of(model, asks.tool)
    outcome = await loop.run([USER])
    assert outcome.question == "Which hat?"
    outcome = loop.answer(outcome, "the red hat")
    assert (outcome.status, outcome.question) == ("ask_user", "Which coat?")
    outcome = await loop.run(loop.answer(outcome, "the old coat").messages)
    assert sorted(results_in(model.read[1])) == [("1", "the red hat"), ("2", "the old coat")]
    with pytest.raises(ValueError, match="no question waits"):
        loop.answer(outcome, "more")


async def test_a_question_beside_manual_calls_surfaces_both() -> None:
    model = Model([call("t", id="m"), call("asks", id="q")])
    loop = loop_of(model, Asks().tool, make(None, manual=True))
    outcome = await loop.run([USER])
    assert (outcome.status, [made.id for made in outcome.manual_tool_calls]) == ("ask_user", ["m"])
    outcome = loop.answer(outcome, "yes")
    assert (outcome.status, [made.id for made in outcome.manual_tool_calls]) == ("manual_tool_calls", ["m"])
    assert loop.submit_tool_result(outcome, "m", "paid").status == "ready"


async def test_an_old_turns_question_does_not_wait_for_ever() -> None:
    loop = loop_of(Model([call("asks", id="q")]), Asks().tool)
    outcome = await loop.run([USER])
    moved_on = [*outcome.messages, {"role": "assistant", "content": "never mind"}, USER]
    assert (await loop.run(moved_on)).status == "completed"


async def test_a_halt_ends_the_loop_after_the_turns_other_calls() -> None:
    model = Model([call("halts", id="h"), call("echo", id="e")])
    outcome = await loop_of(model, answering(Halt("budget", {"left": 0}), name="halts"), echo()).run([USER])
    assert (outcome.status, outcome.halted_reason, outcome.value) == ("halt", "budget", {"left": 0})
    assert results_in(outcome.messages) == [("h", '{"left":0}'), ("e", "{}")]
    assert len(model.read) == 1


@pytest.mark.parametrize(
    ("order", "status", "reason"),
    [
        (["one", "two"], "halt", "one"),
        (["two", "one"], "halt", "two"),
        (["one", "asks"], "halt", "one"),
        (["asks", "one"], "ask_user", "ask_user"),
        (["bad", "one"], "aborted", "handler_raised"),
        (["one", "bad"], "halt", "one"),
    ],
)
async def test_the_first_in_call_order_decides(order: list[str], status: str, reason: str) -> None:
    tools = [answering(Halt(name), name=name) for name in ("one", "two")]
    model = Model([call(name, id=name) for name in order])
    loop = loop_of(model, *tools, Asks().tool, raising(ValueError(), name="bad"), on_tool_error="abort")
    outcome = await loop.run([USER])
    assert (outcome.status, outcome.halted_reason) == (status, reason)


async def test_a_halts_reason_never_passes_for_the_loops_own_word() -> None:
    outcome = await loop_of(Model([call()]), answering(Halt("manual_tool_calls"))).run([USER])
    assert (outcome.status, outcome.manual_tool_calls) == ("halt", ())


class Flaky:
    """Crashes so many times, then answers."""

    def __init__(self, crashes: int, *, error: BaseException | None = None, **fields: Any) -> None:
        self.left, self.runs, self.error = crashes, 0, error or ValueError("crash")
        self.tool = make(self._handle, **fields)

    async def _handle(self, arguments: Any) -> Ok:
        self.runs += 1
        if self.left > 0:
            self.left -= 1
            raise self.error
        return Ok("recovered")


async def test_crashes_are_reported_by_default() -> None:
    flaky = Flaky(1, idempotent=True)
    outcome = await loop_of(Model([call()]), flaky.tool).run([USER])
    assert (outcome.status, flaky.runs) == ("completed", 1)
    assert "handler_raised" in outcome.messages[2]["content"]


async def test_retry_runs_crashed_calls_of_idempotent_tools_again() -> None:
    for crashes, runs, text in ((1, 2, "recovered"), (2, 3, "recovered"), (3, 3, "handler_raised")):
        flaky = Flaky(crashes, idempotent=True)
        model = Model([call("t"), call("echo", id="2")])
        outcome = await loop_of(model, flaky.tool, echo(), on_tool_error=retry(2)).run([USER])
        assert (outcome.status, flaky.runs) == ("completed", runs)
        assert text in outcome.messages[2]["content"]
        assert len(results_in(outcome.messages)) == 2


@pytest.mark.parametrize("idempotent", [None, False])
async def test_retry_leaves_tools_that_are_not_idempotent_alone(idempotent: bool | None) -> None:
    flaky = Flaky(1, idempotent=idempotent)
    await loop_of(Model([call()]), flaky.tool, on_tool_error=retry(5)).run([USER])
    assert flaky.runs == 1


async def test_a_reported_failure_is_never_retried_nor_aborted_on() -> None:
    for policy in (retry(3), "abort"):
        flaky = Flaky(1, error=Failed("no such user"), idempotent=True)
        outcome = await loop_of(Model([call()]), flaky.tool, on_tool_error=policy).run([USER])
        assert (outcome.status, flaky.runs) == ("completed", 1)
        assert results_in(outcome.messages) == [("1", "no such user")]


async def test_abort_ends_the_loop_at_a_crash_after_the_turns_other_calls() -> None:
    model = Model([call("bad", id="b"), call("echo", id="e")])
    outcome = await loop_of(model, raising(ValueError(), name="bad"), echo(), on_tool_error="abort").run([USER])
    assert (outcome.status, outcome.halted_reason) == ("aborted", "handler_raised")
    assert [one for one, _ in results_in(outcome.messages)] == ["b", "e"]
    assert len(model.read) == 1


async def test_abort_does_not_look_at_refusals() -> None:
    outcome = await loop_of(Model([call("unknown")]), on_tool_error="abort").run([USER])
    assert outcome.status == "completed"


async def test_a_loop_stops_after_so_many_turns_and_goes_on_from_there() -> None:
    def endless(messages: Any) -> list[ToolCall]:
        return [call("echo", {"turn": len(messages)})]

    model = Model(*[endless] * 3)
    loop = loop_of(model, echo(), max_turns=2)
    outcome = await loop.run([USER])
    assert (outcome.status, outcome.halted_reason, len(model.read)) == ("max_turns", "max_turns", 2)
    assert len(results_in(outcome.messages)) == 2
    assert (await loop.run(outcome.messages)).status == "completed"


async def test_of_very_many_calls_in_one_answer_those_beyond_the_bound_do_not_run_and_say_so() -> None:
    calls = [call("echo", {"n": n}, id=f"c{n % 7}") for n in range(300)]
    outcome = await loop_of(Model(calls), echo()).run([USER])
    results = [message for message in outcome.messages if message["role"] == "tool"]
    assert outcome.status == "completed"
    assert [result["tool_call_id"] for result in results] == [one.id for one in calls]
    assert [result["is_error"] for result in results] == [n >= 256 for n in range(300)]
    assert "not run: one answer may ask for 256 calls at most" in results[-1]["content"]


async def test_the_bound_on_calls_of_one_answer_is_the_hosts_and_the_next_answer_has_its_own() -> None:
    model = Model([call("echo", id=str(n)) for n in range(3)], [call("echo", id=str(n)) for n in range(2)])
    outcome = await loop_of(model, echo(), max_calls=2, on_tool_error=retry(1)).run([USER])
    results = [message for message in outcome.messages if message["role"] == "tool"]
    assert [result["is_error"] for result in results] == [False, False, True, False, False]


async def test_a_new_tool_is_offered_from_the_next_model_call_on() -> None:
    registry = ToolRegistry([])

    async def registers(arguments: Any) -> Ok:
        registry.register(echo("new"))
        return Ok("registered")

    registry.register(make(registers, name="registers"))
    # The second call of the turn names what the model was not shown.
    model = Model([call("registers", id="1")], [call("new", {"x": 1}, id="2")])
    outcome = await ToolLoop(model, ToolRunner(registry)).run([USER])
    assert model.offered == [["registers"], ["new", "registers"], ["new", "registers"]]
    assert results_in(outcome.messages) == [("1", "registered"), ("2", '{"x":1}')]


async def test_the_calls_of_a_turn_are_answered_from_what_the_model_was_shown() -> None:
    source = FakeSource(answering(Ok("old")))

    def switches(messages: Any) -> list[ToolCall]:
        source.set(answering(Ok("new")))
        return [call("t", id="1")]

    model = Model(switches, [call("t", id="2")])
    runner = ToolRunner(ToolRegistry([], sources=[source]))
    outcome = await ToolLoop(model, runner).run([USER])
    assert results_in(outcome.messages) == [("1", "old"), ("2", "new")]


def _only_code(result: ToolResult) -> Any:
    return {"code": result.details["code"]}


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (False, None),
        (0, None),
        (1_000, {"code": 7, "rows": ["x" * 100]}),
        (50, None),
        (_only_code, {"code": 7}),
        (lambda result: None, None),
    ],
)
@pytest.mark.parametrize("answer", [Ok, Failed])
async def test_details_are_kept_as_far_as_the_host_says(answer: Callable[..., Any], keep: Any, kept: Any) -> None:
    details = {"code": 7, "rows": ["x" * 100]}
    tool = answering(answer("text", details=details))
    outcome = await loop_of(Model([call()]), tool, keep_details=keep).run([USER])
    assert outcome.messages[2].get("details") == kept
    assert ("details" in outcome.messages[2]) == (kept is not None)


async def test_details_that_cannot_be_made_plain_are_not_kept_under_a_bound() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    outcome = await loop_of(Model([call()]), answering(Ok("x", details=cycle)), keep_details=100).run([USER])
    assert "details" not in outcome.messages[2]


async def test_the_model_never_reads_details() -> None:
    model = Model([call()])
    outcome = await loop_of(model, answering(Ok("text", details={"a": 1})), keep_details=100).run([USER])
    assert outcome.messages[2]["details"] == {"a": 1}
    assert all("details" not in message for messages in model.read for message in messages)


async def test_images_are_in_the_session_and_reach_the_model() -> None:
    image, model = Image("image/png", PNG), Model([call()])
    outcome = await loop_of(model, answering(Ok("a screenshot", (image,)))).run([USER])
    assert outcome.messages[2]["images"] == [image]
    assert model.read[1][2]["images"] == [image]


async def test_what_the_model_raises_leaves_the_loop() -> None:
    def fails(messages: Any) -> Any:
        raise ConnectionError("no network")

    with pytest.raises(ConnectionError):
        await loop_of(Model(fails)).run([USER])


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        {"role": "user", "content": "x"},
        {"tool_calls": ["call"]},
        {"tool_calls": [{"name": "no id"}]},
        {"tool_calls": [{"id": 7, "name": "x"}]},
    ],
)
async def test_a_model_that_answers_no_assistant_message_is_the_hosts_error(answer: Any) -> None:
    async def model(messages: Any, tools: Any) -> Any:
        return answer

    with pytest.raises((TypeError, ValueError)):
        await ToolLoop(model, runner_of()).run([USER])


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "half"},
        {"on_tool_error": "ignore"},
        {"keep_details": True},
        {"keep_details": "all"},
        {"keep_details": -1},
        {"max_turns": "3"},
        {"max_turns": 0},
        {"max_calls": 0},
    ],
)
def test_options_that_mean_nothing_are_refused_by_their_names(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{next(iter(options))} is "):
        loop_of(Model(), **options)


async def test_a_model_that_cannot_be_awaited_is_a_type_error_that_says_so() -> None:
    with pytest.raises(TypeError, match=r"a model is an async function .*, not a dict"):
        ToolLoop({}, runner_of())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a model is awaited: make it an async function .* answered a dict"):
        await ToolLoop(lambda messages, tools: {"content": "hi"}, runner_of()).run([USER])  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("times", [0, -1, True, 1.5])
def test_a_retry_is_a_whole_number_of_tries(times: Any) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        retry(times)


def test_an_outcome_without_a_word_of_the_assistant_has_no_text() -> None:
    assert LoopOutcome(status="ready", messages=[dict(USER)]).text == ""


@pytest.mark.parametrize("messages", ["hi", [7], [{"rol": "user"}], [{"role": "tool", "content": "x"}]])
async def test_what_is_no_list_of_messages_is_the_hosts_fault_and_says_so(messages: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="message"):
        await loop_of(Model()).run(messages)
