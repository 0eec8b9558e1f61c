"""A hostile model: every argument is refused in bounded, inert words, costs little, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from rho_wasm import Host, HostLimits, Policy, Workshop, WorkshopLimits
from rho_wasm.names import WORKSHOP
from rho_wasm.testing import FixedClock, asking_guest, guest
from rho_wasm.workshop import write_tool
from rho_wasm.workshop.building import built
from tests.workshop.shop import SPEAKING, Session, opened, switched, wat

pytestmark = pytest.mark.anyio

EXAMPLE = {"arguments": {}, "answer": "done"}


def written(**changes: Any) -> dict[str, Any]:
    return {"language": "wat", "source": wat(), "name": "tool", "description": "A tool."} | changes


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"source": "x" * 70_000}, "source_too_large"),
        ({"examples": [EXAMPLE] * 1_000}, "too_many_examples"),
        ({"source": "(module)\0"}, "source_unreadable"),
    ],
)
async def test_what_is_too_much_or_no_text_is_refused(changes: dict[str, Any], reason: str) -> None:
    async with opened() as host:
        result = await Session(host).refused("write_tool", **written(**changes))
        assert result.details["reason"] == reason
        assert len(result.text) < 1_000


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_tool", written(language=["wat"])),
        ("write_tool", written(source=["a"])),
        ("write_tool", written(source="\udc80")),
        ("write_tool", written(name="n" * 10_000)),
        ("write_tool", written(grants={"http.fetch": {}})),
        ("switch_tools", {"candidate": -1}),
        ("switch_tools", {"candidate": 1, "approve": True}),
        ("switch_tools", {"remove": ["x"] * 100}),
        ("roll_back_tools", {"to": 2**70}),
    ],
)
async def test_what_no_schema_takes_is_refused_before_a_handler_sees_it(tool: str, arguments: dict[str, Any]) -> None:
    async with opened(workshop=Workshop(languages=["wat"])) as host:
        result = await Session(host)(tool, **arguments)
        assert (result.kind, result.reason) == ("refused", "invalid_arguments")


@pytest.mark.parametrize("number", [99, 2**53, 0])
async def test_a_number_of_no_candidate_is_told_so(number: int) -> None:
    async with opened() as host:
        session = Session(host)
        await session.refused("switch_tools", candidate=number)
        await session.refused("switch_tools")
        await session.refused("test_tool", candidate=number, name="tool")


async def test_a_source_that_is_wrong_leaves_no_candidate_and_its_text_comes_back_inert() -> None:
    async with opened() as host:
        source = '(module\n  (func i32.ad \x1b[2J "\u202e")'
        result = await Session(host).refused("write_tool", **written(source=source))
        assert "line 2" in result.text
        assert "i32.ad" in result.text
        assert not {"\x1b", "\u202e"} & set(result.text)
        assert len(host.source.generations()) == 1


@pytest.mark.slow
async def test_builds_and_candidates_of_an_hour_are_bounded_and_again_possible_an_hour_later() -> None:
    clock = FixedClock()
    limits = WorkshopLimits(builds_per_hour=2, stages_per_hour=1, switches_per_hour=1, cases_per_hour=3)
    async with opened(workshop=Workshop(languages=["wat"], limits=limits, clock=clock)) as host:
        session = Session(host)
        first = await session.done("write_tool", **written())
        assert "1 candidates in the last hour" in (await session.refused("write_tool", **written())).text
        result = await session.refused("write_tool", **written())
        assert result.details == {"reason": "rate_limited", "what": "builds", "limit": 2, "retry_after_s": 3_600}
        clock.advance(1_800)
        assert "again in 1800 seconds" in (await session.refused("write_tool", **written())).text
        await session.done("switch_tools", candidate=first["candidate"])
        await session.done("test_tool", name="tool", cases=[{}, {}])
        assert (await session.refused("test_tool", name="tool", cases=[{}, {}])).details["what"] == "test cases"
        assert (await session.refused("switch_tools", remove=["tool"])).details["what"] == "switches"


@pytest.mark.slow
async def test_candidates_that_nobody_decides_about_do_not_pile_up() -> None:
    limits = WorkshopLimits(open_candidates=2)
    async with opened(workshop=Workshop(languages=["wat"], limits=limits)) as host:
        session, other = Session(host), Session(host, "other")
        old = await session.done("write_tool", **written(name="first"))
        new = await session.done("write_tool", **written(name="first", source=wat("v2")))
        assert host.store.generation(old["candidate"]).state == "rejected"
        assert "takes its place" in (await session.refused("switch_tools", candidate=old["candidate"])).text
        result = await session.refused("write_tool", **written(name="second"))
        assert result.details["reason"] == "too_many_candidates"
        left = await host.source.stage([guest("left")], author="workshop:ended")
        await other.done("write_tool", **written(name="third"))
        assert "needed its room" in host.store.generation(left.number).why
        assert (await session.done("switch_tools", candidate=new["candidate"]))["status"] == "live"


async def test_what_was_refused_before_it_cost_anything_takes_no_switch_and_no_way_back() -> None:
    limits = WorkshopLimits(switches_per_hour=1, rollbacks_per_hour=1, cases_per_hour=1)
    async with opened(workshop=Workshop(languages=["wat"], limits=limits, clock=FixedClock())) as host:
        session = Session(host)
        for _ in range(3):
            await session.refused("switch_tools", candidate=999_999)
            await session.refused("switch_tools", remove=["nothing"])
            await session.refused("roll_back_tools")
            await session.refused("test_tool", name="nothing")
        candidate = await host.source.stage([guest("tool")], author="workshop:a")
        await session.done("test_tool", name="tool", candidate=candidate.number)
        await session.done("switch_tools", candidate=candidate.number)
        assert (await session.done("roll_back_tools"))["removed"] == ["tool"]
        assert (await session.refused("roll_back_tools")).details["what"] == "rollbacks"


async def test_a_model_lets_go_of_candidates_that_nobody_needs_and_of_no_others() -> None:
    async with opened() as host:
        session = Session(host)
        mine = [await host.source.stage([guest(name)], author="workshop:a") for name in ("one", "two", "three")]
        theirs = await host.source.stage([guest("theirs")], author="operator")
        await session.refused("switch_tools", discard=[mine[0].number, theirs.number])
        await session.refused("switch_tools", discard=[mine[0].number], candidate=mine[0].number)
        told = await session.done("switch_tools", discard=[mine[0].number])
        assert told == {"status": "discarded", "discarded": [mine[0].number]}
        told = await session.done("switch_tools", candidate=mine[1].number, discard=[mine[2].number])
        assert (told["status"], told["added"], told["discarded"]) == ("live", ["two"], [mine[2].number])
        states = [host.store.generation(each.number).state for each in (*mine, theirs)]
        assert states == ["rejected", "live", "rejected", "candidate"]


async def test_a_test_runs_with_nothing_granted_and_is_counted_nowhere() -> None:
    async with opened() as host:
        session = Session(host)
        await switched(host, guest("fragile", body="unreachable"), author="workshop:a")
        for _ in range(5):
            result = await session.refused("test_tool", name="fragile")
            assert result.value["cases"][0]["crashed"] == "trapped"
        assert host.source.strikes() == ()
        assert (await session.done("tool_status", name="fragile"))["calls"] == 0


async def test_a_test_answers_host_calls_as_it_says_and_tells_which_were_made() -> None:
    async with opened() as host:
        session = Session(host)
        await switched(host, asking_guest("asks", "kv.get"), author="workshop:a")
        host_replies = [{"capability": "kv.get", "arguments": {"key": "a"}, "reply": "found"}]
        told = await session.done(
            "test_tool",
            name="asks",
            cases=[
                {"arguments": {"key": "a"}, "expect": {"ok": {"ok": "found"}}, "host": host_replies},
                {"arguments": {"key": "b"}, "host": host_replies},
                {
                    "arguments": {"key": "c"},
                    "host": [{"capability": "kv.get", "reply": {"error": {"kind": "quota", "message": "full"}}}],
                },
            ],
        )
        first, second, third = told["cases"]
        assert first["passed"]
        assert first["host_calls"] == [{"capability": "kv.get", "arguments": {"key": "a"}, "answered": True}]
        assert second["answer"]["ok"]["error"]["kind"] == "denied"
        assert not second["host_calls"][0]["answered"]
        assert third["answer"]["ok"]["error"] == {"kind": "quota", "message": "full"}


async def test_expectations_are_values_or_whole_answers_and_what_is_neither_is_told() -> None:
    async with opened() as host:
        session = Session(host)
        await switched(
            host,
            guest({"name": "reports", "description": "", "input_schema": SPEAKING}, answer={"error": "no"}),
            author="workshop:a",
        )
        cases = [
            {"arguments": {"text": ""}, "expect": {"error": "no"}},
            {"arguments": {"text": ""}, "expect": "no"},
            {"arguments": {"text": 3}},
        ]
        result = await session.refused("test_tool", name="reports", cases=cases)
        assert [each["passed"] for each in result.value["cases"]] == [True, False, False]
        assert result.value["cases"][1]["expected"] == {"ok": "no"}
        assert result.value["cases"][2]["problems"] == ["text: got the integer 3, wanted a string"]
        wrong = await session.refused("test_tool", name="reports", expect={"ok": 1, "other": 2})
        assert "expect is no answer of a tool" in wrong.text
        both = await session.refused("test_tool", name="reports", arguments={}, cases=[{}])
        assert both.details["reason"] == "two_ways"
        many = await session.refused("test_tool", name="reports", cases=[{}] * 100)
        assert many.details["reason"] == "too_many_cases"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cases": [{}, {"arguments": {}, "expected": 1, "expect": 1}]}, "cases[1] has no 'expected'"),
        ({"cases": [{"args": {}}]}, "cases[0] has no 'args'"),
        ({"expects": 1}, "test_tool has no 'expects'"),
        ({"candidat": 1}, "test_tool has no 'candidat'"),
        ({"cases": [{"host": [{"capability": "kv.get", "reply": 1, "args": {}}]}]}, "cases[0]: host[0] has no 'args'"),
        ({"cases": [{"answer": 1, "expect": 2}]}, "say expect or answer"),
        ({"cases": [{}], "expected": 1}, "inside each of the cases"),
    ],
)
async def test_a_case_loses_no_key_that_says_what_is_tested(given: dict[str, Any], said: str) -> None:
    async with opened() as host:
        await switched(host, guest("tool"), author="workshop:a")
        result = await Session(host).refused("test_tool", name="tool", **given)
        assert said in result.text


async def test_a_case_with_the_answer_of_an_example_is_held_to_it_and_one_without_any_says_so() -> None:
    async with opened() as host:
        await switched(host, guest("tool", answer={"ok": "done"}), author="workshop:a")
        told = await Session(host).done("test_tool", name="tool", cases=[{"answer": "done"}, {}])
        assert told["cases"][0]["passed"]
        assert "nothing was expected" in told["cases"][1]["checked"]
        failed = await Session(host).refused("test_tool", name="tool", answer="else")
        assert failed.value["cases"][0]["expected"] == {"ok": "else"}


async def test_a_guest_cannot_reach_the_workshop_whatever_it_was_granted() -> None:
    policy = Policy.parse({"gates": {"on": []}, "tools": {"caller": {"grants": {"tool.call": {"tools": ["*"]}}}}})
    async with opened(policy=policy) as host:
        await switched(host, asking_guest("caller", "tool.call"))
        for name in WORKSHOP:
            result = await Session(host)("caller", name=name, arguments={})
            assert result.value["error"]["kind"] == "denied"


@pytest.mark.slow
async def test_many_builds_at_once_leave_calls_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    all_others = anyio.Event()

    async def slowly(*arguments: Any, **options: Any) -> Any:
        await all_others.wait()
        return await built(*arguments, **options)

    monkeypatch.setattr(write_tool, "built", slowly)
    limits = WorkshopLimits(at_once=1, waiting=1)
    workshop = Workshop(languages=["wat"], limits=limits)
    async with opened(workshop=workshop, limits=HostLimits(max_concurrent_calls=4)) as host:
        await switched(host, guest("tool"), author="workshop:a")
        session = Session(host)
        busy = 0

        async def write() -> None:
            nonlocal busy
            result = await session("write_tool", **written(name="tool", source="("))
            assert result.kind == "failed"
            if result.details["reason"] == "busy":
                busy += 1
            if busy == 5:
                all_others.set()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(write)
                assert (await Session(host, "user")("tool")).value == "done"
        assert busy == 5


def test_a_workshop_without_a_language_or_an_author_is_none() -> None:
    with pytest.raises(ValueError, match="no such language: cobol"):
        Workshop(languages=["cobol"])
    with pytest.raises(ValueError, match="1 to 64 characters"):
        Workshop(author="a:b")


async def test_a_host_takes_a_workshop_or_yes_or_no() -> None:
    with pytest.raises(TypeError, match="a workshop is a Workshop"):
        async with Host.open(":memory:", workshop=1):  # type: ignore[arg-type]
            pass
    async with Host.open(":memory:", core=[]) as host:
        assert host.registry.list() == ()
    async with Host.open(":memory:", core=[], workshop=True) as host:
        assert sorted(tool.name for tool in host.registry.list()) == sorted(WORKSHOP)
