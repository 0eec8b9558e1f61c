"""The epoch goes on while calls run, and only then."""

from __future__ import annotations

import resource
import sys
import threading

import pytest
import wasmtime

from rho_wasm.sandbox.capi import make_engine
from rho_wasm.sandbox.config import guest_config
from rho_wasm.sandbox.ticker import Ticker, TickerKind

KINDS: list[TickerKind] = ["timer", "thread"] if sys.platform == "linux" else ["thread"]


@pytest.fixture
def engine() -> wasmtime.Engine:
    return make_engine(guest_config(stack_bytes=512 * 1024, signals_based_traps=True))


def spin(engine: wasmtime.Engine) -> wasmtime.TrapCode | None:
    """Spins until the epoch has gone on once."""
    module = wasmtime.Module(engine, '(module (func (export "spin") (loop $l (br $l))))')
    store = wasmtime.Store(engine)
    store.set_fuel(10**15)
    store.set_epoch_deadline(1)
    function = wasmtime.Instance(store, module, []).exports(store)["spin"]
    assert isinstance(function, wasmtime.Func)
    with pytest.raises(wasmtime.Trap) as caught:
        function(store)
    return caught.value.trap_code


@pytest.mark.parametrize("kind", KINDS)
def test_the_epoch_goes_on_while_a_call_runs(engine: wasmtime.Engine, kind: TickerKind) -> None:
    ticker = Ticker(engine, kind=kind)
    for _ in range(3):
        with ticker.running():
            assert ticker.armed
            assert spin(engine) is wasmtime.TrapCode.INTERRUPT
        assert not ticker.armed
    ticker.close()


@pytest.mark.parametrize("kind", KINDS)
def test_it_rests_once_the_last_of_several_calls_ended(engine: wasmtime.Engine, kind: TickerKind) -> None:
    ticker = Ticker(engine, kind=kind)
    with ticker.running():
        with ticker.running():
            pass
        inside = ticker.armed
        assert spin(engine) is wasmtime.TrapCode.INTERRUPT
    assert (inside, ticker.armed) == (True, False)
    ticker.close()


@pytest.mark.parametrize("kind", KINDS)
def test_closing_twice_is_fine_and_leaves_no_thread(engine: wasmtime.Engine, kind: TickerKind) -> None:
    before = set(threading.enumerate())
    ticker = Ticker(engine, kind=kind)
    ticker.close()
    ticker.close()
    assert set(threading.enumerate()) <= before


def test_ticks_after_the_engine_is_gone_do_no_harm() -> None:
    for _ in range(20):
        engine = make_engine(guest_config(stack_bytes=512 * 1024, signals_based_traps=True))
        ticker = Ticker(engine)
        with ticker.running():
            pass
        ticker.close()
        engine.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there are no timers")
def test_where_no_timer_can_be_had_a_thread_ticks(engine: wasmtime.Engine) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_SIGPENDING)  # timers count as pending signals
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, hard))
    try:
        ticker = Ticker(engine)
    finally:
        resource.setrlimit(resource.RLIMIT_SIGPENDING, (soft, hard))
    assert ticker.kind == "thread"
    with ticker.running():
        assert spin(engine) is wasmtime.TrapCode.INTERRUPT
    ticker.close()
