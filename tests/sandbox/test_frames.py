"""What a worker says is believed only if it is exactly what a worker says."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.limits import Limits
from rho_wasm.results import CallLog, LogLine
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.frames import (
    HEAD,
    CallAsked,
    Ended,
    Granted,
    HostCall,
    Strange,
    framed,
    framed_answer,
    framed_call,
    heard,
    is_answer,
    read_answer,
    read_call,
    read_ended,
    read_host_call,
)

LIMITS = Limits()
FAILED = Ended(failed=CallFailed("out_of_fuel", "it was", limit="fuel", value=1, trace=("f (+0x1)",)))


def read(message: dict[str, Any]) -> Ended:
    return read_ended(message, number=7, limits=LIMITS, passed_ms=100.0)


@pytest.mark.parametrize(
    "ended",
    [
        Ended(answer=b"\xa1\x62ok\xf6", fuel_used=12, guest_ms=1.5, guest_cpu_ms=1.25, memory_refused=True),
        Ended(answer=b"", log=CallLog(lines=(LogLine(30, "two"), LogLine(10, "\\x1b")), dropped_bytes=9)),
    ],
)
def test_what_a_worker_says_of_an_end_reads_back_as_it_was(ended: Ended) -> None:
    frame = framed(ended.as_message(7), max_bytes=10_000)
    assert HEAD.unpack_from(frame) == (len(frame) - HEAD.size,)
    assert read(heard(frame[HEAD.size :])) == ended


ANSWER = Ended(answer=b"\xa1\x62ok\xf6", fuel_used=12, guest_ms=1.5, guest_cpu_ms=1.25, memory_refused=True)


def answered(ended: Ended, *, number: int = 7, of: int = 7) -> Ended:
    frame = framed_answer(ended, of)
    assert frame is not None
    assert HEAD.unpack_from(frame) == (len(frame) - HEAD.size,)
    body = frame[HEAD.size :]
    assert is_answer(body)
    return read_answer(body, number=number, limits=LIMITS, passed_ms=100.0)


def test_an_answer_reads_back_as_it_was() -> None:
    assert answered(ANSWER) == ANSWER
    assert answered(Ended()) == Ended()


@pytest.mark.parametrize(
    ("ended", "number"),
    [
        (ANSWER, 8),
        (Ended(guest_ms=math.nan), 7),
        (Ended(guest_cpu_ms=-1.0), 7),
        (Ended(answer=bytes(LIMITS.answer_bytes + LIMITS.images_bytes + 1)), 7),
    ],
)
def test_an_answer_that_is_no_answer_to_the_call_is_strange(ended: Ended, number: int) -> None:
    with pytest.raises(Strange):
        answered(ended, number=number)


def test_what_an_answer_counted_is_at_most_what_it_could_have_counted() -> None:
    ended = answered(Ended(fuel_used=2**64 - 1, guest_ms=1e9, guest_cpu_ms=math.inf))
    assert (ended.fuel_used, ended.guest_ms, ended.guest_cpu_ms) == (LIMITS.fuel, 100.0, 100.0)


def test_what_has_more_to_say_is_no_answer() -> None:
    assert framed_answer(FAILED, 7) is None
    assert framed_answer(Ended(log=CallLog(lines=(LogLine(10, "x"),), dropped_bytes=0)), 7) is None
    for body in (b"", b"\x02", b"\x02" * 33, framed(FAILED.as_message(7), max_bytes=10_000)[HEAD.size :]):
        assert not is_answer(body)


@pytest.mark.parametrize(
    "granted", [None, Granted(None, None), Granted(2**62, None), Granted(0, bytes(32)), Granted(None, b"s" * 32)]
)
def test_a_call_reads_back_as_it_was(granted: Granted | None) -> None:
    asked = CallAsked(2**40, "0123456789abcdef" * 4, 1.5, granted, b"\xa0")
    frame = framed_call(asked)
    assert HEAD.unpack_from(frame) == (len(frame) - HEAD.size,)
    assert read_call(frame[HEAD.size :]) == asked
    assert read_call(framed({"drop": "x"}, max_bytes=100)[HEAD.size :]) is None


def test_a_failure_reads_back_as_it_was() -> None:
    failed = read(FAILED.as_message(7)).failed
    assert failed is not None
    assert FAILED.failed is not None
    for name in ("reason", "detail", "limit", "value", "trace"):
        assert getattr(failed, name) == getattr(FAILED.failed, name)


@pytest.mark.parametrize("body", [b"", b"\xff", b"\x80", b"\x01", b"\xa1\x01\x01", b"\xa0\xa0", b"\xc0\x60"])
def test_bytes_that_are_no_message_are_strange(body: bytes) -> None:
    with pytest.raises(Strange):
        heard(body)


@pytest.mark.parametrize(
    "change",
    [
        {"ended": 8},
        {"ended": True},
        {"ended": "7"},
        {"answer": "text"},
        {"answer": bytes(LIMITS.answer_bytes + LIMITS.images_bytes + 1)},
        {"fuel": 1.0},
        {"fuel": -1},
        {"fuel": True},
        {"ms": 1},
        {"ms": math.nan},
        {"cpu_ms": -1.0},
        {"refused": 0},
        {"more": 1},
        {"log": []},
        {"log": b"\x80", "dropped": None},
        {"log": [], "dropped": 0},
        {"log": b"\xff", "dropped": 0},
        {"log": b"\xa0", "dropped": 0},
        {"log": plain.encode([[10, "a", 1]]), "dropped": 0},
        {"log": plain.encode([["10", "a"]]), "dropped": 0},
        {"log": plain.encode([[10, b"a"]]), "dropped": 0},
        {"log": plain.encode([[10, "a" * 1_000_000]]), "dropped": 0},
    ],
)
def test_an_end_that_is_none_is_strange(change: dict[str, Any]) -> None:
    with pytest.raises(Strange):
        read(Ended(answer=b"x").as_message(7) | change)


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "failed"},
        {"reason": "killed"},
        {"reason": None},
        {"detail": 1},
        {"limit": "model_fields"},
        {"limit": b"fuel"},
        {"value": "1"},
        {"trace": "abc"},
        {"trace": [1]},
        {"trace": ["x"] * 65},
        {"more": 1},
    ],
)
def test_a_failure_that_there_is_not_is_strange(change: dict[str, Any]) -> None:
    message = FAILED.as_message(7)
    with pytest.raises(Strange):
        read(message | {"failed": message["failed"] | change})


def test_a_worker_cannot_count_more_than_there_was() -> None:
    ended = read(Ended(fuel_used=10**18, guest_ms=1e9, guest_cpu_ms=math.inf).as_message(7))
    assert (ended.fuel_used, ended.guest_ms, ended.guest_cpu_ms) == (LIMITS.fuel, 100.0, 100.0)


def test_whatever_text_a_worker_sends_is_made_inert() -> None:
    hostile = "\x1b[2J\u202e"
    ended = read(
        Ended(
            failed=CallFailed("trapped", hostile, trace=(hostile,)),
            log=CallLog(lines=(LogLine(99, hostile),), dropped_bytes=-5),
        ).as_message(7)
    )
    inert = "\\x1b[2J\\u202e"
    assert ended.failed is not None
    assert (ended.failed.detail, ended.failed.trace) == (inert, (inert,))
    assert ended.log == CallLog(lines=(LogLine(40, inert),), dropped_bytes=0)


def ask(message: dict[str, Any]) -> HostCall:
    return read_host_call(message, number=7, limits=LIMITS, declared=frozenset({"clock"}))


def test_a_host_call_is_read_within_the_limits_of_a_guest() -> None:
    good = {"call": 7, "capability": "clock", "arguments": plain.encode({"a": 1})}
    assert ask(good) == HostCall("clock", {"a": 1})
    deep: Any = 1
    for _ in range(LIMITS.depth + 1):
        deep = [deep]
    for change in (
        {"call": 8},
        {"capability": "http.fetch"},
        {"capability": ["clock"]},
        {"arguments": {"a": 1}},
        {"arguments": plain.encode([1])},
        {"arguments": b"\xff"},
        {"arguments": plain.encode({"a": deep}, max_depth=1_000)},
        {"more": 1},
    ):
        with pytest.raises(Strange):
            ask(good | change)
