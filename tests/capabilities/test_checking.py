"""What is held to a model is bounded first, and what is long is done by another thread than the event loop's."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import pytest
from pydantic import ConfigDict, Field, create_model

from rho_wasm import plain
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.capabilities import Capability, CapabilityContext, capability
from rho_wasm.capabilities.capability import Arguments
from rho_wasm.capabilities.checking import TYPED_ITEMS, ArgumentsCheck
from rho_wasm.capabilities.in_thread import charged_in_thread
from rho_wasm.capabilities.kv import kv_capabilities
from rho_wasm.counting import items_of
from rho_wasm.errors import CapabilityError, TooLarge
from tests.capabilities.asking import Asking

pytestmark = pytest.mark.anyio

MANY = {f"k{number}": number for number in range(TYPED_ITEMS)}


def refused(check: ArgumentsCheck, **arguments: Any) -> str:
    with pytest.raises(CapabilityError) as caught:
        check.made(arguments, capability="host.x")
    assert caught.value.kind == "invalid_arguments"
    return caught.value.message


class Typed(Arguments):
    texts: Annotated[dict[str, str], Field(default_factory=dict)]
    anything: Any = None
    some: list[Any] | None = None
    more: Annotated[dict[str, Any], Field(default_factory=dict)]


def test_the_first_unknown_argument_is_told_and_the_model_never_sees_any() -> None:
    class Unasked(Typed):
        @classmethod
        def model_validate(cls, *arguments: Any, **options: Any) -> Any:
            raise AssertionError("nothing was to be validated")

    assert refused(ArgumentsCheck(Unasked), **MANY) == "k0: unknown argument (it takes texts, anything, some, more)"


def test_arguments_with_types_have_a_bound_of_items_and_those_without_have_none() -> None:
    check = ArgumentsCheck(Typed)
    assert refused(check, texts=MANY) == f"texts: more than {TYPED_ITEMS:,} items"
    assert refused(check, texts=[[MANY]]) == f"texts: more than {TYPED_ITEMS:,} items"
    assert check.made({"anything": MANY, "some": [MANY], "more": MANY}, capability="host.x") is not None


def test_of_many_problems_only_the_number_is_told() -> None:
    check = ArgumentsCheck(Typed)
    assert refused(check, texts={f"k{number}": number for number in range(1_000)}) == "arguments: 1,000 problems"
    assert refused(check, texts={"a": 1, "b": 2}).endswith("(and 1 more)")


def test_an_argument_has_the_name_that_guests_give_it() -> None:
    named = create_model("named", __config__=ConfigDict(extra="forbid"), inner=(int, Field(alias="outer")))
    assert ArgumentsCheck(named).made({"outer": 1}, capability="host.x").model_dump() == {"inner": 1}
    assert refused(ArgumentsCheck(named), inner=1) == "inner: unknown argument, outer is missing (it takes outer)"


def test_an_unknown_argument_is_told_with_what_was_meant_or_is_missing_and_what_there_is() -> None:
    class Asked(Arguments):
        number: int
        style: str = ""

    check = ArgumentsCheck(Asked)
    takes = "(it takes number, style)"
    assert refused(check, nr=1) == f"nr: unknown argument, number is missing {takes}"
    assert refused(check, numbr=1) == f"numbr: unknown argument, did you mean number? {takes}"
    assert refused(check, number=1, stlye="x") == f"stlye: unknown argument, did you mean style? {takes}"
    assert refused(check, number=1, other="x") == f"other: unknown argument {takes}"
    assert refused(ArgumentsCheck(Arguments), a=1) == "a: unknown argument (it takes none)"


def test_how_much_is_told_and_looked_for_of_an_unknown_argument_is_bounded() -> None:
    fields: dict[str, Any] = {f"{'ab' * 28}{n:04}": (int, ...) for n in range(500)}
    many = create_model("many", __config__=ConfigDict(extra="forbid"), **fields)
    told = refused(ArgumentsCheck(many), **{"ba" * 30: 1})
    assert len(told) < 2_000
    assert told.endswith("and 488 more)")


@pytest.mark.parametrize("value", [[], {}, [1, [2, {"a": [3]}]], [{}, {}], {"a": {"b": {"c": []}}}])
def test_items_are_counted_as_the_bounds_of_plain_data_are(value: Any) -> None:
    items = items_of(value)
    plain.encode(value, max_items=items)
    with pytest.raises(TooLarge):
        plain.encode(value, max_items=items - 1)


def test_counting_ends_at_the_bound() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    assert items_of(endless, most=100) > 100


async def test_what_is_long_is_done_by_another_thread_at_the_guests_charge() -> None:
    meter = CallMeter(CallClock(1_000))
    assert await charged_in_thread(meter, threading.get_ident) != threading.get_ident()
    assert meter.host_cpu_ms > 0


class Kept:
    """A store of one value."""

    data: bytes | None = None

    async def get(self, tool: str, key: str) -> bytes | None:
        return self.data

    async def put(self, tool: str, key: str, value: bytes, **conditions: Any) -> bool:
        self.data = value
        return True


@pytest.mark.parametrize(("items", "moved"), [(10, False), (5_000, True)])
async def test_only_long_values_leave_the_event_loops_thread(
    items: int, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: set[str] = set()

    def watched(name: str, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            made = function(*arguments, **options)
            if threading.current_thread() is not threading.main_thread():
                whole.add(name)
            return made

        return call

    for name in ("decode", "encode", "plain"):
        monkeypatch.setattr(plain, name, watched(name, getattr(plain, name)))
    call = Asking(kv_capabilities(Kept()))  # type: ignore[arg-type]
    value = list(range(items))
    assert await call.later("kv.put", key="k", value=value) == {"stored": True}
    assert await call.later("kv.get", key="k") == {"value": value}
    assert whole == ({"decode", "encode", "plain"} if moved else set())


async def test_an_answer_that_is_awaited_was_checked_when_it_was_asked_for() -> None:
    asked: list[Any] = []

    @capability("host.echo")
    async def echo(value: int, context: CapabilityContext) -> int:
        asked.append(value)
        return value

    assert isinstance(echo, Capability)
    call = Asking([echo])
    assert await call.later("host.echo", value=1) == 1
    with pytest.raises(CapabilityError):
        call.now("host.echo", value="1")
    with pytest.raises(CapabilityError):
        await call.either("host.echo", value="1")
    assert asked == [1]
