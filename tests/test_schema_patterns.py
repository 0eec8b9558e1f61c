"""What a pattern may cost: simple ones are cheap, and nothing makes a costly one look simple."""

from __future__ import annotations

import pytest

from rho_wasm.schema_patterns import pattern_ns_per_char

CHEAP = 6
COMMON = [
    "^[a-z]+$",
    "^[a-z][a-z0-9_]{0,63}$",
    r"^\d{4}-\d{2}-\d{2}$",
    "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
    "^[a-z0-9]+(?:-[a-z0-9]+)*$",
    "^.*$",
    "",
]


@pytest.mark.parametrize("pattern", COMMON)
def test_the_patterns_of_usual_tools_are_cheap(pattern: str) -> None:
    assert pattern_ns_per_char("^" + pattern.removeprefix("^")) == CHEAP


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("^[ab]*(a[ab]{200}c|.)*$", 200),
        ("^[ab]*a[ab]{200}$", 200),
        ("^([ab]{20}){10}[ab]*[ab]{90}", 90),
        ("^(([ab]?){20}){10}c", 200),
        ("[ab]{300}", 300),
        ("^[ab]{300}|c", 300),
        ("^(?:[ab]{300}|c)", 300),
        ("^[ab]*" + "[ab]?" * 150, 150),
        (r"^[ab]*[\]{1}]{70}", 70),
        (r"^[ab]*\p{L}{70}", 70),
        (r"^[ab]*(?<name>[ab]){70}", 70),
        (r"^[ab]{2,}[ab]{0,80}", 80),
    ],
)
def test_states_that_can_live_at_once_are_paid_for(pattern: str, states: int) -> None:
    assert pattern_ns_per_char(pattern) >= 10 * states


@pytest.mark.parametrize(
    "pattern", ["(?x)a { 900 }", "[[a]{9}]{9}", "[]a]{9}", "a**", "(", ")", "[", "\\", "a{9}{9}", "(?=a)"]
)
def test_what_is_not_understood_is_taken_to_be_as_large_as_can_be(pattern: str) -> None:
    assert pattern_ns_per_char(pattern) >= 100_000


def test_a_word_boundary_is_never_cheap() -> None:
    assert pattern_ns_per_char(r"^\bab$") > 100


def test_groups_in_groups_do_not_make_it_crash() -> None:
    assert pattern_ns_per_char("(" * 500 + "a" + ")" * 500) > 1_000
