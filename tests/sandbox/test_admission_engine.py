"""What a module must be to be an engine. It is pinned by its hash, but what the host relies on is looked at."""

from __future__ import annotations

import pytest

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.admission_engine import admit_engine
from rho_wasm.sandbox.images import EngineBinary
from tests.sandbox.toy_engine import engine, toy

ALLOC = '(func (export "rho_alloc") (param i32) (result i32) i32.const 8)'
LOAD = '(func (export "rho_load") (param i32 i32) (result i64) i64.const 0)'
CALL = '(func (export "rho_call") (param i32 i32) (result i64) i64.const 0)'
MEMORY = '(memory (export "memory") 1)'
WHOLE = ALLOC + LOAD + CALL + MEMORY


def refusal(text: str) -> ModuleRejected:
    with pytest.raises(ModuleRejected) as refused:
        admit_engine(engine(f"(module {text})"))
    return refused.value


def test_an_engine_is_let_in_and_its_custom_sections_are_left_out() -> None:
    named = engine(f"(module $a_name {WHOLE})")
    admitted = admit_engine(named)
    assert b"a_name" in named.wasm
    assert b"a_name" not in admitted.code
    assert admitted.code_bytes > 0


def test_other_bytes_than_were_named_are_refused() -> None:
    with pytest.raises(ModuleRejected) as refused:
        admit_engine(EngineBinary(toy().sha256, toy().wasm + b"\0\1\0", "toy"))
    assert refused.value.reason == "engine_hash"


@pytest.mark.parametrize(
    "text",
    [
        LOAD + CALL + MEMORY,
        ALLOC + CALL + MEMORY,
        ALLOC + LOAD + MEMORY,
        ALLOC + LOAD + CALL + "(memory 1)",
        ALLOC + LOAD.replace("(result i64) i64.const 0", "") + CALL + MEMORY,
        ALLOC.replace("param i32", "param i64") + LOAD + CALL + MEMORY,
        WHOLE + '(func (export "_initialize"))',
        WHOLE + '(table (export "table") 1 funcref)',
        WHOLE + '(global (export "global") (mut i32) (i32.const 0))',
        WHOLE + '(global (export "rho:global:1") (mut i32) (i32.const 0))',
        WHOLE + '(global (export "rho:global:00") (mut i32) (i32.const 0))',
        WHOLE + '(func (export "rho:global:0"))',
        WHOLE + '(global (export "rho:grow_refused") (mut i32) (i32.const 0))',
    ],
    ids=[
        "no alloc",
        "no load",
        "no call",
        "no memory",
        "load's type",
        "alloc's type",
        "initialize",
        "a table",
        "a global",
        "another number",
        "zeros",
        "a function for a global",
        "the host's own",
    ],
)
def test_the_exports_are_exactly_those_of_an_engine(text: str) -> None:
    assert refusal(text).reason == "engine_exports"


def test_mutable_globals_are_exported_by_their_number() -> None:
    admit_engine(
        engine(f'(module {WHOLE} (global i32 (i32.const 0)) (global (export "rho:global:1") (mut i64) (i64.const 0)))')
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('(import "env" "f" (func)) ' + WHOLE, "import_forbidden"),
        ('(import "wasi_snapshot_preview1" "path_open" (func)) ' + WHOLE, "import_forbidden"),
        ('(import "rho" "log" (func (param i32))) ' + WHOLE, "import_type"),
        (WHOLE + "(func $start) (start $start)", "start_section"),
        (ALLOC + LOAD + CALL + '(memory (export "memory") 1 2 shared)', "memory_type"),
        (ALLOC + LOAD + CALL + '(memory (export "memory") 4000)', "memory_minimum"),
    ],
    ids=["import", "wasi", "import's type", "start", "shared", "memory"],
)
def test_an_engine_is_given_what_guests_are_and_no_more(text: str, reason: str) -> None:
    assert refusal(text).reason == reason


def test_a_function_that_is_only_handed_on_is_no_export_of_an_engine() -> None:
    text = (
        '(import "wasi_snapshot_preview1" "fd_close" (func $c (param i32) (result i32)))'
        f'(export "rho_alloc" (func $c)) {LOAD} {CALL} {MEMORY}'
    )
    assert refusal(text).reason == "engine_exports"
