"""A snapshot answers what the module answers that was started, whatever the start did."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import wasmtime

from rho_wasm import resources, wasm
from rho_wasm.errors import ModuleRejected
from rho_wasm.manifest import Manifest, embed
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.abi import INITIALIZE, MANIFEST_SECTION
from rho_wasm.sandbox.boot import Booted, BootLimits
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.toolchains.binary import Module
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.c import compile_c
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.module_edits import stub_imports
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.snapshot import boot_module, initialised, snapshot
from tests.sandbox.guests import called

pytestmark = pytest.mark.anyio

_MANIFEST = Manifest.from_json({"tools": [{"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}]})
_TAIL = """(func (export "rho_alloc") (param i32) (result i32) i32.const 8192)"""
# {"ok": N}, N in four bytes at 4100
_ANSWER = """(i32.store8 (i32.const 4096) (i32.const 0xa1)) (i32.store8 (i32.const 4097) (i32.const 0x62))
  (i32.store16 (i32.const 4098) (i32.const 0x6b6f)) (i32.store8 (i32.const 4100) (i32.const 0x1a))
  (i32.store (i32.const 4101) {value}) (i64.const 0x0000100000000009)"""

_GUESTS = {
    "globals": f"""(module (memory (export "memory") 1)
      (global $i (mut i32) (i32.const 1)) (global $l (mut i64) (i64.const 1))
      (global $f (mut f32) (f32.const 1)) (global $d (mut f64) (f64.const 1))
      (global $v (mut v128) (v128.const i64x2 0 0)) (global $constant i32 (i32.const 5))
      (func (export "_initialize")
        (global.set $i (i32.const -7)) (global.set $l (i64.const -9000000000)) (global.set $f (f32.const 0x1.8p3))
        (global.set $d (f64.const -nan:0x8000000000123)) (global.set $v (v128.const i32x4 1 2 3 -4)))
      {_TAIL}
      (func (export "rho_call") (param i32 i32) (result i64)
        {
        _ANSWER.format(
            value='''(i32.add (i32.add (global.get $i) (global.get $constant))
          (i32.add (i32.wrap_i64 (i64.add (global.get $l) (i64.reinterpret_f64 (global.get $d))))
            (i32.add (i32.reinterpret_f32 (global.get $f)) (i32x4.extract_lane 3 (global.get $v)))))'''
        )
    }))""",
    "tables": f"""(module (memory (export "memory") 1) (table 4 funcref)
      (type $f (func (result i32))) (global $which (mut i32) (i32.const 0))
      (func $one (result i32) i32.const 11) (func $two (result i32) i32.const 22)
      (elem (i32.const 1) $one $two)
      (func (export "_initialize") (global.set $which (i32.const 2)))
      {_TAIL}
      (func (export "rho_call") (param i32 i32) (result i64)
        {_ANSWER.format(value="(call_indirect (type $f) (global.get $which))")}))""",
    "data": f"""(module (memory (export "memory") 1)
      (data (i32.const 16) "\\01\\02\\03\\04") (data (i32.const 60000) "\\05")
      (func (export "_initialize")
        (i32.store8 (i32.const 17) (i32.const 0)) (i32.store (i32.const 65532) (i32.const 9)))
      {_TAIL}
      (func (export "rho_call") (param i32 i32) (result i64)
        {
        _ANSWER.format(
            value='''(i32.add (i32.load (i32.const 16))
          (i32.add (i32.load (i32.const 60000)) (i32.load (i32.const 65532))))'''
        )
    }))""",
    "grown memory": f"""(module (memory (export "memory") 1 8)
      (func (export "_initialize")
        (drop (memory.grow (i32.const 3))) (i32.store (i32.const 262140) (i32.const 77)))
      {_TAIL}
      (func (export "rho_call") (param i32 i32) (result i64)
        {
        _ANSWER.format(
            value='''(i32.add (i32.mul (memory.size) (i32.const 1000))
          (i32.add (i32.load (i32.const 262140)) (memory.grow (i32.const 4))))'''
        )
    }))""",
    "bulk memory": f"""(module (memory (export "memory") 2)
      (data (i32.const 100) "abcdefgh")
      (func (export "_initialize")
        (memory.fill (i32.const 70000) (i32.const 0x41) (i32.const 300))
        (memory.copy (i32.const 70100) (i32.const 100) (i32.const 8)))
      {_TAIL}
      (func (export "rho_call") (param i32 i32) (result i64)
        (local $i i32) (local $sum i32)
        (loop $l
          (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 31))
            (i32.load8_u (i32.add (i32.const 69990) (local.get $i)))))
          (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 400))))
        {_ANSWER.format(value="(local.get $sum)")}))""",
    "other imports": f"""(module
      (import "wasi_snapshot_preview1" "path_unlink_file" (func $unlink (param i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
      (memory (export "memory") 1) (global $errno (mut i32) (i32.const 0))
      (func (export "_initialize")
        (global.set $errno (call $unlink (i32.const 3) (i32.const 0) (i32.const 1)))
        (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 64))))
      {_TAIL}
      (func (export "rho_call") (param i32 i32) (result i64)
        {_ANSWER.format(value="(i32.add (global.get $errno) (i32.load (i32.const 68)))")}))""",
}


def _wat(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


async def _answer(sandbox: Sandbox, module: bytes, arguments: dict[str, Any] | None = None) -> Any:
    ended = await called(sandbox, embed(module, _MANIFEST), arguments=arguments)
    return ended.result if ended.error is None else (ended.error.reason, ended.error.detail)


def _stubbed(module: bytes) -> bytes:
    read = read_module(module)
    stub_imports(read)
    return read.encode()


@pytest.fixture
async def here(anyio_backend: str, shared_cache: NativeCache) -> AsyncIterator[Sandbox]:
    async with Sandbox(cache=shared_cache, way="public") as opened:
        yield opened


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("name", [*_GUESTS, "fixture"])
async def test_snapshot_then_call_is_initialise_then_call(here: Sandbox, name: str) -> None:
    given = resources.fixture("initialized.wasm").read_bytes() if name == "fixture" else _wat(_GUESTS[name])
    made = await initialised(given)
    assert read_module(made).exported(INITIALIZE, 0) is None
    expected = await _answer(here, _stubbed(given))
    assert type(expected) is not tuple
    assert await _answer(here, made) == expected
    assert await initialised(given) == made


_CONSTRUCTORS = """
#include "rho.h"
static int counted; static char text[64]; static int (*chosen)(void);
static int answer(void) { return 40 + counted; }
__attribute__((constructor)) static void first(void) { counted++; chosen = answer; __builtin_memset(text, 'x', 9); }
__attribute__((constructor)) static void second(void) { counted++; }
extern void __wasm_call_ctors(void);
__attribute__((export_name("_initialize"))) void initialize(void) { __wasm_call_ctors(); }
static rho_answer t(rho_value arguments) { (void)arguments; text[chosen() - 30] = 0; return rho_ok_text(text); }
RHO_TOOLS({"t", t})
"""


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.skipif(landlock_version() == 0, reason="C is built only where the kernel has Landlock")
async def test_constructors_of_a_c_guest_have_run_in_its_snapshot(here: Sandbox) -> None:
    given = (await compile_c(Project.of_text(_CONSTRUCTORS, name="t.c"), limits=BuildLimits())).wasm
    made = await initialised(given)
    expected = await _answer(here, given)
    assert expected.value == "xxxxxxxxx"
    assert await _answer(here, made) == expected
    assert INITIALIZE not in [each.name for each in read_module(made).exports]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(memory 1) (table 1 funcref) (func (table.set (i32.const 0) (ref.null func)))", "table_changed"),
        ("(memory 1) (table 1 funcref) (func (drop (table.grow (ref.null func) (i32.const 1))))", "table_changed"),
        ('(memory 1) (data "x") (func (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 1)))', "segment_used"),
        ('(memory 1) (data "x") (func data.drop 0)', "segment_used"),
        ("(memory 1) (global (mut funcref) (ref.null func))", "global_type"),
        ('(import "a" "m" (memory 1))', "import_kind"),
        ('(import "a" "t" (table 1 funcref)) (memory 1)', "import_kind"),
        ("(func)", "memories"),
    ],
)
async def test_what_a_snapshot_cannot_hold_is_refused_before_anything_runs(text: str, reason: str) -> None:
    module = read_module(_wat(f'(module {text} (func (export "_initialize") unreachable))'))
    with pytest.raises(ModuleRejected) as refused:
        await boot_module(module)
    assert refused.value.reason == reason
    with pytest.raises(ModuleRejected):
        snapshot(module, _booted(65_536))


async def test_a_start_that_fails_is_no_snapshot() -> None:
    with pytest.raises(CallFailed) as failed:
        await initialised(_wat('(module (memory 1) (func (export "_initialize") unreachable))'))
    assert failed.value.reason == "trapped"
    with pytest.raises(CallFailed) as failed:
        await initialised(
            _wat('(module (memory 1) (func (export "_initialize") (loop (br 0))))'), limits=BootLimits(fuel=10_000)
        )
    assert failed.value.reason == "out_of_fuel"


def _booted(size: int, *, at: dict[int, bytes] | None = None, globals_: dict[int, int] | None = None) -> Booted:
    memory = bytearray(size)
    for offset, data in (at or {}).items():
        memory[offset : offset + len(data)] = data
    return Booted(memory=bytes(memory), globals=globals_ or {}, output=b"", stopped=None)


def _plain(rest: str = "") -> Module:
    return read_module(_wat(f'(module (memory (export "memory") 1) {rest})'))


def test_exports_are_kept_dropped_and_added() -> None:
    module = _plain(
        """(global (export "g") (mut i32) (i32.const 0)) (global i32 (i32.const 1)) (global (mut i32) (i32.const 2))
           (func $start) (start $start) (func (export "_start")) (func (export "f")) (func (export "_initialize"))"""
    )

    def names(**options: Any) -> list[str]:
        made = read_module(snapshot(module, _booted(65_536, globals_={0: 3, 2: 4}), **options))
        assert made.start is None
        return [each.name for each in made.exports]

    assert names() == ["memory", "g", "f"]
    assert names(drop=()) == ["memory", "g", "_start", "f", "_initialize"]
    assert names(keep_exports=["f"], export_globals=True) == ["f", "rho:global:0", "rho:global:2"]


def test_ranges_of_memory_may_be_zeroed() -> None:
    booted = _booted(65_536, at={0: b"stack", 100: b"kept"})
    assert b"stack" not in snapshot(_plain(), booted, zero=[(0, 64)])
    assert b"kept" in snapshot(_plain(), booted, zero=[(0, 64)])
    with pytest.raises(ValueError, match="not inside"):
        snapshot(_plain(), booted, zero=[(0, 65_537)])


@pytest.mark.parametrize("most", [1, 2, 3, 50, 1_000])
def test_no_more_segments_are_written_than_may_be(most: int) -> None:
    booted = _booted(4 * 65_536, at={place * 800: b"%d" % place for place in range(1, 300)})
    made = snapshot(_plain(), booted, max_segments=most)
    store = wasmtime.Store()
    instance = wasmtime.Instance(store, wasmtime.Module(store.engine, made), [])
    memory = instance.exports(store)["memory"]
    assert isinstance(memory, wasmtime.Memory)
    assert bytes(memory.read(store, 0, 4 * 65_536)) == booted.memory
    assert wasm.Reader(read_module(made).data).u32() == min(most, 299)


def test_the_same_start_gives_the_same_bytes_and_no_manifest() -> None:
    booted = _booted(65_536, at={7: b"x"})
    first, second = snapshot(_plain(), booted), snapshot(_plain(), booted)
    assert hashlib.sha256(first).digest() == hashlib.sha256(second).digest()
    assert wasm.custom(first, MANIFEST_SECTION) is None


async def test_a_start_function_has_run_before_anything_else() -> None:
    module = _plain(
        """(global $g (mut i32) (i32.const 1))
           (func $begin (global.set $g (i32.mul (global.get $g) (i32.const 10)))) (start $begin)
           (func (export "_initialize") (global.set $g (i32.add (global.get $g) (i32.const 1))))"""
    )
    booted = await boot_module(module)
    assert booted.globals == {0: 11}
    assert read_module(snapshot(module, booted)).start is None
