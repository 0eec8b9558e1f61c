"""The line that a backtrace of an interpreted language names, however hostile the rest of it is."""

from __future__ import annotations

import pytest

from rho_wasm.trace_lines import innermost_line

FRAMES = ("... more ...", "near tool.js:2 in a", "tool.js:3", "tool.js:4 in b: text", "function 7 (+0x1)")


@pytest.mark.parametrize(("language", "line"), [("python", 4), ("javascript", 2), ("typescript", 2), ("", 2)])
def test_the_innermost_line_stands_where_the_language_says_it(language: str, line: int) -> None:
    assert innermost_line(FRAMES, language=language, lines=9) == line


def test_a_line_that_the_source_does_not_have_is_none() -> None:
    assert innermost_line(FRAMES, language="javascript", lines=3) == 2
    assert innermost_line(FRAMES, language="python", lines=3) == 3
    assert innermost_line(FRAMES, language="python", lines=1) is None
    assert innermost_line((), language="python", lines=1) is None


@pytest.mark.parametrize(
    "frame", ["3 in t", "a:b:3 in t", "tool.py:3x", "tool.py:٣ in t", "x" * 200 + ":3 in t", "t:03"]
)
def test_what_is_no_place_is_none(frame: str) -> None:
    assert innermost_line((frame,), language="python", lines=9) is None
