"""The one function that validates a guest's pointers."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rho_wasm.sandbox.memory import GuestMemory, OutOfBounds, span
from rho_wasm.sandbox.state import GuestTrap

SIZE = 65_536


@pytest.mark.parametrize(
    ("pointer", "length"), [(0, 0), (0, SIZE), (SIZE, 0), (SIZE - 1, 1), (1, SIZE - 1), (2**32, 0), (2**32 + 5, 1)]
)
def test_what_lies_inside_is_taken(pointer: int, length: int) -> None:
    assert span(pointer, length, SIZE) == (pointer % 2**32, length)


@pytest.mark.parametrize(
    ("pointer", "length"),
    [(SIZE, 1), (0, SIZE + 1), (-1, 1), (-8, 8), (1, -1), (-1, -1), (2**31, 2**31), (SIZE + 1, 0)],
)
def test_what_leaves_the_memory_is_refused(pointer: int, length: int) -> None:
    with pytest.raises(OutOfBounds):
        span(pointer, length, SIZE)


@given(st.integers(-(2**63), 2**63), st.integers(-(2**63), 2**63), st.integers(0, 2**32))
def test_a_span_never_leaves_the_memory(pointer: int, length: int, size: int) -> None:
    try:
        start, count = span(pointer, length, size)
    except OutOfBounds:
        return
    assert 0 <= start <= start + count <= size


def test_reads_and_writes_are_copies_inside_the_memory_and_are_counted() -> None:
    room = ctypes.create_string_buffer(b"abcdef", 8)
    memory = GuestMemory(ctypes.addressof(room), 8)
    assert memory.read(2, 3) == b"cde"
    memory.write(6, b"gh")
    assert room.raw == b"abcdefgh"
    memory.write_u32(0, -1)
    memory.write_u64(0, 1)
    assert memory.read_u32(0) == 1
    assert memory.touched == 3 + 2 + 4 + 8 + 4


def test_a_write_that_does_not_fit_writes_nothing() -> None:
    room = ctypes.create_string_buffer(16)
    memory = GuestMemory(ctypes.addressof(room), 8)
    with pytest.raises(GuestTrap) as caught:
        memory.write(7, b"xy")
    assert caught.value.reason == "trapped"
    assert room.raw == bytes(16)
    assert memory.touched == 0
