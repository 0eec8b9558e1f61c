"""Text, names, traces and pictures of things that are not trusted."""

from __future__ import annotations

import sys
import types
import unicodedata
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm import untrusted
from rho_wasm.untrusted import exception_text, exception_trace, image_type, inert, type_name, unsafe_characters

# -- inert


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("plain words, é 水 👍", "plain words, é 水 👍"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\rb\nc\td", r"a\rb\nc\td"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("\U000e0041\U000e0100", r"\U000e0041\U000e0100"),
        ("a\u2028b", r"a\u2028b"),
        ("a\ud800b", r"a\ud800b"),
        ("\u3164\u115f", r"\u3164\u115f"),
        ("wide\u00a0space", "wide\u00a0space"),
    ],
)
def test_what_could_act_on_a_screen_or_hide_on_it_is_escaped(given_text: str, shown: str) -> None:
    assert inert(given_text) == shown


def test_line_feeds_stay_where_they_are_asked_for() -> None:
    assert inert("a\nb\rc", newlines=True) == "a\nb\\rc"


def test_a_long_text_ends_with_how_much_is_missing() -> None:
    shown = inert("x" * 1_000_000, limit=100)
    kept = shown.count("x")
    assert len(shown) <= 100
    assert shown == "x" * kept + f"… ({1_000_000 - kept} more characters)"


def test_escapes_are_never_cut_in_two() -> None:
    shown = inert("\u202e" * 100, limit=100)
    escaped, _, notice = shown.partition("…")
    assert len(shown) <= 100
    assert escaped == r"\u202e" * (len(escaped) // 6)
    assert notice == f" ({100 - len(escaped) // 6} more characters)"


@given(st.text(st.characters() | st.sampled_from("\u202e\x1b\U000e0041\ud800\n")), st.integers(1, 80), st.booleans())
@settings(max_examples=100)
def test_whatever_the_text_the_result_is_printable_and_within_the_limit(text: str, limit: int, newlines: bool) -> None:
    shown = inert(text, limit=limit, newlines=newlines)
    assert len(shown) <= limit
    for character in shown:
        assert unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"} or character == "\n"
    assert newlines or "\n" not in shown
    shown.encode()


def test_a_text_of_a_subclass_is_read_as_text() -> None:
    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            raise AssertionError("foreign code ran")

        __getitem__ = __len__ = __iter__ = isascii = __str__  # type: ignore[assignment]

    assert type(inert(Text("abc"))) is str
    assert inert(Text("abc")) == "abc"


# -- names and exceptions


def ran(*_: Any) -> NoReturn:
    raise AssertionError("foreign code ran")


class Meta(type):
    __name__ = property(ran)
    __getattribute__ = ran


class Sly(Exception, metaclass=Meta):
    __str__ = __repr__ = ran
    args = property(ran)
    __traceback__ = property(ran)
    __class__ = property(ran)
    __getattribute__ = ran


class Thing:
    __str__ = __repr__ = __format__ = ran


def test_a_class_is_named_without_asking_it() -> None:
    assert type_name(1) == "int"
    assert type_name(Sly()) == "Sly"
    assert type_name(type("\x1b" + "x" * 1000, (), {})()).startswith(r"\x1bxxx")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (KeyError("k"), "KeyError: k"),
        (OSError(2, "No such file"), "FileNotFoundError: 2, No such file"),
        (ValueError(1.5, None, True, b"\xff"), r"ValueError: 1.5, None, True, b'\xff'"),
        (ValueError(10**10_000), "ValueError: (a long integer)"),
        (ValueError("a\x1b[2J\nb"), r"ValueError: a\x1b[2J\nb"),
        (ValueError(Thing()), "ValueError: (Thing)"),
        (Sly("kept", Thing()), "Sly: kept, (Thing)"),
    ],
    ids=lambda value: type_name(value),
)
def test_an_exception_is_told_without_running_it(error: BaseException, text: str) -> None:
    assert exception_text(error) == text


