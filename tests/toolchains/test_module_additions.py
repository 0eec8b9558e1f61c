"""Imports and places in the table are added to a module that goes on doing what it did."""

from __future__ import annotations

import pytest
import wasmtime

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.abi import RHO, WASI, FunctionType
from rho_wasm.toolchains.binary import FUNCTION, Module
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.module_additions import add_to_table
from rho_wasm.toolchains.module_edits import stub_imports

_WAT = """(module
  (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
  (table 2 2 funcref)
  (elem (i32.const 1) $one)
  (func $one (result i32) i32.const 1)
  (func $two (result i32) i32.const 2)
  (func (export "both") (result i32) (i32.add (call $one) (call $two)))
  (func (export "yields") (result i32) (call $yield))
  (func (export "through") (param i32) (result i32) (call_indirect (result i32) (local.get 0))))
"""


def module(wat: str = _WAT) -> Module:
    return read_module(bytes(wasmtime.wat2wasm(wat)))


def run(made: Module, name: str, *arguments: int) -> int:
    store = wasmtime.Store()
    compiled = wasmtime.Module(store.engine, made.encode())
    linker = wasmtime.Linker(store.engine)
    for each in compiled.imports:
        assert isinstance(each.type, wasmtime.FuncType)
        linker.define_func(each.module, each.name or "", each.type, lambda *_: 7)
    exported = linker.instantiate(store, compiled).exports(store)[name]
    assert isinstance(exported, wasmtime.Func)
    return int(exported(store, *arguments))


def test_functions_move_up_when_imports_are_added() -> None:
    made = module()
    assert stub_imports(made, add=["host_call", "random_get"]) == ()
    assert [(each.module, each.name) for each in made.imports] == [
        (WASI, "sched_yield"),
        (RHO, "host_call"),
        (WASI, "random_get"),
    ]
    assert (run(made, "both"), run(made, "yields"), run(made, "through", 1)) == (3, 7, 1)
    body = b"\x00\x20\x00\x20\x01\x10" + b"\x01" + b"\x0b"
    made.add_function(FunctionType(("i32", "i32"), ("i32",)), body, export="asks")
    assert run(made, "asks", 0, 0) == 7


def test_a_function_gets_a_place_at_the_end_of_the_table() -> None:
    made = module()
    two = made.signature(2)
    place = add_to_table(made, 2)
    assert (place, two) == (2, FunctionType((), ("i32",)))
    assert add_to_table(made, 1) == 3
    assert [run(made, "through", each) for each in (1, 2, 3)] == [1, 2, 1]


def test_a_table_without_a_maximum_stays_so() -> None:
    made = module(_WAT.replace("(table 2 2 funcref)", "(table 2 funcref)"))
    assert add_to_table(made, 2) == 2
    assert run(made, "through", 2) == 2


@pytest.mark.parametrize("table", ["", "(table 1 externref)", "(table 1 funcref) (table 1 funcref)"])
def test_no_single_table_of_functions_is_refused(table: str) -> None:
    made = module(f'(module {table} (func (export "a")))')
    with pytest.raises(ModuleRejected) as refused:
        add_to_table(made, made.exported("a", FUNCTION) or 0)
    assert refused.value.reason == "tables"
