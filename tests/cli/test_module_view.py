"""A module is looked at without running it: largest functions first, by name, and hostile bytes show what there is."""

from __future__ import annotations

import pytest
import wasmtime

from rho_wasm import wasm
from rho_wasm.cli.module_view import FunctionSize, view
from rho_wasm.errors import ModuleRejected


def _wasm(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


def test_functions_are_told_largest_first_with_their_names() -> None:
    seen = view(
        _wasm(
            """(module (import "rho" "log" (func (param i32 i32 i32))) (memory (export "memory") 1 3)
               (func $small) (func $large (drop (i32.add (i32.const 1) (i32.const 2))))
               (func (export "shown") (nop)))"""
        )
    )
    assert seen.largest[0] == FunctionSize(2, "large", 8)
    assert [each.name for each in seen.largest] == ["large", "shown", "small"]
    assert (seen.function_count, seen.imports) == (3, ("rho.log",))
    assert seen.exports == (("memory", "memory"), ("shown", "function"))
    assert (seen.memory_min_bytes, seen.memory_max_bytes) == (65_536, 196_608)


def test_imports_of_every_kind_are_passed_over_to_the_next() -> None:
    seen = view(
        _wasm(
            """(module (import "a" "t" (table 1 2 funcref)) (import "a" "m" (memory 1)) (import "a" "g" (global i32))
               (import "a" "f" (func)) (func $own))"""
        )
    )
    assert seen.imports == ("a.f", "a.g", "a.m", "a.t")
    assert seen.largest == (FunctionSize(1, "own", 2),)
    assert seen.memory_min_bytes is None


def test_names_are_inert_and_lists_are_bounded() -> None:
    exports = "".join(f'(export "e{number}" (func 0))' for number in range(1_500))
    functions = "(func)" * 50
    seen = view(_wasm(f'(module (func $f (export "\\1b[31m\\e2\\80\\ae")) {functions} {exports})'))
    assert seen.exports[0] == ("\\x1b[31m\\u202e", "function")
    assert len(seen.exports) == 1_000
    assert len(seen.largest) == 20


@pytest.mark.parametrize("section", [2, 3, 5, 7, 10])
@pytest.mark.parametrize("content", [b"", b"\xff\xff\xff\xff\x0f", b"\x01\xff", b"\x05\x01a\x01b\x09", b"\x80" * 9])
def test_a_section_that_cannot_be_read_is_left_out(section: int, content: bytes) -> None:
    seen = view(wasm.HEADER + wasm.encode_section(section, content))
    assert seen.sections[0][1] == len(content) + 2
    assert len(seen.as_json()["functions"]) == 0


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(ModuleRejected):
        view(b"(module)")
