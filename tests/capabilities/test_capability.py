"""A host's own capabilities, made of functions, and what a guest's arguments must be for them."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import threading
from typing import Annotated, Any, Literal

import anyio
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from rho_wasm.capabilities import Capability, CapabilityContext, capability
from rho_wasm.errors import CapabilityError
from rho_wasm.grants import Bounds
from tests.capabilities.asking import Asking

pytestmark = pytest.mark.anyio


class Color(enum.Enum):
    RED = "red"


class Part(TypedDict):
    name: str


class Invoices(Bounds):
    most: int = 2


@capability("invoice.lookup", bounds=Invoices, read_only=True)
async def lookup(number: str, context: CapabilityContext) -> dict[str, Any]:
    return {"number": number, "tool": context.tool, "most": context.bounds.most}


@capability("host.typed", quick=True)
def typed(
    flag: bool = False,
    count: int = 0,
    ratio: float = 0.0,
    data: bytes = b"",
    names: list[str] | None = None,
    parts: dict[str, Part] | None = None,
    kind: Literal["a", "b"] = "a",
    short: Annotated[str, Field(max_length=3)] = "",
    day: datetime.date | None = None,
    color: Color = Color.RED,
) -> list[Any]:
    return [flag, count, ratio, data, names, parts, kind, short, day, color]


async def test_an_async_function_is_awaited_with_its_arguments_and_its_context() -> None:
    assert isinstance(lookup, Capability)
    assert (lookup.name, lookup.bounds, lookup.read_only, lookup.now) == ("invoice.lookup", Invoices, True, None)
    asking = Asking([lookup], tool="weather", most=7)
    assert await asking.later("invoice.lookup", number="7") == {"number": "7", "tool": "weather", "most": 7}


async def test_what_is_answered_is_made_plain() -> None:
    answer = Asking([typed]).now("host.typed", day="2024-02-29", color="red", ratio=3, names=["a"])
    assert answer == [False, 0, 3.0, b"", ["a"], None, "a", "", "2024-02-29", "red"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"flag": 1}, "flag: Input should be a valid boolean"),
        ({"count": "3"}, "count: Input should be a valid integer"),
        ({"count": True}, "count: Input should be a valid integer"),
        ({"ratio": "1"}, "ratio: Input should be a valid number"),
        ({"data": "text"}, "data: Input should be a valid bytes"),
        ({"short": b"x"}, "short: Input should be a valid string"),
        ({"short": "long"}, "short: String should have at most 3 characters"),
        ({"names": ["a", 2]}, "names.1: Input should be a valid string"),
        ({"parts": {"a": {"name": 1}}}, "parts.a.name: Input should be a valid string"),
        ({"kind": "c"}, "kind: Input should be 'a' or 'b'"),
        ({"day": "yesterday"}, "day: Input should be a valid date"),
        ({"color": "blue"}, "color: Input should be 'red'"),
        ({"\x1b[31m" + "x" * 500: 1}, r"\x1b[31mxxx"),
        ({"flag": 1, "count": "3"}, "(and 1 more)"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_by_place_and_never_shown(
    arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(CapabilityError) as caught:
        Asking([typed]).now("host.typed", **arguments)
    assert caught.value.kind == "invalid_arguments"
    assert words in caught.value.message
    assert "yesterday" not in caught.value.message
    assert "blue" not in caught.value.message
    assert len(caught.value.message) < 500


async def test_a_sync_function_runs_in_a_thread_of_its_own() -> None:
    @capability("host.thread")
    def thread() -> str:
        return threading.current_thread().name

    assert await Asking([thread]).later("host.thread") == "rho_wasm host code"


async def test_a_sync_function_that_hangs_is_left_behind_with_the_call() -> None:
    release = threading.Event()

    @capability("host.hang")
    def hang() -> None:
        release.wait(30)

    asking = Asking([hang])
    try:
        with anyio.move_on_after(0.01) as scope:
            await asking.later("host.hang")
        assert scope.cancelled_caught
    finally:
        release.set()


async def test_what_a_function_raises_is_raised_and_what_would_end_the_host_is_not() -> None:
    @capability("host.raises")
    def raises(what: str) -> None:
        raise {"value": ValueError("secret"), "exit": SystemExit(3), "denied": CapabilityError("denied", "no")}[what]

    asking = Asking([raises])
    with pytest.raises(ValueError, match="secret"):
        await asking.later("host.raises", what="value")
    with pytest.raises(RuntimeError, match="was ended"):
        await asking.later("host.raises", what="exit")
    with pytest.raises(CapabilityError, match="no"):
        await asking.later("host.raises", what="denied")


@pytest.mark.parametrize("name", ["kv.more", "http.post", "log.other", "tool.find", "clock.set"])
def test_names_of_the_hosts_own_kind_are_reserved(name: str) -> None:
    with pytest.raises(ValueError, match=r"are the host's own"):
        capability(name)


@pytest.mark.parametrize("name", ["", "lookup", "Invoice.lookup", "invoice lookup", "a.b\x1b", "a." + "b" * 99])
def test_other_names_must_be_names(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a capability"):
        capability(name)


def test_a_function_that_no_guest_could_call_is_refused() -> None:
    def positional(a: int, /) -> None: ...
    def unsaid(a) -> None: ...  # type: ignore[no-untyped-def]
    async def awaited() -> None: ...

    for function, words in ((positional, "come by name"), (unsaid, "needs an annotation")):
        with pytest.raises(TypeError, match=words):
            capability("host.bad")(function)
    with pytest.raises(TypeError, match="is awaited"):
        capability("host.bad", quick=True)(awaited)


class Total(BaseModel):
    total: float


@dataclasses.dataclass
class Line:
    item: str


@pytest.mark.parametrize(
    ("annotation", "answer", "made"),
    [
        (dict[str, str], {"a": "b"}, {"a": "b"}),
        (dict[str, float], {"a": 1}, {"a": 1}),
        (Total, Total(total=1.5), {"total": 1.5}),
        (list[Line], [Line("hat")], [{"item": "hat"}]),
        (datetime.date, datetime.date(2024, 5, 1), "2024-05-01"),
        (Color, Color.RED, "red"),
        (set[int], {2, 1}, [1, 2]),
        (Part, {"name": "n"}, {"name": "n"}),
        (None, None, None),
        (Any, Line("hat"), {"item": "hat"}),
    ],
    ids=str,
)
async def test_an_answer_that_its_annotation_allows_is_made_plain(annotation: Any, answer: Any, made: Any) -> None:
    async def answers() -> Any:
        return answer

    answers.__annotations__["return"] = annotation
    assert await Asking([capability("host.answers")(answers)]).later("host.answers") == made


@pytest.mark.parametrize(
    ("annotation", "answer", "words"),
    [
        (
            dict[str, str],
            {"number": 7},
            r"a dict, is not the dict\[str, str\] of its annotation: number: Input should be",
        ),
        (dict[str, str], {"number": {1, 2}}, "number: Input should be a valid string"),
        (dict[str, str], object(), "the answer, a object, is not"),
        (list[int], [1, "2", "3"], r"1: Input should be a valid integer \(and 1 more\)"),
        (Total, {"total": "1.5"}, "is not the Total of its annotation: total: Input should be a valid number"),
        (str, None, "the answer, a NoneType, is not the str of its annotation"),
        (None, "more", "the answer, a str"),
    ],
    ids=["value", "item", "object", "list", "model", "none", "more"],
)
@pytest.mark.parametrize("kind", ["async", "thread", "quick"])
async def test_an_answer_that_its_annotation_does_not_allow_is_the_hosts_fault(
    annotation: Any, answer: Any, words: str, kind: str
) -> None:
    async def awaited() -> Any:
        return answer

    def called() -> Any:
        return answer

    function = awaited if kind == "async" else called
    function.__annotations__["return"] = annotation
    asking = Asking([capability("host.answers", quick=kind == "quick")(function)])
    with pytest.raises(TypeError, match=words):
        await asking.either("host.answers")


def test_a_return_annotation_that_says_nothing_of_answers_is_refused() -> None:
    class Other: ...

    def other() -> Other: ...  # type: ignore[empty-body]

    other.__annotations__["return"] = Other
    with pytest.raises(TypeError, match=r"host.other: no answer can be checked against the return annotation Other: "):
        capability("host.other")(other)


def test_a_decorator_without_a_name_says_that_it_needs_one() -> None:
    with pytest.raises(
        TypeError, match=r'a capability needs a name, two or more words: @capability\("invoice.lookup"\)'
    ):

        @capability  # type: ignore[arg-type]
        async def zz(number: str) -> str:
            return number


def test_exactly_one_of_now_and_later_answers() -> None:
    with pytest.raises(TypeError, match="exactly one"):
        Capability(name="host.none", arguments=BaseModel)
    with pytest.raises(TypeError, match="exactly one"):
        Capability(name="host.both", arguments=BaseModel, now=typed.now, later=lookup.later)
    with pytest.raises(TypeError, match="derives from"):
        Capability(name="host.bounds", arguments=BaseModel, bounds=BaseModel, now=lambda a, c: None)  # type: ignore[arg-type]
