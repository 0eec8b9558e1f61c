"""Every feature of WebAssembly that is on or off, with one module each; and that nothing in the list is unknown."""

from __future__ import annotations

import json

import pytest
import wasmtime

from rho_wasm.sandbox.capi import make_engine
from rho_wasm.sandbox.config import guest_config, interpreter_config

CONFIG = guest_config(stack_bytes=512 * 1024, signals_based_traps=True)

ON = {
    "mutable globals": '(module (global (export "g") (mut i32) (i32.const 0)))',
    "sign extension": "(module (func (param i32) (result i32) (i32.extend8_s (local.get 0))))",
    "non-trapping conversions": "(module (func (param f32) (result i32) (i32.trunc_sat_f32_s (local.get 0))))",
    "multi-value": "(module (func (result i32 i32) (i32.const 1) (i32.const 2)))",
    "bulk memory": "(module (memory 1) (func (memory.fill (i32.const 0) (i32.const 0) (i32.const 9))))",
    "reference types": "(module (table 1 externref) (func (param externref) (table.set (i32.const 0) (local.get 0))))",
    "extended constants": "(module (global i32 (i32.add (i32.const 1) (i32.const 2))))",
    "SIMD": "(module (func (result v128) (i32x4.splat (i32.const 1))))",
    "tail calls": "(module (func $f (return_call $f)))",
}
OFF = {
    "threads": "(module (memory 1 1 shared))",
    "atomics": "(module (memory 1) (func (drop (i32.atomic.load (i32.const 0)))))",
    "memory64": "(module (memory i64 1))",
    "multi-memory": "(module (memory 1) (memory 1))",
    "GC": "(module (type (struct (field i32))))",
    "function references": "(module (type $t (func)) (func (param (ref $t))))",
    "exceptions": "(module (tag) (func (throw 0)))",
    "relaxed SIMD": """(module (func (param v128 v128) (result v128)
                         (i8x16.relaxed_swizzle (local.get 0) (local.get 1))))""",
    "wide arithmetic": """(module (func (param i64 i64 i64 i64) (result i64 i64)
                         (i64.add128 (local.get 0) (local.get 1) (local.get 2) (local.get 3))))""",
    "custom page sizes": "(module (memory 1 (pagesize 1)))",
    "stack switching": "(module (type $f (func)) (type $c (cont $f)))",
    "components": "(component)",
}


@pytest.fixture(scope="module")
def engine() -> wasmtime.Engine:
    return make_engine(CONFIG)


@pytest.mark.parametrize("feature", ON)
def test_a_feature_that_is_on_is_accepted(engine: wasmtime.Engine, feature: str) -> None:
    wasmtime.Module.validate(engine, bytes(wasmtime.wat2wasm(ON[feature])))


@pytest.mark.parametrize("feature", OFF)
def test_a_feature_that_is_off_is_refused(engine: wasmtime.Engine, feature: str) -> None:
    module = bytes(wasmtime.wat2wasm(OFF[feature]))
    with pytest.raises(wasmtime.WasmtimeError):
        wasmtime.Module.validate(engine, module)


def test_a_nan_has_the_same_bits_whatever_made_it(engine: wasmtime.Engine) -> None:
    module = wasmtime.Module(
        engine,
        """(module (func (export "f") (param i32) (result i32)
             (i32.reinterpret_f32 (f32.add (f32.reinterpret_i32 (local.get 0)) (f32.const 1)))))""",
    )
    store = wasmtime.Store(engine)
    store.set_fuel(1_000_000)
    store.set_epoch_deadline(10)
    function = wasmtime.Instance(store, module, []).exports(store)["f"]
    assert isinstance(function, wasmtime.Func)
    assert {function(store, payload) for payload in (0x7FC00001, 0x7F800001, -1, 0x7FC12345)} == {0x7FC00000}


def test_what_bounds_a_guest_is_on() -> None:
    assert CONFIG["consume_fuel"] == CONFIG["epoch_interruption"] == 1
    assert CONFIG["memory_may_move"] == CONFIG["parallel_compilation"] == 0
    assert CONFIG["max_wasm_stack"] == 512 * 1024
    assert CONFIG["memory_reservation"] >= 2**32


def test_each_setting_is_there_once_and_survives_json() -> None:
    names = [setting.name for setting in CONFIG.settings]
    assert len(names) == len(set(names))
    assert [tuple(row) for row in json.loads(CONFIG.as_json())] == list(CONFIG.settings)


def test_engines_get_what_guests_get_but_for_their_stack_and_the_cores_they_may_compile_on() -> None:
    engines = interpreter_config(stack_bytes=2 * 1024 * 1024, signals_based_traps=True)
    differing = {one.name for one, other in zip(engines.settings, CONFIG.settings, strict=True) if one != other}
    assert differing == {"max_wasm_stack", "parallel_compilation"}
