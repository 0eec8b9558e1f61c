"""The calls of C: what they answer is checked, and what they read of a guest is bounded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import wasmtime

from rho_wasm.sandbox.capi import GuestFault, Instance, Trampolines, make_engine, memory_span
from rho_wasm.sandbox.config import EngineConfig, Setting, guest_config

CONFIG = guest_config(stack_bytes=512 * 1024, signals_based_traps=True)
FUEL = 1_000_000


class Calls:
    """Counts what it is asked, and raises what it is told to."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.seen: list[tuple[int, int, list[int]]] = []
        self.kept: list[BaseException] = []

    def host_call(self, call_id: int, context: int, index: int, arguments: Sequence[int]) -> int | None:
        self.seen.append((call_id, index, list(arguments)))
        if self.error is not None:
            raise self.error
        return -1

    def epoch(self, call_id: int, context: int) -> int:
        if self.error is not None:
            raise self.error
        return 1

    def failed(self, call_id: int, error: BaseException) -> None:
        self.kept.append(error)


class Guest:
    """An instance of ``text`` in a store of its own; imports ``h.f`` with one i32, one i64 and an i32 result."""

    def __init__(self, text: str, calls: Calls | None = None, *, config: EngineConfig = CONFIG) -> None:
        self.engine = make_engine(config)
        self.calls = calls or Calls()
        self.trampolines = Trampolines(self.calls)
        self.store = wasmtime.Store(self.engine)
        self.instance = Instance(
            self.store, call_id=7, trampolines=self.trampolines, fuel=FUEL, memory_bytes=1 << 20, table_elements=10
        )
        linker = wasmtime.Linker(self.engine)
        self.trampolines.define(linker, "h", "f", params=("i32", "i64"), results=("i32",), index=3)
        self.instance.instantiate(linker.instantiate_pre(wasmtime.Module(self.engine, text)))

    def call(self, name: str, *arguments: int, answers: bool = True) -> int:
        return self.instance.call(self.instance.function(name), *arguments, answers=answers)


CALLS_HOST = """(module (import "h" "f" (func $f (param i32 i64) (result i32)))
  (func (export "go") (param i32) (result i32) (call $f (local.get 0) (i64.const -5))))"""


def test_a_host_function_gets_the_call_the_function_and_its_arguments() -> None:
    guest = Guest(CALLS_HOST)
    assert guest.call("go", -9) == -1
    assert guest.calls.seen == [(7, 3, [-9, -5])]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_no_exception_crosses_a_host_function(error: BaseException) -> None:
    guest = Guest(CALLS_HOST, Calls(error))
    with pytest.raises(GuestFault):
        guest.call("go", 1)
    assert guest.calls.kept == [error]


def test_a_host_function_that_answers_no_number_is_a_fault() -> None:
    guest = Guest(CALLS_HOST)
    guest.calls.host_call = lambda *given: None  # type: ignore[method-assign]
    with pytest.raises(GuestFault):
        guest.call("go", 1)
    assert isinstance(guest.calls.kept[0], TypeError)


def test_no_exception_crosses_the_epoch_callback() -> None:
    guest = Guest('(module (func (export "spin") (loop $l (br $l))))', Calls(KeyboardInterrupt()))
    guest.engine.increment_epoch()
    with pytest.raises(GuestFault) as caught:
        guest.call("spin", answers=False)
    assert isinstance(guest.calls.kept[0], KeyboardInterrupt)
    assert caught.value.frames, "the backtrace of a guest that the host stopped is kept"


def test_a_guest_goes_on_when_the_epoch_callback_lets_it() -> None:
    guest = Guest('(module (func (export "five") (result i32) (i32.const 5)))')
    guest.engine.increment_epoch()
    assert guest.call("five") == 5


def test_exports_are_found_by_name_and_kind() -> None:
    many = " ".join(f'(func (export "f{n}"))' for n in range(300))
    instance = Guest(f'(module (memory (export "m") 1) (global (export "g") i32 (i32.const 1)) {many})').instance
    assert instance.function("f299") is not None
    assert instance.function("m") is None
    assert instance.memory("f0") is None
    assert instance.memory("none") is None
    assert (instance.flag("g"), instance.flag("f0"), instance.flag("none")) == (True, False, False)
    assert memory_span(instance.context, instance.memory("m"))[1] == 65_536


def test_types_are_checked_by_wasmtime() -> None:
    guest = Guest('(module (func (export "f") (param i64) (result i32) (i32.const 5)))')
    with pytest.raises(GuestFault) as caught:
        guest.call("f", 1)
    assert caught.value.code is None


def test_an_error_of_a_call_that_runs_no_guest_is_raised_too() -> None:
    without_fuel = EngineConfig(tuple(s for s in CONFIG.settings if s.name != "consume_fuel"))
    with pytest.raises(RuntimeError, match="fuel"):
        Guest("(module)", config=without_fuel)


def test_a_setting_that_wasmtime_does_not_know_is_an_error() -> None:
    with pytest.raises(AttributeError):
        make_engine(EngineConfig((Setting("no_such_thing", "bool", 1),)))


def test_a_backtrace_is_bounded_in_frames() -> None:
    guest = Guest('(module (func $f (export "f") (param i32) (call $f (local.get 0))))')
    with pytest.raises(GuestFault) as caught:
        guest.call("f", 0, answers=False)
    assert 0 < len(caught.value.frames) <= 32
    assert {frame.function for frame in caught.value.frames} == {0}
