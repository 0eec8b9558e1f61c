"""The calls of C: what they answer is checked, and what they read of a guest is bounded. On both kinds of stack."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence

import pytest
import wasmtime

from rho_wasm.limits import HostLimits, Limits
from rho_wasm.sandbox.abi import EXPORT_TYPES
from rho_wasm.sandbox.capi import GuestFault, Trampolines, make_engine
from rho_wasm.sandbox.config import EngineConfig, Setting, guest_config
from rho_wasm.sandbox.instance import GuestInstance, OwnStackInstance
from rho_wasm.sandbox.module import Linked
from rho_wasm.sandbox.ways import why_not_native

CONFIG = guest_config(stack_bytes=512 * 1024, signals_based_traps=True)
FUEL = 1_000_000


class Calls:
    """Counts what it is asked, and raises what it is told to."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.seen: list[tuple[int, int, list[int]]] = []
        self.kept: list[BaseException] = []

    def host_call(self, call_id: int, index: int, arguments: Sequence[int]) -> int | None:
        self.seen.append((call_id, index, list(arguments)))
        if self.error is not None:
            raise self.error
        return -1

    def epoch(self, call_id: int) -> int:
        if self.error is not None:
            raise self.error
        return 1

    def failed(self, call_id: int, error: BaseException) -> None:
        self.kept.append(error)


class Guest:
    """An instance of ``text`` in a store of its own; imports ``h.f`` with one i32, one i64 and an i32 result.

    Its exports are those of the ABI, because the host calls no others.
    """

    def __init__(self, stack: str, text: str, calls: Calls | None = None) -> None:
        if '"memory"' not in text:
            text = text.rstrip().removesuffix(")") + ' (memory (export "memory") 1))'  # admission demands one
        self.calls = calls or Calls()
        self.trampolines = Trampolines(self.calls)
        self._let_go: Callable[[], None] = lambda: None
        self.instance = self._make(stack, text)
        self.instantiate()

    def _make(self, stack: str, text: str) -> GuestInstance:
        limits = Limits(fuel=FUEL, memory_bytes=1 << 20, table_elements=10)
        if stack == "own":
            self.engine = make_engine(CONFIG)
            linked = self._linked(text)
            return OwnStackInstance(self.engine, linked, call_id=7, trampolines=self.trampolines, limits=limits)
        from rho_wasm.sandbox.engines import give_back_engine, lent_engine
        from rho_wasm.sandbox.fiber import FiberInstance, Fibers
        from rho_wasm.sandbox.native import Pool

        pool = Pool.of(HostLimits())
        self.engine = lent_engine(CONFIG, pool)
        self._let_go = lambda: give_back_engine(self.engine, CONFIG, pool)
        linked = self._linked(text)
        engine = ctypes.cast(self.engine.ptr(), ctypes.c_void_p).value or 0
        fiber = Fibers(FiberInstance, engine, self.trampolines).take()
        fiber.open(linked, 7, limits, math.inf)
        return fiber

    def close(self) -> None:
        self.instance.close()
        self._let_go()

    def _linked(self, text: str) -> Linked:
        linker = wasmtime.Linker(self.engine)
        self.trampolines.define(linker, "h", "f", params=("i32", "i64"), results=("i32",), index=3)
        module = wasmtime.Module(self.engine, text)
        places = {export.name: place for place, export in enumerate(module.exports) if export.name in KNOWN}
        return Linked(module, linker.instantiate_pre(module), places)

    def instantiate(self) -> None:
        self.instance.instantiate()

    def call(self, name: str, *arguments: int) -> int:
        """To its end: without slices a guest is left only where fuel suspends it."""
        answered = self.instance.call(name, *arguments)
        while answered is None:
            answered = self.instance.go_on()
        return answered


KNOWN = {*EXPORT_TYPES, "memory", "flag"}
MakeGuest = Callable[..., Guest]


@pytest.fixture(params=["own", "fiber"])
def make(request: pytest.FixtureRequest) -> Iterator[MakeGuest]:
    if request.param == "fiber" and (reason := why_not_native()) is not None:
        pytest.skip(reason)
    made: list[Guest] = []

    def guest(text: str, calls: Calls | None = None) -> Guest:
        made.append(Guest(request.param, text, calls))
        return made[-1]

    yield guest
    for one in made:
        one.close()


