"""A lack of memory is told apart from a panic."""

from __future__ import annotations

import pytest
import wasmtime

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.abi import MANIFEST_SECTION
from rho_wasm.sandbox.admission import admit
from rho_wasm.sandbox.rewrite import rewritten
from rho_wasm.sandbox.watch import GROW_REFUSED
from rho_wasm.wasm import with_custom
from tests.sandbox.guests import ECHO, MEBIBYTE, answering, called, guest, run, wat
from tests.sandbox.module_bytes import MANIFEST

HOG = "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable"


async def test_a_guest_that_hogs_memory_is_out_of_memory(sandbox: Sandbox) -> None:
    ended = await run(sandbox, HOG, limits=Limits(memory_bytes=2 * MEBIBYTE))
    assert ended.reason == "out_of_memory"
    assert ended.error is not None
    assert (ended.error.limit, ended.error.value) == ("memory_bytes", 2 * MEBIBYTE)


async def test_one_huge_grow_that_is_refused_is_out_of_memory_though_the_memory_is_small(sandbox: Sandbox) -> None:
    assert (await run(sandbox, "(drop (memory.grow (i32.const 60000))) unreachable")).reason == "out_of_memory"


async def test_a_panic_with_little_memory_is_trapped(sandbox: Sandbox) -> None:
    assert (await run(sandbox, "unreachable")).reason == "trapped"


async def test_a_panic_after_grows_that_were_granted_is_trapped(sandbox: Sandbox) -> None:
    assert (await run(sandbox, "(drop (memory.grow (i32.const 900))) unreachable")).reason == "trapped"


async def test_a_refused_grow_that_the_guest_bears_costs_nothing(sandbox: Sandbox) -> None:
    assert (await called(sandbox, answering({"ok": 1}, before="(drop (memory.grow (i32.const 60000)))"))).result == Ok(
        1
    )


async def test_a_handler_that_raises_after_a_refused_grow_is_out_of_memory(sandbox: Sandbox) -> None:
    wasm = answering({"raised": {"message": "MemoryError"}}, before="(drop (memory.grow (i32.const 60000)))")
    assert (await called(sandbox, wasm)).reason == "out_of_memory"


async def test_no_room_for_the_request_is_out_of_memory(sandbox: Sandbox) -> None:
    assert (await run(sandbox, ECHO, alloc="i32.const 0")).reason == "out_of_memory"


async def test_a_first_memory_or_table_over_the_limit_is_out_of_memory(sandbox: Sandbox) -> None:
    big = await run(sandbox, ECHO, memory="17", limits=Limits(memory_bytes=MEBIBYTE))
    assert (big.reason, big.error and big.error.limit) == ("out_of_memory", "memory_bytes")
    wide = await run(sandbox, ECHO, extra="(table 100 funcref)", limits=Limits(table_elements=99))
    assert (wide.reason, wide.error and wide.error.limit) == ("out_of_memory", "table_elements")


async def test_a_table_cannot_grow_over_the_limit(sandbox: Sandbox) -> None:
    grow = "(if (i32.ne (table.grow $t (ref.null func) (i32.const 50)) (i32.const -1)) (then unreachable))"
    wasm = answering({"ok": 1}, before=grow, extra="(table $t 10 funcref)")
    assert (await called(sandbox, wasm, limits=Limits(table_elements=59))).result == Ok(1)


def test_a_module_without_grows_is_left_as_it_is() -> None:
    module = wat(ECHO)
    assert rewritten(module) is module


def test_bytes_that_only_look_like_a_grow_are_left_as_they_are() -> None:
    # 0x40 0x00 inside a constant, as a block type before unreachable, and as an entry of a br_table.
    module = wat(
        "(drop (i32.const 0x40)) (block unreachable) (block $b (br_table $b $b (local.get $i))) (i64.const 64)"
    )
    assert rewritten(module) is module


def test_grows_everywhere_are_watched_and_the_module_stays_valid() -> None:
    module = wat(
        """(local.set $i (memory.grow (local.get $n)))
           (block $a (block $b (br_table $a $b $a (memory.grow (i32.const 0)))))
           (f64.store (i32.const 8) (f64.const 64)) (drop (v128.const i64x2 64 0x4000))
           (if (memory.grow (i32.const 1)) (then (drop (memory.grow (i32.const 2)))))
           (i64.extend_i32_u (memory.size))""",
        extra="(global $g (mut i32) (i32.const 5)) (func $other (result i32) (memory.grow (global.get $g)))",
    )
    watched = rewritten(module)
    engine = wasmtime.Engine()
    wasmtime.Module.validate(engine, watched)
    store = wasmtime.Store(engine)
    store.set_limits(memory_size=3 * 65_536)
    linker = wasmtime.Linker(engine)
    linked = wasmtime.Module(engine, watched)
    linker.define_unknown_imports_as_traps(linked)
    exports = linker.instantiate(store, linked).exports(store)
    call, flag = exports["rho_call"], exports[GROW_REFUSED]
    assert isinstance(call, wasmtime.Func)
    assert isinstance(flag, wasmtime.Global)
    assert call(store, 0, 1) == 3
    assert flag.value(store) == 1, "the second page was granted, two more were not"


def test_a_guest_cannot_take_the_flags_name_away() -> None:
    module = guest("(i64.const 0)", extra=f'(global (export "{GROW_REFUSED}") i32 (i32.const 1))')
    with pytest.raises(ModuleRejected) as refused:
        admit(module)
    assert (refused.value.reason, refused.value.name) == ("export_reserved", GROW_REFUSED)


@pytest.mark.parametrize(
    ("honest", "past"),
    [
        (b"\x23\x00\x0b", b"\x23\x01\x0b"),  # global.get
        (b"\x41\x00\x10\x05\x0b", b"\x41\x00\x10\x09\x0b"),  # i32.const 0, call
    ],
)
async def test_what_the_host_adds_never_makes_a_module_valid(sandbox: Sandbox, honest: bytes, past: bytes) -> None:
    """The author names the global, or the function, that comes after the last: it is the one that the host adds."""
    module = wat(
        "(drop (memory.grow (i32.const 1))) (i64.const 0)",
        extra="""(global $last i32 (i32.const 7)) (func $g (param i32) (result i32) (global.get $last))
                 (func $f (result i32) (call $g (i32.const 0)))""",
    )
    assert module.count(honest) == 1
    wasmtime.Module.validate(wasmtime.Engine(), rewritten(module.replace(honest, past)))
    with pytest.raises(ModuleRejected) as refused:
        await sandbox.load(with_custom(module.replace(honest, past), MANIFEST_SECTION, MANIFEST))
    assert refused.value.reason == "invalid"