def test_a_trusted_exception_is_asked_and_one_that_fails_at_it_is_not() -> None:
    assert exception_text(KeyError("k"), trusted=True) == "KeyError: 'k'"
    assert exception_text(Sly("kept"), trusted=True) == "Sly: kept"


def test_the_text_of_an_exception_is_one_bounded_line() -> None:
    for trusted in (False, True):
        text = exception_text(ValueError("a\n" * 1_000_000, "b" * 1_000_000), trusted=trusted)
        assert len(text) <= 2000
        assert text.isprintable()
    assert len(exception_text(ValueError(*range(10_000)))) < 200


def deep(levels: int) -> None:
    if levels == 0:
        raise ValueError("bottom")
    deep(levels - 1)


def caught(levels: int) -> BaseException:
    with pytest.raises(ValueError, match="bottom") as info:
        deep(levels)
    return info.value


def test_a_trace_names_the_innermost_frames_first() -> None:
    trace = exception_trace(caught(3))
    assert len(trace) == 5
    assert all(line.startswith("deep (test_untrusted.py:") for line in trace[:4])
    assert trace[4].startswith("caught (test_untrusted.py:")


def test_a_trace_is_bounded_in_lines_and_width() -> None:
    trace = exception_trace(caught(200))
    assert len(trace) == 64
    assert all(line.startswith("deep") for line in trace)
    assert all(len(line) <= 20 for line in exception_trace(caught(200), width=20))


def test_a_trace_tells_no_folder_and_no_escape() -> None:
    code = deep.__code__.replace(co_name="\x1b[31m", co_filename="/home/secret/tool.py")
    try:
        types.FunctionType(code, {"deep": deep})(0)
    except ValueError as error:
        line = exception_trace(error)[0]
    assert line == rf"\x1b[31m (tool.py:{deep.__code__.co_firstlineno + 2})"


def test_an_exception_that_hides_its_traceback_is_traced_all_the_same() -> None:
    error = Sly()
    try:
        raise error
    except BaseException:
        assert sys.exc_info()[1] is error
        assert len(exception_trace(error)) == 1


def test_an_exception_that_was_never_raised_has_no_trace() -> None:
    assert exception_trace(ValueError()) == ()


# -- pictures


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"GIF87a....", "image/gif"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (b"<?xml version='1.0'?><svg/>", None),
        (b"\x89PNG", None),
        (b"GIF88a", None),
        (b"BM....", None),
        (b"", None),
    ],
)
def test_a_picture_is_what_its_first_bytes_say(data: bytes, mime_type: str | None) -> None:
    assert image_type(data) == mime_type


# -- descriptions


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Counts words.\n\n\tFast.", None),
        ("Zählt Wörter, 数える, 👨\u200d👩\u200d👧, می\u200cخواهم", None),
        ("a\x1b[31m", "U+001B CONTROL"),
        ("a\rb", "U+000D CONTROL"),
        ("a\u202eb", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("a\u2066b", "U+2066 LEFT-TO-RIGHT ISOLATE"),
        ("a\U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER A"),
        ("a\U000e0101", "U+E0101 VARIATION SELECTOR-18"),
        ("a\u200bb", "U+200B ZERO WIDTH SPACE"),
        ("a\ud800", "U+D800 SURROGATE"),
    ],
)
def test_the_first_character_that_a_description_may_not_carry_is_named(text: str, named: str | None) -> None:
    assert unsafe_characters(text) == named


def test_the_public_names_are_sorted() -> None:
    assert list(untrusted.__all__) == sorted(untrusted.__all__)


def test_names_of_code_that_are_no_plain_text_are_never_asked() -> None:
    class Sly(str):
        __slots__ = ()

        def replace(self, *_: Any, **__: Any) -> NoReturn:
            raise AssertionError("foreign code ran")

        __format__ = rpartition = replace

    def fails() -> None:
        raise ValueError

    fails.__code__ = fails.__code__.replace(co_filename=Sly("/x/evil.py"), co_name=Sly("evil"))
    try:
        fails()
    except ValueError as error:
        line = exception_trace(error)[0]
    assert line.startswith("evil (evil.py:")
