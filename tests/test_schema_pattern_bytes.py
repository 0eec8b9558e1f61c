"""What patterns become when they are compiled, and that a schema with too much of it is refused before it is."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm.errors import SchemaInvalid
from rho_wasm.schema import ArgumentSchema
from rho_wasm.schema_pattern_bytes import pattern_bytes

_KIB = 1024
_ATOMS = ["a", "é", "😀", ".", r"\d", r"\w", r"\s", r"\S", r"\W", "[a-z]", "[^a]", "[é-ü]", r"[\w.-]", r"[^\s@]"]
_ATOMS += ["abc", "()", "[aceg]", "[]a]", r"[\S_]", "[[:alpha:]]", "[Ā-￿]", r"\x{1000}", "^", "$"]
_REPEATS = ["", "", "", "?", "*", "+", "{3}", "{2,5}", "{0,4}", "{4,}", "{20}"]
_PARTS = st.lists(st.tuples(st.sampled_from(_ATOMS), st.sampled_from(_REPEATS)), min_size=1, max_size=4).map(
    lambda parts: "".join(atom + ("" if atom in "^$" else repeat) for atom, repeat in parts)
)
_GROUPS = st.tuples(st.lists(_PARTS, min_size=1, max_size=3), st.sampled_from(_REPEATS)).map(
    lambda group: f"({'|'.join(group[0])}){group[1]}"
)
_PATTERNS = st.lists(_PARTS | _GROUPS, min_size=1, max_size=4).map("".join)


def patterns(*texts: str) -> dict[str, Any]:
    return {"properties": {"x": {"allOf": [{"pattern": text} for text in texts]}}}


@settings(max_examples=25, deadline=None)
@given(_PATTERNS)
def test_no_pattern_becomes_much_larger_than_is_said_of_it(pattern: str) -> None:
    most = int(1.25 * pattern_bytes(pattern))
    options = jsonschema_rs.RegexOptions(size_limit=most, dfa_size_limit=most)
    jsonschema_rs.validator_for({"pattern": pattern}, offline=True, pattern_options=options)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(\s\S){60}",
        r"\w{60}",
        "((((a{5}){5}){5}){5}){5}",
        "(a?b?c?d?){180}",
        "([a-z][0-9]?){400}",
        "[Ā-\U0010ffff]{200}",
        r"(?i)[\S_]",
        "(?i)[Ā-￿]",
        r"(?i)[^\W_]",
        r"(?i)\p{Any}",
        r"(?x)\S {100}",
        "[aceg]{3}",
        r"^\S{0000000000105}x",
        "a{" + " " * 300 + "," + " " * 600,
        "a{b}",
    ],
)
@pytest.mark.parametrize("keys", [False, True])
def test_patterns_that_are_dear_to_compile_are_refused_before_they_are(pattern: str, keys: bool) -> None:
    many = [f"{pattern}{n}" for n in range(50)]
    schema = {"patternProperties": dict.fromkeys(many, True)} if keys else patterns(*many)
    with pytest.raises(SchemaInvalid, match=r"take more than 256 KiB when compiled.*maxLength"):
        ArgumentSchema(schema)


@pytest.mark.parametrize("slow", [r"(?i)[\D_]", r"(?i)[a-z&&\S]", r"(?i)[ -\x{10ffff}]", r"(?i:[^[^Ā-￿]])"])
def test_a_class_that_takes_long_to_fold_is_refused_however_small_it_is(slow: str) -> None:
    with pytest.raises(SchemaInvalid, match="leave out"):
        ArgumentSchema(patterns(slow))


def test_patterns_as_tools_have_them_fit_many_times() -> None:
    usual = [
        r"^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2}))?$",
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        r"^[\w.+-]+@[\w-]+\.[\w.-]+$",
        r"^[^\s@]+@[^\s@]+\.[^\s@]+$",
        r"^https?://\S+$",
        "^#[0-9a-fA-F]{6}$",
        r"^\p{L}+$",
        r"\S",
        "^.{1,500}$",
        "^[^/]{1,255}$",
        r"^[^\n]{1,500}$",
        r"^[^\r\n\t]{0,255}$",
        r"^[^\x00-\x1f]{1,1024}$",
        r"^[^\u0000-\u001f\\]{0,255}$",
        r"^[^\[\]\/.]{1,900}$",
        r"^([01]?\d|2[0-3]):[0-5]\d$",
        "^(?i)[a-z]{2}-[a-z]{2}$",
        "^[A-Za-z0-9_-]{1,64}$",
    ]
    schema = ArgumentSchema(patterns(*usual))
    assert schema.patterns == len(usual)
    assert schema.pattern_bytes < 160 * _KIB


def test_a_pattern_that_stands_in_many_places_is_compiled_once() -> None:
    schema = ArgumentSchema({"properties": {f"p{n}": {"pattern": r"^\p{L}+$"} for n in range(50)}})
    assert schema.patterns == 1
    assert schema.pattern_bytes < 64 * _KIB
