"""What a model reads of a call: the design page "behaviour", "Runner", on text."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm.builtin.outputs import MemoryOutputs
from rho_wasm.errors import NotPlain, ToolError
from rho_wasm.rendering import cut_at_line, cut_text, error_text, model_text, value_text
from rho_wasm.results import KINDS, AskUser, Failed, Halt, HandlerResult, Ok


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Ok("as it is\n\tyes"), "as it is\n\tyes"),
        (Ok(""), ""),
        (Ok(None), "null"),
        (Ok({"a": [1, 2.5, True, "ä"]}), '{"a":[1,2.5,true,"ä"]}'),
        (Ok(b"\xfb\xff"), '"-_8"'),
        (Ok(2**200), str(2**200)),
        (Ok(datetime.date(2026, 1, 2)), '"2026-01-02"'),
        (Failed("no such user"), "no such user"),
        (Failed({"code": 7}), '{"code":7}'),
        (AskUser("Which one?", {"a": 1}), "Which one?"),
        (Halt("budget", {"left": 0}), '{"left":0}'),
        (Halt("budget", "text"), '"text"'),
        (Halt("budget"), "null"),
    ],
)
def test_the_text_of_each_answer(answer: HandlerResult, text: str) -> None:
    assert value_text(answer) == (text, ())


def test_nan_and_infinities_become_null_with_a_note() -> None:
    text, notes = value_text(Ok([math.nan, math.inf, 1.0]))
    assert text == "[null,null,1.0]"
    assert len(notes) == 1


def test_a_value_without_text_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(NotPlain):
        value_text(Ok(cycle))


def test_an_untrusted_text_keeps_lines_and_tabs_and_escapes_what_forges_a_terminal() -> None:
    text = "a\tb\r\nc\n" + "\x1b]0;owned\x07" + "over\rwrite" + "\x9b31m" + "\u202eevil\u2066" + "\U000e0041" + "\u2028"
    shown = model_text(text, trusted=False)
    assert shown == ("a\tb\r\nc\n\\u001b]0;owned\\u0007over\\u000dwrite\\u009b31m\\u202eevil\\u2066\\U000e0041\\u2028")
    assert model_text(text, trusted=True) == text


def test_an_untrusted_text_keeps_scripts_and_emoji_whole() -> None:
    text = "می‌خواهم 👩‍👩‍👧 ❤️ Straße 日本"
    assert model_text(text, trusted=False) == text


def test_lone_surrogates_that_no_api_can_send_are_replaced() -> None:
    for trusted in (True, False):
        assert model_text("a\ud800b", trusted=trusted) == "a\ufffdb"


@given(st.text())
@settings(max_examples=100)
def test_every_text_that_a_model_reads_can_be_sent(text: str) -> None:
    shown = model_text(text, trusted=False)
    shown.encode()
    assert "\x1b" not in shown
    assert model_text(shown, trusted=False) == shown


@pytest.mark.parametrize("reason", sorted(set(KINDS) - {"failed"}))
def test_a_call_without_an_answer_reads_as_one_line_with_tool_and_reason_and_what_to_do(reason: str) -> None:
    text = error_text("mytool", ToolError(reason, tool="mytool", detail="two\nlines", limit="fuel", value=7))
    assert "\n" not in text
    if reason == "blocked":
        assert text == "Blocked: two\\nlines"
    else:
        assert text.startswith("mytool ")
        assert f"({reason}, fuel=7): two\\nlines; " in text or f"({reason}, fuel=7): two\\nlines." in text


@pytest.mark.parametrize("detail", ["MemoryError:", "MemoryError: ", "MemoryError."])
def test_a_detail_that_ends_in_a_mark_goes_on_without_it(detail: str) -> None:
    text = error_text("t", ToolError("out_of_memory", tool="t", detail=detail))
    assert text.startswith("t crashed (out_of_memory): MemoryError; it needed")


def test_a_cut_ends_at_a_line_if_one_ends_in_the_second_half() -> None:
    assert cut_at_line("aaaa\nbbbb\ncccc", 12) == "aaaa\nbbbb\n"
    assert cut_at_line("aa\n" + "b" * 20, 12) == "aa\n" + "b" * 9
    assert cut_at_line("short", 12) == "short"


def test_a_long_text_is_kept_whole_and_ends_with_how_to_page_it() -> None:
    outputs, text = MemoryOutputs(), "line\n" * 100
    shown, output_id = cut_text(text, max_chars=52, outputs=outputs, session_id="s", trusted=True)
    assert output_id is not None
    assert shown.startswith("line\n" * 10 + "\n\n[cut: characters 0 to 50 of 500; ")
    assert f'read_artifact {{"id": "{output_id}", "offset": 50}}' in shown
    assert outputs.read(output_id, session_id="s") == text
    assert cut_text("short", max_chars=52, outputs=outputs, session_id="s", trusted=True) == ("short", None)


def test_a_text_that_cannot_be_kept_is_cut_and_says_so() -> None:
    shown, output_id = cut_text(
        "x" * 100, max_chars=10, outputs=MemoryOutputs(max_bytes=50), session_id=None, trusted=True
    )
    assert output_id is None
    assert shown.startswith("x" * 10 + "\n\n[cut: characters 0 to 10 of 100; the rest could not be kept")


def test_of_a_text_that_escaping_makes_long_less_is_shown_and_the_whole_is_kept() -> None:
    outputs, text = MemoryOutputs(), "\x01" * 1_000
    shown, output_id = cut_text(text, max_chars=600, outputs=outputs, session_id="s", trusted=False)
    assert output_id is not None
    assert shown.startswith("\\u0001" * 75 + "\n\n[cut: characters 0 to 75 of 1000; ")
    assert outputs.read(output_id, session_id="s") == text
