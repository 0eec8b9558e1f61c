"""Edits leave a module's own indices alone, and change everything that names what moved."""

from __future__ import annotations

from typing import Any

import pytest
import wasmtime

from rho_wasm.errors import ModuleRejected
from rho_wasm.toolchains.binary import FUNCTION, Module
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.instructions import changes_tables_or_segments
from rho_wasm.toolchains.module_edits import append_module, stub_imports

_WASI = "wasi_snapshot_preview1"


def _read(text: str) -> Module:
    return read_module(bytes(wasmtime.wat2wasm(text)))


def _exports(module: Module) -> tuple[wasmtime.Store, Any]:
    store = wasmtime.Store()
    compiled = wasmtime.Module(store.engine, module.encode())
    linker = wasmtime.Linker(store.engine)
    for each in compiled.imports:
        assert isinstance(each.type, wasmtime.FuncType)
        answer = 7 if each.name == "fd_close" else 9
        linker.define_func(each.module, each.name or "", each.type, lambda *_, answer=answer: answer)
    return store, linker.instantiate(store, compiled).exports(store)


_IMPORTS = f"""
  (import "{_WASI}" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "{_WASI}" "fd_close" (func $close (param i32) (result i32)))
  (import "env" "sink" (func $sink (param i64)))
  (import "{_WASI}" "sched_yield" (func $yield (result i32)))
"""


def test_imports_that_the_abi_does_not_know_become_stubs() -> None:
    module = _read(
        f"""(module {_IMPORTS} (table 4 funcref) (elem (i32.const 0) $open $close $yield)
          (type $s (func (result i32)))
          (func (export "open") (result i32)
            i32.const 0 i32.const 0 i32.const 0 i32.const 0 i32.const 0 i64.const 0 i64.const 0 i32.const 0 i32.const 0
            call $open)
          (func (export "close") (result i32) i64.const 1 call $sink (return_call $close (i32.const 3)))
          (func (export "yield") (result i32) (call_indirect (type $s) (i32.const 2)))
          (export "again" (func $yield)))"""
    )
    assert stub_imports(module) == ("path_open", "sink")
    assert [each.name for each in module.imports] == ["fd_close", "sched_yield"]
    store, exports = _exports(module)
    found = {name: exports[name](store) for name in ("open", "close", "yield", "again")}
    assert found == {"open": 52, "close": 7, "yield": 9, "again": 9}


def test_indices_that_a_linker_padded_are_found() -> None:
    module = _read(f"""(module {_IMPORTS} (func (export "close") (result i32) (call $close (i32.const 3))))""")
    module.bodies[0] = b"\0\x41\x03\x10\x81\x80\x80\x80\x00\x0b"
    stub_imports(module)
    store, exports = _exports(module)
    assert exports["close"](store) == 7


def test_a_stub_may_be_given() -> None:
    module = _read(f"""(module {_IMPORTS} (func (export "yield") (result i32) call $yield))""")
    assert "sched_yield" in stub_imports(module, bodies={"sched_yield": b"\0\x41\x05\x0b"})
    store, exports = _exports(module)
    assert exports["yield"](store) == 5


def test_an_imported_memory_is_refused() -> None:
    with pytest.raises(ModuleRejected) as refused:
        stub_imports(_read('(module (import "a" "m" (memory 1)))'))
    assert (refused.value.reason, refused.value.name) == ("import_kind", "a.m")


_FIRST = """(module (memory (export "memory") 1) (table 1 funcref)
  (global $sp (mut i32) (i32.const 64))
  (type $unused (func (param f64)))
  (func $inner (param i32) (result i32) local.get 0 i32.const 1 i32.add)
  (func (export "double") (param i32) (result i32) local.get 0 i32.const 2 i32.mul)
  (func (export "sp") (result i32) global.get $sp)
  (elem (i32.const 0) $inner))"""

