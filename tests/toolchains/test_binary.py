"""A module is read strictly, and what is read is written back."""

from __future__ import annotations

from pathlib import Path

import pytest
import wasmtime

from rho_wasm import wasm
from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.abi import FunctionType
from rho_wasm.toolchains.binary import FUNCTION, Memory, Module
from rho_wasm.toolchains.binary_reader import read_module

_FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("*.wasm"))


def _wat(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


@pytest.mark.parametrize("path", _FIXTURES, ids=lambda path: path.stem)
def test_every_fixture_is_read_and_written_back(path: Path) -> None:
    module = read_module(path.read_bytes())
    again = module.encode()
    assert read_module(again) == module
    wasmtime.Module.validate(wasmtime.Engine(), again)


def test_everything_that_a_module_may_have_is_kept() -> None:
    text = """(module
      (import "a" "f" (func (param i64) (result f32))) (import "a" "g" (global i32)) (import "a" "t" (table 1 funcref))
      (func $two (param i32 f64) (result i32 i64) i32.const 1 i64.const 2)
      (func $start)
      (table 4 8 funcref) (memory 1 3)
      (global (mut v128) (v128.const i32x4 1 2 3 4)) (global funcref (ref.func $two)) (global f64 (f64.const nan))
      (export "two" (func $two)) (export "m" (memory 0))
      (start $start)
      (elem (table 0) (i32.const 0) func $two) (elem func $two) (elem declare func $start)
      (elem (table 1) (i32.const 1) funcref (ref.func $two) (ref.null func)) (elem funcref (ref.null func))
      (data (i32.const 8) "active") (data "passive")
      (func i32.const 0 i32.const 0 i32.const 1 memory.init 1))"""
    given = _wat(text)
    module = read_module(given)
    assert module.memory == Memory(1, 3)
    assert module.signature(0) == FunctionType(("i64",), ("f32",))
    assert module.signature(1) == FunctionType(("i32", "f64"), ("i32", "i64"))
    assert module.exported("two", FUNCTION) == 1
    assert [element.functions for element in module.elements] == [(1,), (1,), (2,), (1, None), (None,)]
    written = module.encode()
    assert read_module(written) == module
    wasmtime.Module.validate(wasmtime.Engine(), written)


def test_the_name_section_is_kept_and_other_custom_sections_are_not() -> None:
    given = wasm.with_custom(wasm.with_custom(_wat("(module (func $named))"), "name", b"\1\0"), "producers", b"x")
    assert [name for name, _ in wasm.custom_sections(read_module(given).encode())] == ["name"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(module (type (struct (field i32))))", "feature_off"),
        ("(module (rec (type (func)) (type (func))))", "feature_off"),
        ("(module (tag))", "feature_off"),
        ("(module (memory 1) (memory 1))", "memories"),
        ('(module (import "a" "m" (memory 1)) (memory 1))', "memories"),
        ("(module (memory i64 1))", "feature_off"),
        ("(module (memory 1 1 shared))", "feature_off"),
        ("(module (func $f) (table funcref (elem (ref.func $f))) (global i32 (i32.const 1)))", None),
        ('(module (import "a" "g" (global funcref)) (table 1 funcref (global.get 0)))', "table_type"),
    ],
)
def test_what_cannot_be_represented_is_refused(text: str, reason: str | None) -> None:
    if reason is None:
        read_module(_wat(text))
        return
    with pytest.raises(ModuleRejected) as refused:
        read_module(_wat(text))
    assert refused.value.reason in (reason, "feature_off")


def test_bytes_after_a_sections_content_are_refused() -> None:
    with pytest.raises(ModuleRejected) as refused:
        read_module(wasm.HEADER + wasm.encode_section(1, b"\0x"))
    assert refused.value.reason == "section_size"


def test_a_function_that_is_declared_twice_is_one_type() -> None:
    module = Module()
    signature = FunctionType(("i32",), ())
    first = module.add_function(signature, b"\0\x0b", export="f")
    second = module.add_function(signature, b"\0\x0b")
    assert (first, second, module.types) == (0, 1, [signature])
    with pytest.raises(ValueError, match="already"):
        module.add_export("f", FUNCTION, second)


def test_data_is_replaced_by_segments_at_any_address() -> None:
    module = read_module(_wat('(module (memory 65536) (data (i32.const 1) "old"))'))
    module.replace_data([(0, b"a"), (0x8000_0000, b"high")])
    store = wasmtime.Store()
    wasmtime.Module.validate(store.engine, module.encode())
    assert b"old" not in module.encode()
    assert b"\x41\x80\x80\x80\x80\x78\x0b\x04high" in module.encode()
