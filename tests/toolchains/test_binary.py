"""A module is read strictly, and what is read is written back."""

from __future__ import annotations

from pathlib import Path

import pytest
import wasmtime

from rho_wasm import wasm
from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.abi import FunctionType
from rho_wasm.toolchains.binary import FUNCTION, Memory, Module
from rho_wasm.toolchains.binary_reader import check_extent, read_module

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


def _functions(count: int) -> bytes:
    number = wasm.encode_u32(count)
    types, functions = wasm.encode_section(1, b"\x01\x60\0\0"), wasm.encode_section(3, number + bytes(count))
    return wasm.HEADER + types + functions + wasm.encode_section(10, number + b"\x02\x00\x0b" * count)


def test_more_functions_than_any_engine_has_are_not_read() -> None:
    assert len(read_module(_functions(1_000)).bodies) == 1_000
    with pytest.raises(ModuleRejected) as caught:
        read_module(_functions(200_001))
    assert (caught.value.reason, caught.value.limit, caught.value.value) == ("functions", 200_000, 200_001)


@pytest.mark.parametrize("section", [1, 2, 3, 4, 6, 7, 9])
def test_a_section_that_is_very_large_is_not_read_entry_by_entry(section: int) -> None:
    with pytest.raises(ModuleRejected) as caught:
        read_module(wasm.HEADER + wasm.encode_section(section, b"\xff\xff\xff\x7f" + bytes(2 << 20)))
    assert caught.value.reason == "too_large"


def test_the_extent_of_a_module_is_seen_without_reading_it() -> None:
    check_extent(_functions(10), HostLimits(functions=10))
    for limits, reason in ((HostLimits(functions=9), "functions"), (HostLimits(code_bytes=9), "code_too_large")):
        with pytest.raises(ModuleRejected) as caught:
            check_extent(_functions(10), limits)
        assert caught.value.reason == reason
    check_extent(wasm.HEADER, HostLimits())
