"""The error tree: drawn as it is, built from typed fields, printed for scripts."""

from __future__ import annotations

import inspect
import json
import re

import pytest

from rho_wasm import errors
from rho_wasm.errors import (
    BuildError,
    CapabilityError,
    Closed,
    Corrupt,
    Diagnostic,
    GateRejected,
    GenerationConflict,
    Locked,
    Malformed,
    ModuleRejected,
    NameInvalid,
    NameReserved,
    NotATool,
    NotPlain,
    PolicyError,
    RhoError,
    SchemaInvalid,
    StoreError,
    TooLarge,
    ToolError,
    UnknownGeneration,
    VersionMismatch,
)

CASES: list[tuple[RhoError, str, str]] = [
    (ToolError("deadline", tool="t"), "deadline", "t: deadline"),
    (
        ToolError("out_of_fuel", tool="t", limit="fuel", value=9, detail="d"),
        "out_of_fuel",
        "t: out_of_fuel (fuel=9): d",
    ),
    (ToolError("trapped", tool="t", limit="stack"), "trapped", "t: trapped (stack)"),
    (NotPlain("$.a", "set"), "not_plain", "$.a: set is not plain data: plain data is"),
    (Malformed("why", 3), "malformed", "not plain CBOR: why (at byte 3)"),
    (Malformed("why"), "malformed", "not plain CBOR: why"),
    (TooLarge("bytes", 5, 6), "too_large", "too large: more than 5 bytes (6)"),
    (TooLarge("depth", 64), "too_large", "too large: a depth of more than 64"),
    (SchemaInvalid("why"), "schema_invalid", "not a usable JSON Schema: why"),
    (
        ModuleRejected("loops", "d", limit=5, value=6, hint="h"),
        "loops",
        "module rejected, loops: d (limit 5, found 6). h",
    ),
    (ModuleRejected("size", "d", limit=5), "size", "module rejected, size: d (limit 5)"),
    (BuildError("c", [Diagnostic("m", "a.c", 1, 2)], hint="h"), "build_failed", "c: a.c:1:2: error: m\nh"),
    (BuildError("c", [Diagnostic("m")], reason="timeout"), "timeout", "c: error: m"),
    (PolicyError("d", source="p.toml"), "policy_invalid", "policy p.toml: d"),
    (PolicyError("d", reason="policy_unreadable"), "policy_unreadable", "policy: d"),
    (NameReserved("todo", "todo", "why"), "name_reserved", "the name 'todo' is reserved: why"),
    (NameReserved("t0do", "todo", "why"), "name_reserved", "the name 't0do' looks like 'todo', which is reserved: why"),
    (NameInvalid("a b", "why"), "name_invalid", "'a b' is not a tool name: why"),
    (NotATool("dict"), "not_a_tool", "a dict is not a Tool"),
    (
        GenerationConflict(3, based_on=1, live=2, tools=["a"]),
        "generation_conflict",
        "generation 3 was staged on 1, but 2",
    ),
    (GateRejected(3, "examples", ["a", "b"]), "gate_rejected", "rejected by the gate 'examples': a; b"),
    (UnknownGeneration(9), "unknown_generation", "generation 9: there is none"),
    (CapabilityError("denied", "m", capability="c"), "denied", "c: denied: m"),
    (CapabilityError("quota", "m"), "quota", "quota: m"),
    (StoreError("d", path="p"), "store_error", "store p: d"),
    (StoreError("d", reason="disk_full"), "disk_full", "store: d"),
    (Corrupt("d"), "corrupt", "store: d"),
    (Locked("d"), "locked", "store: d"),
    (VersionMismatch(found=9, known=1), "version_mismatch", "it has schema version 9, this rho_wasm knows up to 1"),
    (Closed("the store"), "closed", "the store is closed"),
]


@pytest.mark.parametrize(("error", "reason", "words"), CASES, ids=[type(case[0]).__name__ for case in CASES])
def test_an_error_has_a_machine_reason_and_names_its_fields(error: RhoError, reason: str, words: str) -> None:
    assert error.reason == reason
    assert words in str(error)
    told = json.loads(json.dumps(error.as_json()))
    assert told["type"] == type(error).__name__
    assert told["reason"] == reason
    assert told["message"] == str(error)


def tree() -> dict[str, type[RhoError]]:
    classes = dict(inspect.getmembers(errors, inspect.isclass))
    return {name: kind for name, kind in classes.items() if issubclass(kind, RhoError)}


def test_every_error_is_public_and_drawn_in_the_docstring() -> None:
    drawing = (errors.__doc__ or "").split("::")[1].split("Errors differ")[0]
    drawn = set(re.findall(r"\b[A-Z][A-Za-z]+\b", drawing))
    for name in tree():
        assert name in errors.__all__
        assert name in drawn, name


def test_every_leaf_of_the_tree_is_tried_here() -> None:
    leaves = {name for name, kind in tree().items() if not kind.__subclasses__()}
    assert leaves <= {type(error).__name__ for error, _, _ in CASES}


def test_a_rejected_module_tells_scripts_what_was_found() -> None:
    error = ModuleRejected("import_unknown", "d", name="env.f", limit=None, hint="h")
    told = error.as_json()
    assert (told["name"], told["hint"]) == ("env.f", "h")
    assert "limit" not in told


def test_a_build_error_tells_scripts_line_and_column() -> None:
    told = BuildError("c", [Diagnostic("m", "a.c", 1, 2, "warning")]).as_json()
    assert told["language"] == "c"
    assert told["diagnostics"] == [
        {"file": "a.c", "line": 1, "column": 2, "severity": "warning", "message": "m", "text": None}
    ]


def test_a_rejected_candidate_tells_scripts_gate_and_problems() -> None:
    told = GateRejected(3, "examples", ["a"]).as_json()
    assert (told["gate"], told["problems"]) == ("examples", ["a"])
