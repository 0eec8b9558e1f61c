"""A module is started within bounds, stopped where it is asked, and read as it was then."""

from __future__ import annotations

import struct

import anyio
import pytest
import wasmtime

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.boot import BootInstance, BootLimits, HostCall, Stopped, boot, start
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.imports import HostFunction
from rho_wasm.sandbox.memory import GuestMemory, OutOfBounds
from rho_wasm.sandbox.state import CallState

one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""For what has nothing to do with the event loop: each start compiles a module in a process of its own."""

_WASI = "wasi_snapshot_preview1"
_IMPORTS = f"""
  (import "{_WASI}" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "{_WASI}" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "{_WASI}" "proc_exit" (func $exit (param i32)))
"""


def _module(body: str, *, imports: str = _IMPORTS, rest: str = "", name: str = "_start") -> bytes:
    return bytes(
        wasmtime.wat2wasm(
            f"""(module {imports} (memory (export "memory") 1)
              (global $g (export "rho:global:0") (mut i64) (i64.const -1))
              (data (i32.const 0) "\\08\\00\\00\\00\\05\\00\\00\\00hello")
              {rest} (func (export "{name}") {body}))"""
        )
    )


_HELLO = "(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))"
_CLOCK = "(drop (call $clock (i32.const 0) (i64.const 0) (i32.const 32)))"


@pytest.mark.parametrize("baseline", [True, False])
async def test_memory_globals_and_output_are_answered(anyio_backend: str, baseline: bool) -> None:
    body = f"{_HELLO} (drop (memory.grow (i32.const 1))) (i32.store (i32.const 70000) (i32.const 7))"
    booted = await boot(_module(f"{body} (global.set $g (i64.const -2))"), baseline=baseline)
    assert len(booted.memory) == 131_072
    assert booted.unsigned(70_000, 4) == 7
    assert booted.globals == {0: 2**64 - 2}
    assert booted.output == b"hello"
    assert booted.stopped is None


async def test_the_hook_stops_the_guest_inside_a_host_function(anyio_backend: str) -> None:
    seen: list[str] = []

    def stop(call: HostCall) -> bool:
        seen.append(call.name)
        return call.name == "clock_time_get" and call.output == b"hello" and call.memory.read(8, 5) == b"hello"

    inner = f"(func $inner {_CLOCK} unreachable)"
    booted = await boot(_module(f"{_CLOCK} {_HELLO} (call $inner)", rest=inner), on_host_call=stop)
    assert seen == ["clock_time_get", "fd_write", "clock_time_get"]
    assert booted.stopped is not None
    assert (booted.stopped.name, booted.stopped.frames, booted.stopped.exit_code) == ("clock_time_get", (3, 4), None)
    assert booted.unsigned(32, 8) > 0


@one_loop
async def test_an_instance_is_driven_call_by_call(anyio_backend: str) -> None:
    wasm = bytes(
        wasmtime.wat2wasm(
            f"""(module {_IMPORTS} (memory (export "memory") 1)
              (func (export "add") (param i32 i64) (result i64)
                (i64.add (i64.extend_i32_s (local.get 0)) (local.get 1)))
              (func (export "half") (param f64) (result f64) (f64.mul (local.get 0) (f64.const 0.5)))
              (func (export "exit") (call $exit (i32.const 3)))
              (func (export "trap") unreachable)
              (func (export "load") (param i32) (result i32) (i32.load (local.get 0))))"""
        )
    )

    def drive(instance: BootInstance) -> None:
        assert instance.call("add", -3, -4) == 2**64 - 7
        assert instance.call("half", *struct.unpack("<Q", struct.pack("<d", 5.0))) == 0x4004_0000_0000_0000
        with pytest.raises(Stopped) as stopped:
            instance.call("exit")
        assert (stopped.value.name, stopped.value.exit_code) == ("proc_exit", 3)
        with pytest.raises(CallFailed) as failed:
            instance.call("trap")
        assert failed.value.reason == "trapped"
        instance.write(100, b"\x2a")
        assert instance.call("load", 100) == 42
        with pytest.raises(OutOfBounds):
            instance.read(65_536, 1)
        with pytest.raises(LookupError):
            instance.call("nothing")
        with pytest.raises(TypeError):
            instance.call("load")

    assert (await boot(wasm, drive=drive)).memory[100] == 42


@one_loop
@pytest.mark.parametrize(("code", "failed"), [(0, False), (1, True)])
async def test_a_command_may_end_itself_well(anyio_backend: str, code: int, failed: bool) -> None:
    wasm = _module(f"(call $exit (i32.const {code}))")
    if failed:
        with pytest.raises(CallFailed) as ended:
            await boot(wasm)
        assert ended.value.reason == "handler_exit"
    else:
        booted = await boot(wasm)
        assert booted.stopped is not None
        assert booted.stopped.exit_code == 0


@one_loop
@pytest.mark.parametrize("baseline", [True, False])
@pytest.mark.parametrize(
    ("limits", "reason"),
    [(BootLimits(fuel=1_000_000), "out_of_fuel"), (BootLimits(deadline_ms=50), "deadline")],
    ids=["fuel", "deadline"],
)
async def test_a_loop_ends(anyio_backend: str, limits: BootLimits, reason: str, baseline: bool) -> None:
    with pytest.raises(CallFailed) as ended:
        await boot(_module("(loop (br 0))"), limits=limits, baseline=baseline)
    assert ended.value.reason == reason


async def test_cancellation_stops_the_guest(anyio_backend: str) -> None:
    with anyio.move_on_after(0.05) as scope:
        await boot(_module("(loop (br 0))"))
    assert scope.cancelled_caught


@one_loop
async def test_recursion_and_growth_are_bounded(anyio_backend: str) -> None:
    with pytest.raises(CallFailed) as ended:
        await boot(_module("(call $f)", rest="(func $f (call $f) (call $f))"))
    assert ended.value.reason == "trapped"
    grown = await boot(
        _module("(global.set $g (i64.extend_i32_s (memory.grow (i32.const 9))))"),
        limits=BootLimits(memory_bytes=5 * 65_536),
    )
    assert grown.globals == {0: 2**64 - 1}


@one_loop
async def test_output_is_bounded(anyio_backend: str) -> None:
    booted = await boot(_module(_HELLO * 5), limits=BootLimits(output_bytes=12))
    assert booted.output == b"hellohellohe"


@one_loop
async def test_arguments_and_environment_are_told(anyio_backend: str) -> None:
    imports = "".join(
        f'(import "{_WASI}" "{name}" (func ${name} (param i32 i32) (result i32)))'
        for name in ("args_sizes_get", "args_get", "environ_sizes_get", "environ_get")
    )
    body = """(drop (call $args_sizes_get (i32.const 100) (i32.const 104)))
      (drop (call $args_get (i32.const 200) (i32.const 300)))
      (drop (call $environ_sizes_get (i32.const 400) (i32.const 404)))
      (drop (call $environ_get (i32.const 500) (i32.const 600)))"""
    booted = await boot(_module(body, imports=imports), arguments=("prog", "é"), environment={"A": "b"})
    assert (booted.unsigned(100, 4), booted.unsigned(104, 4)) == (2, 8)
    assert (booted.unsigned(200, 4), booted.unsigned(204, 4)) == (300, 305)
    assert booted.memory[300:308] == "prog\0é\0".encode()
    assert (booted.unsigned(400, 4), booted.unsigned(404, 4), booted.memory[600:604]) == (1, 4, b"A=b\0")
    with pytest.raises(ValueError, match="zero byte"):
        await boot(_module("", imports=imports), arguments=("a\0b",))


@one_loop
async def test_a_host_function_may_be_given(anyio_backend: str) -> None:
    def answer(state: CallState, memory: GuestMemory, pointer: int) -> int:
        memory.write(pointer, b"given")
        return 9

    given = HostFunction("env", "give", ("i32",), ("i32",), answer)
    imports = '(import "env" "give" (func $give (param i32) (result i32)))'
    body = "(global.set $g (i64.extend_i32_s (call $give (i32.const 40))))"
    booted = await boot(_module(body, imports=imports), functions=(given,))
    assert (booted.globals[0], booted.memory[40:45]) == (9, b"given")
    with pytest.raises(ModuleRejected) as refused:
        await boot(_module(body, imports=imports))
    assert refused.value.reason == "link_failed"


@one_loop
async def test_what_a_host_function_raises_is_raised(anyio_backend: str) -> None:
    def broken(state: CallState, memory: GuestMemory) -> None:
        raise ZeroDivisionError

    imports = '(import "env" "f" (func $f))'
    with pytest.raises(ZeroDivisionError):
        await boot(_module("(call $f)", imports=imports), functions=(HostFunction("env", "f", (), (), broken),))


@one_loop
async def test_a_reactor_without_anything_to_start_is_taken_as_it_is(anyio_backend: str) -> None:
    booted = await boot(_module("unreachable", name="other"), drive=start)
    assert booted.memory[8:13] == b"hello"


@one_loop
@pytest.mark.parametrize("name", ["memory", "rho:global:0"])
async def test_a_module_without_what_is_asked_for_is_refused(anyio_backend: str, name: str) -> None:
    wasm = bytes(wasmtime.wat2wasm(f'(module (func (export "{name}")) (memory (export "m") 1))'))
    with pytest.raises(ModuleRejected):
        await boot(wasm)


@one_loop
async def test_a_start_function_may_call_no_host_function(anyio_backend: str) -> None:
    wasm = bytes(
        wasmtime.wat2wasm(f"""(module {_IMPORTS} (memory (export "memory") 1) (start $s) (func $s {_HELLO}))""")
    )
    with pytest.raises(CallFailed) as failed:
        await boot(wasm)
    assert failed.value.reason == "trapped"
    looping = bytes(wasmtime.wat2wasm('(module (memory (export "memory") 1) (start $s) (func $s (loop (br 0))))'))
    with pytest.raises(CallFailed) as failed:
        await boot(looping, limits=BootLimits(fuel=1_000_000))
    assert failed.value.reason == "out_of_fuel"
