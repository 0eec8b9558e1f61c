"""wasmtime's words on an invalid module become one line that names the function."""

from __future__ import annotations

import pytest
import wasmtime

from rho_wasm.sandbox.invalid import one_line
from rho_wasm.wasm import custom

MODULE = bytes(
    wasmtime.wat2wasm(
        '(module (import "rho" "log" (func (param i32 i32 i32))) (func $first) (func $second (export "shown") nop))'
    )
)
NAMES = custom(MODULE, "name") or b""
FIRST, SECOND = (MODULE.index(b"\x00\x0b"), MODULE.index(b"\x00\x01\x0b"))


def test_an_offset_inside_a_body_becomes_the_functions_index_and_name() -> None:
    assert one_line(f"type mismatch (at offset {FIRST:#x})", MODULE, names=NAMES) == (
        "type mismatch, in function 1 (first)"
    )


def test_without_a_name_section_a_function_is_known_by_its_export_or_only_by_its_index() -> None:
    assert one_line(f"bad (at offset {SECOND:#x})", MODULE) == "bad, in function 2 (shown)"
    assert one_line(f"bad (at offset {FIRST:#x})", MODULE) == "bad, in function 1"


def test_of_a_chain_of_causes_the_one_with_the_place_is_told() -> None:
    said = (
        "failed to compile: wasm[0]::function[1]\n\nCaused by:\n    0: WebAssembly translation error\n"
        f"    1: Invalid input WebAssembly code at offset {FIRST}: type mismatch: expected i32, found i64\n"
    )
    assert one_line(said, MODULE) == "type mismatch: expected i32, found i64, in function 1"


def test_a_chain_without_a_place_is_told_whole() -> None:
    said = "failed to compile: wasm[0]::function[1]\n\nCaused by:\n    Code for function is too large\n"
    assert one_line(said, MODULE) == "failed to compile: wasm[0]::function[1]: Code for function is too large"


@pytest.mark.parametrize("offset", [0, 9, 10**6])
def test_an_offset_outside_every_body_stays_a_byte(offset: int) -> None:
    assert one_line(f"bad (at offset {offset:#x})", MODULE) == f"bad, at byte {offset}"


@pytest.mark.parametrize("code", [b"", MODULE[:20], MODULE[: FIRST + 1], b"\x00" * 100])
def test_a_module_that_is_not_well_formed_only_loses_the_name(code: bytes) -> None:
    assert one_line("bad (at offset 0x14)", code, names=b"\xff" * 9) == "bad, at byte 20"


def test_nothing_said_is_nothing_told() -> None:
    assert one_line("", MODULE) == ""
