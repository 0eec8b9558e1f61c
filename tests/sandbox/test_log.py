"""A call's log: bounded in bytes and lines, what does not fit is counted."""

from __future__ import annotations

import pytest

from rho_wasm.results import CallLog, LogLine
from rho_wasm.sandbox.log import MAX_LINES, LogBuffer, log_level


@pytest.mark.parametrize(
    ("given", "level"),
    [(10, 10), (20, 20), (30, 30), (40, 40), (0, 10), (-(2**31), 10), (24, 20), (50, 40), (2**31, 40)],
)
def test_a_level_is_the_nearest_known_one(given: int, level: int) -> None:
    assert log_level(given) == level


def test_lines_that_fit_are_kept_whole() -> None:
    log = LogBuffer(5)
    log.line(20, b"ab")
    log.line(30, b"cde")
    assert log.finish() == CallLog((LogLine(20, "ab"), LogLine(30, "cde")))
    assert log.room == 0


def test_a_line_over_the_room_is_cut_and_the_rest_is_counted() -> None:
    log = LogBuffer(3)
    log.line(20, b"abcde", dropped=10)
    log.line(20, b"f")
    log.line(20, b"", dropped=7)
    assert log.finish() == CallLog((LogLine(20, "abc"),), dropped_bytes=2 + 10 + 1 + 7)


def test_empty_lines_are_lines_up_to_a_bound() -> None:
    log = LogBuffer(100)
    for _ in range(MAX_LINES + 10):
        log.line(20, b"")
    log.line(20, b"late")
    finished = log.finish()
    assert len(finished) == MAX_LINES
    assert finished.dropped_bytes == 4


def test_a_stream_is_cut_into_lines_and_ends_with_the_call() -> None:
    log = LogBuffer(100)
    for piece in (b"he", b"llo\nwor", b"ld\n\nlast"):
        log.stream(20, piece)
    assert [line.text for line in log.finish()] == ["hello", "world", "", "last"]


def test_two_streams_do_not_mix() -> None:
    log = LogBuffer(100)
    log.stream(20, b"out")
    log.stream(30, b"err\n")
    log.stream(20, b"put\n")
    assert list(log.finish()) == [LogLine(30, "err"), LogLine(20, "output")]


def test_a_stream_over_the_room_is_counted() -> None:
    log = LogBuffer(4)
    log.stream(20, b"abcdef\n", dropped=3)
    assert log.finish() == CallLog((LogLine(20, "abcd"),), dropped_bytes=3 + 3)


def test_a_note_is_said_once_and_needs_no_room() -> None:
    log = LogBuffer(0)
    log.note("careful", level=30)
    log.note("careful", level=30)
    assert log.finish() == CallLog((LogLine(30, "careful"),))


def test_text_is_inert_and_whole() -> None:
    log = LogBuffer(100)
    log.line(20, b"\x1b" * 50)
    log.line(20, "step 1\tstep 2\u202e\U000e0041".encode())
    texts = [line.text for line in log.finish().lines]
    assert texts == ["\\x1b" * 50, "step 1\\tstep 2\\u202e\\U000e0041"]
    assert all(text.isprintable() for text in texts)