_ADDED = """(module
  (import "m" "double" (func $double (param i32) (result i32)))
  (import "m" "inner" (func $inner (param i32) (result i32)))
  (import "m" "memory" (memory 1))
  (import "m" "table" (table 1 funcref))
  (import "m" "sp" (global $sp (mut i32)))
  (type $one (func (param i32) (result i32)))
  (type $pair (func (param i32) (result i32 i32)))
  (global $count (export "count") (mut i32) (i32.const 5))
  (elem declare func $own)
  (func $own (type $one) (global.set $count (i32.add (global.get $count) (i32.const 1))) local.get 0)
  (func (export "all") (type $one)
    (global.set $sp (i32.const 128))
    (drop (ref.func $own))
    (block (result i32 i32) (i32.const 0) (i32.const 0)) drop drop
    (i32.store (i32.const 8) (call $double (call $inner (local.get 0))))
    (block $b (br_table $b $b (i32.const 0)))
    (call_indirect (type $one) (call $own (i32.load (i32.const 8))) (i32.const 0))))"""


def test_functions_of_a_second_module_call_those_of_the_first() -> None:
    module = _read(_FIRST)
    append_module(module, _read(_ADDED), functions={"inner": 0}, globals_={"sp": 0})
    store, exports = _exports(module)
    assert exports["all"](store, 20) == 43
    assert exports["sp"](store) == 128
    assert exports["count"].value(store) == 6


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('(module (import "m" "nothing" (func)))', "import_unknown"),
        ('(module (import "m" "double" (func)))', "import_type"),
        ('(module (import "m" "sp" (global i64)))', "import_unknown"),
        ('(module (func (export "double")))', "export_duplicate"),
        ("(module (memory 1))", "cannot_append"),
        ("(module (func $start) (start $start))", "cannot_append"),
        ('(module (import "m" "t" (table 1 funcref)) (func $f) (elem (i32.const 0) $f))', "cannot_append"),
        ("(module (func $f) (elem declare func $f) (global funcref (ref.func $f)))", "cannot_append"),
    ],
)
def test_a_second_module_that_does_not_fit_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ModuleRejected) as refused:
        append_module(_read(_FIRST), _read(text))
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("instructions", "found"),
    [
        ("i32.const 0x26 drop", None),
        ("(table.set (i32.const 0) (ref.null func))", "table.set"),
        ("(drop (table.grow (ref.null func) (i32.const 1)))", "table.grow"),
        ("(table.fill (i32.const 0) (ref.null func) (i32.const 1))", "table.fill"),
        ("(table.copy (i32.const 0) (i32.const 0) (i32.const 1))", "table.copy"),
        ("(table.init 0 (i32.const 0) (i32.const 0) (i32.const 1))", "table.init"),
        ("(memory.init 0 (i32.const 0) (i32.const 0) (i32.const 1))", "memory.init"),
        ("data.drop 0", "data.drop"),
        ("(block (result i32) i32.const 1) (br_table 0 0 0)", None),
        ("(memory.fill (i32.const 0) (i32.const 0) (i32.const 9)) (drop (i32.trunc_sat_f32_s (f32.const 1)))", None),
    ],
)
def test_instructions_that_write_tables_or_use_passive_segments_are_found(instructions: str, found: str | None) -> None:
    module = _read(f'(module (memory 1) (table 1 funcref) (elem func) (data "x") (func (local v128) {instructions}))')
    assert changes_tables_or_segments(module.bodies[0]) == found


def test_an_instruction_that_is_not_enabled_is_refused() -> None:
    with pytest.raises(ModuleRejected) as refused:
        changes_tables_or_segments(b"\0\xfe\x03\x26\x0b")
    assert (refused.value.reason) == "unknown_instruction"


def test_functions_are_told_apart_from_imports_by_their_index() -> None:
    module = _read(f"(module {_IMPORTS} (func))")
    assert module.imported(FUNCTION) == 4
    assert str(module.signature(4)) == "() -> ()"
