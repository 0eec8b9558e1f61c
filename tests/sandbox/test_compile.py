"""Compilation happens in a child that a module may bring down, and says which bound was met."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import pytest
import wasmtime

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.capi import make_engine
from rho_wasm.sandbox.compile import CompileUnavailable, compile_native, validate
from rho_wasm.sandbox.config import guest_config
from rho_wasm.wasm import HEADER, encode_section, encode_u32
from tests.sandbox.guests import ECHO, MEBIBYTE, wat

CONFIG = guest_config(stack_bytes=512 * 1024, signals_based_traps=True)


def functions(count: int, *, params: int, body: bytes) -> bytes:
    """A module of ``count`` equal functions."""
    return b"".join(
        [
            HEADER,
            encode_section(1, b"\x01\x60" + encode_u32(params) + b"\x7f" * params + b"\x00"),
            encode_section(3, encode_u32(count) + b"\x00" * count),
            encode_section(10, encode_u32(count) + (encode_u32(len(body)) + body) * count),
        ]
    )


def loops(count: int) -> bytes:
    """One function of loops in a row: a compiler is quadratic in them (30,000 took 88 s)."""
    return functions(1, params=1, body=b"\x00" + b"\x03\x40\x20\x00\x0d\x00\x0b" * count + b"\x0b")


def locals_of(count: int) -> bytes:
    """500 functions of ``count`` locals in a few bytes each."""
    return functions(500, params=0, body=b"\x01" + encode_u32(count) + b"\x7f\x0b")


def wide_loops(count: int) -> bytes:
    """Loops of a block type with 16 parameters and 16 results. 64 KB of them took over 23 GiB."""
    loop = b"\x03\x00\x20\x00\x0d\x00\x0b"
    body = b"\x00" + b"\x41\x00" * 16 + loop * count + b"\x1a" * 16 + b"\x0b"
    sixteen = b"\x10" + b"\x7f" * 16
    return b"".join(
        [
            HEADER,
            encode_section(1, b"\x02\x60" + sixteen + sixteen + b"\x60\x01\x7f\x00"),
            encode_section(3, b"\x01\x01"),
            encode_section(10, b"\x01" + encode_u32(len(body)) + body),
        ]
    )


async def compiled(module: bytes, **limits: int) -> bytes:
    return await compile_native(module, code_bytes=len(module), limits=HostLimits(**limits), config=CONFIG)


INVALID = [
    (b"", "unexpected end"),
    (HEADER + b"\x01\x01", "unexpected end"),
    (bytes(wasmtime.wat2wasm("(module (func (result i32)))")), "type mismatch"),
    (bytes(wasmtime.wat2wasm("(module (memory 1 1 shared))")), "threads"),
]


async def validated(module: bytes, **limits: int) -> None:
    await validate(module, code_bytes=len(module), limits=HostLimits(**limits))


async def test_native_code_runs_in_an_engine_of_the_same_configuration() -> None:
    native = await compiled(wat(ECHO))
    assert "rho_call" in [export.name for export in wasmtime.Module.deserialize(make_engine(CONFIG), native).exports]


async def test_native_code_is_refused_by_an_engine_of_another_configuration() -> None:
    native = await compiled(wat(ECHO))
    other = make_engine(guest_config(stack_bytes=512 * 1024, signals_based_traps=False))
    with pytest.raises(wasmtime.WasmtimeError):
        wasmtime.Module.deserialize(other, native)


@pytest.mark.parametrize("look", [compiled, validated])
@pytest.mark.parametrize(("module", "says"), INVALID)
async def test_what_wasmtime_does_not_take_is_invalid_in_its_own_words(
    module: bytes, says: str, look: Callable[[bytes], Awaitable[object]]
) -> None:
    with pytest.raises(ModuleRejected) as caught:
        await look(module)
    assert caught.value.reason == "invalid"
    assert says in caught.value.detail
    assert caught.value.detail.isprintable()


@pytest.mark.parametrize("look", [compiled, validated])
async def test_compiling_and_validating_say_the_same_of_a_wrong_type(
    look: Callable[[bytes], Awaitable[object]],
) -> None:
    module = bytes(wasmtime.wat2wasm('(module (func) (func (export "second") (result i32) i64.const 1))'))
    with pytest.raises(ModuleRejected) as caught:
        await look(module)
    assert caught.value.detail == "type mismatch: expected i32, found i64, in function 1 (second)"


async def test_validating_takes_what_can_be_compiled_and_leaves_nothing() -> None:
    await validated(wat(ECHO))


async def test_validating_a_module_costs_little_where_compiling_it_would_cost_too_much() -> None:
    await validated(loops(3_000), compile_cpu_ms=1_000, compile_cpu_ms_per_mib=1)


@pytest.mark.parametrize("bomb", [loops(3_000), locals_of(50_000)], ids=["loops", "locals"])
async def test_a_module_that_is_dear_to_compile_is_given_up(bomb: bytes) -> None:
    with pytest.raises(ModuleRejected) as caught:
        await compiled(bomb, compile_cpu_ms=150, compile_cpu_ms_per_mib=1)
    assert (caught.value.reason, caught.value.limit) == ("compile_timeout", 150)


async def test_a_module_that_takes_too_much_memory_is_given_up() -> None:
    with pytest.raises(ModuleRejected) as caught:
        await compiled(wide_loops(600), compile_memory_bytes=200 * MEBIBYTE, compile_cpu_ms=20_000)
    assert caught.value.reason == "compile_memory"


async def test_a_child_that_cannot_be_started_is_not_the_modules_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    with pytest.raises(CompileUnavailable):
        await compiled(wat(ECHO))
