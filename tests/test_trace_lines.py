"""The line that a backtrace of an interpreted language names, however hostile the rest of it is."""

from __future__ import annotations

import pytest

from rho_wasm.trace_lines import both_ends, innermost_line, source_lines, with_texts

FRAMES = ("... more ...", "near tool.js:2 in a", "tool.js:3", "tool.js:4 in b: text", "function 7 (+0x1)")


def test_of_many_frames_both_ends_are_kept() -> None:
    frames = [*"abcdefgh"]
    assert both_ends(frames, 8) == frames
    assert both_ends(frames, 7) == ["a", "b", "c", "... 2 more ...", "f", "g", "h"]
    assert both_ends(frames, 4) == ["a", "b", "... 5 more ...", "h"]
    assert both_ends(frames, 3) == ["a", "... 6 more ...", "h"]
    assert both_ends([], 3) == []
    assert both_ends([*"ab", "... 953 more ...", *"cdef"], 4) == ["a", "b", "... 956 more ...", "f"]


def test_the_innermost_line_is_the_first_or_the_last() -> None:
    assert innermost_line(FRAMES, lines=9) == 2
    assert innermost_line(FRAMES, lines=9, last=True) == 4


def test_a_line_that_the_source_does_not_have_is_none() -> None:
    assert innermost_line(FRAMES, lines=3) == 2
    assert innermost_line(FRAMES, lines=3, last=True) == 3
    assert innermost_line(FRAMES, lines=1) is None
    assert innermost_line((), lines=1) is None


@pytest.mark.parametrize(
    "frame", ["3 in t", "a:b:3 in t", "tool.py:3x", "tool.py:٣ in t", "x" * 200 + ":3 in t", "t:03"]
)
def test_what_is_no_place_is_none(frame: str) -> None:
    assert innermost_line((frame,), lines=9) is None


def test_the_text_of_a_line_is_put_behind_a_frame_that_has_none() -> None:
    source = "first\n  second  \nthird"
    assert with_texts(["near t.js:2 in a", "t.js:3", "t.js:1 in b: said"], source) == [
        "near t.js:2 in a: second",
        "t.js:3: third",
        "t.js:1 in b: said",
    ]


def test_lines_are_counted_as_python_and_javascript_do() -> None:
    source = "a\x0c\x0b\x1c\u2028\x85b\r\nsecond\rthird\n"
    assert source_lines(source) == ["a\x0c\x0b\x1c\u2028\x85b", "second", "third", ""]
    assert with_texts(["t.py:2 in a", "t.py:3"], source) == ["t.py:2 in a: second", "t.py:3: third"]


def test_a_line_of_code_that_a_tool_made_out_of_text_is_no_line_of_its_source() -> None:
    frames = ["made.py:2 in f", "made.py:1 in <module>", "tool.py:3 in t"]
    assert innermost_line(frames, lines=9) == 3
    assert innermost_line(frames[::-1], lines=9, last=True) == 3
    assert with_texts(frames, "first\nsecond\nthird") == [*frames[:2], "tool.py:3 in t: third"]


def test_a_line_of_the_text_without_types_is_no_line_of_the_source() -> None:
    assert innermost_line(["near t.ts without types:2 in a"], lines=9) is None
    assert innermost_line(["t.py:2 in a: tools without types: none"], lines=9) == 2


@pytest.mark.parametrize(
    "frame", ["t.ts without types:2 in a", "t.js:4 in a", "t.js:2\nx", "... more ...", "main (+0x1)", "t.js:2 in a:b"]
)
def test_other_frames_are_as_they_are(frame: str) -> None:
    assert with_texts([frame], "first\nsecond\nthird") == [frame]
    assert with_texts(["t.js:2 in a"], None) == ["t.js:2 in a"]
