from __future__ import annotations

import time

import pytest

from rho_wasm.capabilities.clock import clock_capabilities
from rho_wasm.errors import CapabilityError
from rho_wasm.testing import FixedClock
from tests.capabilities.asking import Asking


def test_the_time_is_posix_seconds() -> None:
    told = Asking(clock_capabilities()).now("clock.now")
    assert type(told) is float
    assert told == pytest.approx(time.time(), abs=3_600)  # Somebody may set the clock meanwhile.
    assert Asking(clock_capabilities(now=FixedClock(1_700_000_000.5))).now("clock.now") == 1_700_000_000.5


def test_the_monotonic_clock_of_each_call_begins_at_nothing() -> None:
    readings = iter([10**15, 10**15 + 1_500_000_000, 3 * 10**15])
    capabilities = clock_capabilities(monotonic_ns=lambda: next(readings))
    first, second = Asking(capabilities), Asking(capabilities)
    assert [first.now("clock.monotonic"), first.now("clock.monotonic")] == [0.0, 1.5]
    assert second.now("clock.monotonic") == 0.0


def test_the_monotonic_clock_goes_on() -> None:
    call = Asking(clock_capabilities())
    told = [call.now("clock.monotonic") for _ in range(100)]
    assert told[0] == 0.0
    assert told == sorted(told)


@pytest.mark.parametrize("capability", ["clock.now", "clock.monotonic"])
def test_a_clock_is_asked_for_nothing(capability: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        Asking(clock_capabilities()).now(capability, zone="UTC")
    assert caught.value.kind == "invalid_arguments"
