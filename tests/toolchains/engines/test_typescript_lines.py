"""A printer's lines are moved back, and nothing but breaks and blanks between them ever changes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.toolchains.engines.typescript_lines import KEPT_CHARS, KEPT_LINES, Placed, in_place


def _without_blank_lines(text: str) -> str:
    return re.sub(r"\n+", "\n", text)


def _anything(text: str) -> str:
    """A parser that finds all texts alike: what holds with it holds by construction."""
    return ""


def test_lines_that_a_printer_moved_are_moved_back() -> None:
    source = "let a = 1;\n\n\nlet b = 2;\n\nlet c = 3;\n"
    assert in_place(source, _without_blank_lines, _anything) == Placed(source, True)


def test_lines_that_a_printer_made_go_behind_those_before() -> None:
    source = "f({a, b});\nlet c = 3;\nlet d = 4;\n"
    placed = in_place(source, lambda text: text.replace("{a, b}", "{\n\ta,\n\tb\n}"), _anything)
    assert placed == Placed("f({ a, b });\nlet c = 3;\nlet d = 4;\n", True)


@pytest.mark.parametrize("made", ["// c", "'https://c';", "a // ;", "b", "return", "#!x;"])
def test_nothing_goes_behind_a_comment_or_what_may_be_none_or_where_a_break_may_count(made: str) -> None:
    source = f"{made}\nlet c = 3;\nlet d = 4;\n"
    placed = in_place(source, lambda text: text.replace(made, f"{made}\n{made}"), _anything)
    assert placed == Placed(f"{made}\n{made}\nlet c = 3; let d = 4;\n", False)


@given(st.text(alphabet="`/\\*'\"{}()[];,$a \n#!-+", max_size=80))
def test_only_breaks_between_lines_change(source: str) -> None:
    bare = source.replace(";", ";\n").replace("{", "{\n")
    placed = in_place(source, lambda text: bare if text == source else text, _anything).text
    assert placed.split() == bare.split()
    behind_comments = [line.strip() for line in bare.split("\n") if "//" in line]
    assert [
        line.strip()[-len(each) :]
        for line, each in zip((line for line in placed.split("\n") if "//" in line), behind_comments, strict=True)
    ] == behind_comments


def test_where_two_texts_read_differently_the_printed_one_is_taken() -> None:
    source = "let a = 1;\n\n\nlet b = 2;\n"
    assert in_place(source, _without_blank_lines, str) == Placed("let a = 1;\nlet b = 2;\n", False)


def test_where_a_comment_changes_what_is_printed_no_line_is_followed() -> None:
    source = "let a = 1;\nlet b = 2;\n"
    assert in_place(source, lambda text: text if "/*" not in text else text + "let c;", str) == Placed(source, False)


@pytest.mark.parametrize("error", [ValueError("a comment"), CallFailed("out_of_fuel", "all of it"), MemoryError()])
def test_a_second_run_that_fails_costs_the_lines_and_nothing_else(error: Exception) -> None:
    def refuses(text: str) -> str:
        if "/*" in text:
            raise error
        return text

    source = "let a = 1;\nlet b = 2;\n"
    assert in_place(source, refuses, str) == Placed(source, False)


def test_what_the_clock_ends_is_not_taken_half_done() -> None:
    def slow(text: str) -> str:
        if "/*" in text:
            raise CallFailed("deadline", "too late")
        return text

    with pytest.raises(CallFailed):
        in_place("let a = 1;\nlet b = 2;\n", slow, str)


@pytest.mark.parametrize("long", ["\n" * KEPT_LINES, ";" * (KEPT_CHARS + 1)])
def test_a_long_text_is_taken_as_it_is_printed(long: str) -> None:
    runs: list[str] = []

    def strip(text: str) -> str:
        runs.append(text)
        return text

    assert in_place(long, strip, str) == Placed(long, False)
    assert runs == [long]


def test_numbers_that_the_source_makes_up_move_nothing_far() -> None:
    source = "let a = '/*rh' + 'o:99999999*/';\nlet b = 2;\n"
    placed = in_place(source, lambda text: text.replace("' + '", ""), _anything).text
    assert placed.count("\n") <= 4


@pytest.mark.parametrize(
    "source",
    [
        *("/" * 20_000, "/[" * 20_000, "`${" * 10_000, "'\\" * 20_000, "/*" * 20_000, "{" * 20_000, "\n" * 4_000),
        *("if(1)/`/;\n`" + "/[\\\n" * 4_000, "'\\\n" * 4_000, "`\\", "`", "\\", "/`/\n// \\"),
    ],
)
def test_odd_sources_take_time_in_proportion(source: str) -> None:
    placed = in_place(source, lambda text: text if ":" not in text else source, _anything)
    assert placed.text.split() == source.split()