CALLS_HOST = """(module (import "h" "f" (func $f (param i32 i64) (result i32)))
  (func (export "rho_alloc") (param i32) (result i32) (call $f (local.get 0) (i64.const -5))))"""


def test_a_host_function_gets_the_call_the_function_and_its_arguments(make: MakeGuest) -> None:
    guest = make(CALLS_HOST)
    assert guest.call("rho_alloc", -9) == -1
    assert guest.calls.seen == [(7, 3, [-9, -5])]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_no_exception_crosses_a_host_function(make: MakeGuest, error: BaseException) -> None:
    guest = make(CALLS_HOST, Calls(error))
    with pytest.raises(GuestFault):
        guest.call("rho_alloc", 1)
    assert guest.calls.kept == [error]


def test_a_host_function_that_answers_no_number_is_a_fault(make: MakeGuest) -> None:
    guest = make(CALLS_HOST)
    guest.calls.host_call = lambda *given: None  # type: ignore[method-assign]
    with pytest.raises(GuestFault):
        guest.call("rho_alloc", 1)
    assert isinstance(guest.calls.kept[0], TypeError)


SPINS = '(module (func (export "_initialize") (loop $l (br $l))))'


def test_no_exception_crosses_the_epoch_callback(make: MakeGuest) -> None:
    guest = make(SPINS, Calls(KeyboardInterrupt()))
    guest.engine.increment_epoch()
    with pytest.raises(GuestFault) as caught:
        guest.call("_initialize")
    assert isinstance(guest.calls.kept[0], KeyboardInterrupt)
    assert caught.value.frames, "the backtrace of a guest that the host stopped is kept"


def test_a_guest_goes_on_when_the_epoch_callback_lets_it(make: MakeGuest) -> None:
    guest = make('(module (func (export "rho_call") (param i32 i32) (result i64) (i64.const -5)))')
    guest.engine.increment_epoch()
    assert guest.call("rho_call", 1, 2) == -5


def test_a_loop_without_end_uses_up_its_fuel(make: MakeGuest) -> None:
    guest = make(SPINS)
    with pytest.raises(GuestFault) as caught:
        guest.call("_initialize")
    assert caught.value.code == 11


def test_memories_and_flags_are_read_from_the_instance(make: MakeGuest) -> None:
    instance = make(
        """(module (memory (export "memory") 1) (global (export "flag") (mut i32) (i32.const 1))
             (func (export "_initialize") (global.set 0 (i32.const 0))))"""
    )
    assert instance.instance.span()[1] == 65_536
    assert (instance.instance.flag("flag"), instance.instance.flag("none")) == (True, False)
    instance.call("_initialize")
    assert not instance.instance.flag("flag")


def test_types_are_checked_by_wasmtime(make: MakeGuest) -> None:
    guest = make('(module (func (export "rho_alloc") (param i64) (result i32) (i32.const 5)))')
    with pytest.raises(GuestFault) as caught:
        guest.call("rho_alloc", 1)
    assert caught.value.code is None


def test_an_error_of_a_call_that_runs_no_guest_is_raised_too(monkeypatch: pytest.MonkeyPatch) -> None:
    without_fuel = EngineConfig(tuple(s for s in CONFIG.settings if s.name != "consume_fuel"))
    monkeypatch.setattr("tests.sandbox.test_capi.CONFIG", without_fuel)
    with pytest.raises(RuntimeError, match="fuel"):
        Guest("own", "(module)")


def test_a_setting_that_wasmtime_does_not_know_is_an_error() -> None:
    with pytest.raises(AttributeError):
        make_engine(EngineConfig((Setting("no_such_thing", "bool", 1),)))


def test_a_backtrace_is_bounded_in_frames(make: MakeGuest) -> None:
    guest = make('(module (func $f (export "rho_alloc") (param i32) (result i32) (call $f (local.get 0))))')
    with pytest.raises(GuestFault) as caught:
        guest.call("rho_alloc", 0)
    assert 0 < len(caught.value.frames) <= 32
    assert {frame.function for frame in caught.value.frames} == {0}
