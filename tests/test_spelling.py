"""Mistyped names: what was probably meant."""

from __future__ import annotations

import pytest

from rho_wasm.capability_names import misnamed, misspelt
from rho_wasm.spelling import did_you_mean, one_slip_apart


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("kv.get", "kv.get", True),
        ("kv.gett", "kv.get", True),
        ("v.get", "kv.get", True),
        ("kv.gte", "kv.get", True),
        ("kx.get", "kv.get", True),
        ("", "a", True),
        ("db.get", "kv.get", False),
        ("vk.gte", "kv.get", False),
        ("kv.getall", "kv.get", False),
        ("", "ab", False),
    ],
)
def test_one_slip_is_one_character_or_two_in_the_wrong_order(one: str, other: str, apart: bool) -> None:
    assert one_slip_apart(one, other) is apart
    assert one_slip_apart(other, one) is apart


def test_a_name_that_is_like_none_has_no_suggestion() -> None:
    assert did_you_mean("enabled", ["on", "skip"]) == ""
    assert did_you_mean("tik", ["tok", "a"]) == "; did you mean 'tok'?"
    assert did_you_mean("b", ["a"]) == ""
    assert did_you_mean("fule", ["fuel", "depth"]) == "; did you mean 'fuel'?"
    assert did_you_mean("x" * 1_000_000, ["x" * 100]) == "; did you mean 'xxx" + "x" * 97 + "'?"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("http.fetsh", "no capability that ships is called http.fetsh; did you mean 'http.fetch'?"),
        ("kv.gett", "no capability that ships is called kv.gett; did you mean 'kv.get'?"),
        ("fetch", "no capability that ships is called fetch"),
        ("log.\x1b[31m", "no capability that ships is called log.\\x1b[31m"),
        ("kv.get", None),
        ("invoice.lookup", None),
        ("db.get", None),
    ],
)
def test_a_name_that_is_surely_wrong_is_told_in_one_line(name: str, words: str | None) -> None:
    assert misnamed(name) == words
    assert misspelt(name) is (words is not None)
