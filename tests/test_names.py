"""Names: what a tool may be called, and what is too much like a name that the host keeps."""

from __future__ import annotations

import pytest

from rho_wasm.errors import NameInvalid, NameReserved
from rho_wasm.names import RESERVED, Reservations, folded, problem_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("invoice", "INVOICE"),
        ("read_file", "readfile"),
        ("read_file", "read-file"),
        ("todo", "t0d0"),
        ("pay_all", "pay_a1I"),
        ("list", "1i5t"),
        ("send_sms", "5end-5m5"),
        ("memory_write", "rnemory_vvrite"),
        ("big_size", "6ig_5i2e"),
        ("b64", "884"),
        ("tag", "ta9"),
    ],
)
def test_names_that_look_alike_fold_to_the_same(one: str, other: str) -> None:
    assert folded(one) == folded(other)


@pytest.mark.parametrize(("one", "other"), [("pay", "play"), ("list", "lint"), ("sum3", "sum4"), ("do", "du")])
def test_names_that_differ_to_the_eye_fold_differently(one: str, other: str) -> None:
    assert folded(one) != folded(other)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "a" * 65, "a__b", "__", None, 7, ["a"]])
def test_what_is_no_name_says_why(name: object) -> None:
    assert problem_of(name)


@pytest.mark.parametrize("name", ["a", "A-b_9", "a" * 64, "_", "-", "a_-_b"])
def test_names_that_every_model_api_takes_are_names(name: str) -> None:
    assert problem_of(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "read_artifact",
        "todo",
        "write_tool",
        "test_tool",
        "read_tool",
        "switch_tools",
        "roll_back_tools",
        "tool_status",
        "call_tool",
    ],
)
def test_names_of_built_in_and_workshop_tools_and_call_tool_are_reserved_while_they_are_off(name: str) -> None:
    assert name in RESERVED
    reservations = Reservations()
    for variant in (name, name.upper(), name.replace("_", "-"), name.replace("o", "0"), name.replace("l", "1")):
        with pytest.raises(NameReserved) as caught:
            reservations.check(variant)
        assert caught.value.reserved == name


def test_a_reserved_name_says_which_name_it_looks_like_and_why() -> None:
    error = Reservations(core=["pay"]).holds("P-a_y")
    assert error is not None
    assert (error.reason, error.name, error.reserved) == ("name_reserved", "P-a_y", "pay")
    assert "core tool" in str(error)
    assert "looks like 'pay'" in str(error)


def test_names_that_the_host_reserves_are_reserved_too() -> None:
    with pytest.raises(NameReserved, match="the host reserved it"):
        Reservations(reserved=["deploy"]).check("dep1oy")


def test_two_underscores_are_no_name_because_clients_use_them_as_a_prefix() -> None:
    with pytest.raises(NameInvalid, match="prefix"):
        Reservations().check("server__tool")
