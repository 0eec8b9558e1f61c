from __future__ import annotations

from typing import Any

import pytest

from rho_wasm.capabilities.random import random_capabilities
from rho_wasm.errors import CapabilityError
from tests.capabilities.asking import Asking


def test_as_many_bytes_come_as_were_asked_for_and_no_two_are_the_same() -> None:
    call = Asking(random_capabilities())
    told = [call.now("random.bytes", count=count) for count in (32, 32, 0, 1)]
    assert [len(each) for each in told] == [32, 32, 0, 1]
    assert told[0] != told[1]


def test_the_bound_is_that_of_the_whole_call() -> None:
    asked: list[int] = []

    def source(count: int) -> bytes:
        asked.append(count)
        return bytes(count)

    call = Asking(random_capabilities(source=source), max_bytes=10)
    assert call.now("random.bytes", count=6) == bytes(6)
    with pytest.raises(CapabilityError, match="10 random bytes in all") as caught:
        call.now("random.bytes", count=5)
    assert caught.value.kind == "quota"
    assert call.now("random.bytes", count=4) == bytes(4)  # what was refused was not taken
    with pytest.raises(CapabilityError):
        call.now("random.bytes", count=2**31)
    assert asked == [6, 4]
    assert len(Asking(random_capabilities(source=source), max_bytes=10).now("random.bytes", count=10)) == 10


@pytest.mark.parametrize("arguments", [{}, {"count": -1}, {"count": 1.0}, {"count": True}, {"count": 2**64 - 1}])
def test_a_count_is_a_natural_number(arguments: dict[str, Any]) -> None:
    with pytest.raises(CapabilityError) as caught:
        Asking(random_capabilities()).now("random.bytes", **arguments)
    assert caught.value.kind == "invalid_arguments"
