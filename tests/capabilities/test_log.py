from __future__ import annotations

import threading
from typing import Any

import pytest

from rho_wasm.capabilities.log import log_capabilities
from rho_wasm.errors import CapabilityError
from rho_wasm.events import ToolLogged
from rho_wasm.results import LogLine
from tests.capabilities.asking import Asking


def line(message: str, **fields: Any) -> str:
    call = Asking(log_capabilities(None))
    assert call.now("log.write", message=message, fields=fields) is None
    (logged,) = call.log()
    return logged.text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("word", "word"),
        ("größe/α:1.5", "größe/α:1.5"),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "no"', '"say \\"no\\""'),
        ("", '""'),
        ("1", '"1"'),
        ("null", '"null"'),
        ("nullable", "nullable"),
        (1, "1"),
        (1.5, "1.5"),
        (None, "null"),
        (True, "true"),
        (float("nan"), "null"),
        (b"\xff\xfe", '"__4"'),
        ([1, "a"], '[1,"a"]'),
        ({"b": 1}, '{"b":1}'),
    ],
)
def test_a_field_reads_as_what_it_is(value: Any, shown: str) -> None:
    assert line("asked", key=value) == f"asked key={shown}"


@pytest.mark.parametrize(
    "text",
    [
        "a\nERROR forged",
        "a\r\nb",
        "\x1b]0;title\x07",
        "\u2028line",
        "\u202eright to left",
        "\U000e0041tag",
        "\x9b31m",
        "\0",
    ],
)
def test_nothing_begins_a_line_or_moves_a_terminal(text: str) -> None:
    for shown in (line(text), line("m", k=text), line("m", **{text: "v"}), line("m", k=[{text: text}])):
        assert shown.isprintable()


@pytest.mark.parametrize(
    ("given", "level"),
    [(10, 10), (20, 20), (30, 30), (40, 40), ("debug", 10), ("info", 20), ("warning", 30), ("error", 40)],
)
def test_a_level_is_a_number_or_a_name(given: int | str, level: int) -> None:
    call = Asking(log_capabilities(None))
    call.now("log.write", message="m", level=given)
    assert call.log() == (LogLine(level, "m"),)


async def test_an_event_has_the_fields_and_is_told_in_the_event_loops_thread() -> None:
    told: list[Any] = []
    threads: set[int] = set()

    def hear(event: Any) -> None:
        told.append(event)
        threads.add(threading.get_ident())

    call = Asking(log_capabilities(hear), tool="pay")
    fields = {"amount": 12.5, "to\n": "x\x1b[0m", "raw": b"\0", "tags": ["a"]}
    assert await call.later("log.write", message="sent\n", level="warning", fields=fields) is None
    assert told == [
        ToolLogged(
            call=call.call,
            tool="pay",
            level=30,
            message="sent\\n",
            fields={"amount": 12.5, "to\\n": "x\\x1b[0m", "raw": b"\0", "tags": ["a"]},
            session_id="s",
        )
    ]
    assert threads == {threading.get_ident()}
    assert [each.level for each in call.log()] == [30]


def test_a_line_is_bounded_in_all_its_parts() -> None:
    assert len(line("m" * 100_000)) <= 2_000
    assert len(line("m", **{"k" * 1_000: "v" * 5_000})) < 600
    assert len(line("m" * 5_000, **{f"k{number}": "v " * 200 for number in range(15)})) <= 4_000


@pytest.mark.parametrize(
    "fields",
    [
        {"k": "v" * 9_000},
        {"k": list(range(300))},
        {str(number): number for number in range(33)},
        {"k": [[[[[[[[[1]]]]]]]]]},
    ],
)
async def test_fields_that_are_too_much_are_refused(fields: dict[str, Any]) -> None:
    told: list[Any] = []
    call = Asking(log_capabilities(told.append))
    with pytest.raises(CapabilityError) as caught:
        await call.later("log.write", message="m", fields=fields)
    assert caught.value.kind == "invalid_arguments"
    assert not told
    assert not call.log()


async def test_a_guest_that_logs_in_a_loop_is_told_of_as_far_as_a_log_goes() -> None:
    told: list[Any] = []
    call = Asking(log_capabilities(told.append))
    for _ in range(100):
        await call.later("log.write", message="m" * 500, fields={"k": "v" * 500})
    assert 60 < len(told) < 66
    assert sum(len(each.text) for each in call.log()) <= 65_536


@pytest.mark.parametrize(
    "arguments", [{}, {"message": 1}, {"message": "m", "level": 15}, {"message": "m", "level": "fatal"}, {"text": "m"}]
)
def test_what_is_no_line_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(CapabilityError) as caught:
        Asking(log_capabilities(None)).now("log.write", **arguments)
    assert caught.value.kind == "invalid_arguments"
