"""The QuickJS engine is made of the pinned file alone, keeps the seams of engines, and loads files without a trace."""

from __future__ import annotations

import re

import anyio
import pytest
import wasmtime

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.abi import ALLOWED_IMPORTS
from rho_wasm.toolchains.engines.quickjs import SPEC, build_engine
from tests.toolchains.engines.quickjs_bench import Bench


@pytest.mark.slow
def test_the_same_file_makes_the_same_engine(quickjs_wasm: bytes) -> None:
    assert anyio.run(build_engine, SPEC.read()) == quickjs_wasm


def test_only_the_seams_are_exported(quickjs: Bench) -> None:
    names = [each.name for each in quickjs.module.exports]
    functions = [name for name in names if not name.startswith("rho:global:")]
    assert sorted(functions) == ["memory", "rho_alloc", "rho_call", "rho_load"]


def test_it_imports_only_what_the_guest_abi_knows(quickjs: Bench) -> None:
    for each in quickjs.module.imports:
        assert isinstance(each.type, wasmtime.FuncType)
        known = ALLOWED_IMPORTS[each.module, each.name or ""]
        assert [str(param) for param in each.type.params] == list(known.params)
        assert [str(result) for result in each.type.results] == list(known.results)


def test_its_own_test_holds(quickjs: Bench) -> None:
    loaded = quickjs.load(SPEC.test.source, file=SPEC.test.file)
    assert loaded.call(SPEC.test.tool, SPEC.test.arguments) == {"ok": SPEC.test.answer}


def test_another_module_is_refused_and_not_guessed_with() -> None:
    other = bytes(wasmtime.wat2wasm('(module (memory (export "memory") 1) (func (export "_initialize")))'))
    with pytest.raises(ModuleRejected):
        anyio.run(build_engine, other)


def test_loading_leaves_every_global_as_it_was(quickjs: Bench) -> None:
    before = quickjs.globals(quickjs.load("import 'rho'; /** a */ export function a() {}"))
    source = "export const x = [Math.random(), Date.now()]; console.log('hi'); /** a */ export function a() {}"
    assert quickjs.globals(quickjs.load(source)) == before
    assert quickjs.globals(quickjs.load("export function a( {")) == before


def test_loading_the_same_file_leaves_the_same_memory(quickjs: Bench) -> None:
    source = "const words = 'a b c'.split(' ');\n/** a */ export function a() { return words; }\n"
    assert quickjs.memory(quickjs.load(source)) == quickjs.memory(quickjs.load(source))


def test_the_source_is_not_kept_twice(quickjs: Bench) -> None:
    memory = quickjs.memory(quickjs.load("// a sentence that stands nowhere else\n/** a */ export function a() {}"))
    assert len(re.findall(b"a sentence that stands nowhere else", memory)) == 1


def test_a_small_file_changes_few_pages(quickjs: Bench) -> None:
    source = (
        "/** Shouts. @param {string} args.text */\nexport function shout({ text }) { return text.toUpperCase(); }\n"
    )
    before, after = quickjs.memory(quickjs.fresh()), quickjs.memory(quickjs.load(source))
    assert len(before) == len(after)
    changed = [page for page in range(0, len(after), 4096) if before[page : page + 4096] != after[page : page + 4096]]
    # Each costs every call of every tool a fault of the processor and a copy. It was 50 before it was looked at.
    assert len(changed) <= 25


def test_random_numbers_and_the_clock_are_those_of_the_call(quickjs: Bench) -> None:
    source = "const at = Math.random();\n/** a */ export function a() { return [at, Math.random(), Date.now()]; }"
    loaded = quickjs.load(source)
    at, random, now = loaded.call("a")["ok"]
    assert 0 <= at < 1
    assert 0 <= random < 1
    assert now == 1_700_000_000_000
    assert quickjs.load(source).call("a") == {"ok": [at, random, now]}
