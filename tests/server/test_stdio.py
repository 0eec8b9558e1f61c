"""Lines read from a descriptor and written to one, without a thread that waits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
import pytest

from rho_wasm.server.stdio import Lines, LineTooLong, Writer

pytestmark = pytest.mark.anyio


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        for descriptor in (reading, writing):
            with suppress(OSError):
                os.close(descriptor)


async def test_lines_come_whole_however_they_arrive_and_blank_ones_not_at_all() -> None:
    with pipe() as (reading, writing):
        for part in (b'{"a":', b" 1}\n\n  \n{}\nla", b"st\xff"):
            os.write(writing, part)
        os.close(writing)
        assert [line async for line in Lines(reading)] == ['{"a": 1}', "{}", "last\ufffd"]


async def test_a_message_without_end_is_not_kept() -> None:
    with pipe() as (reading, writing):
        os.write(writing, b"x" * 20_000)
        with pytest.raises(LineTooLong):
            [line async for line in Lines(reading, limit=10_000)]


async def test_a_message_that_would_take_long_to_parse_is_not_parsed() -> None:
    line = b"[" * 100_001 + b"\n"
    with pipe() as (reading, writing):
        async with anyio.create_task_group() as group:
            group.start_soon(Writer(writing).write, line.decode())
            with pytest.raises(LineTooLong, match="100000 values"):
                [line async for line in Lines(reading)]


async def test_waiting_for_a_line_is_ended_by_a_cancellation_at_once() -> None:
    with pipe() as (reading, _), anyio.move_on_after(0.01) as scope:
        [line async for line in Lines(reading)]
    assert scope.cancelled_caught


async def test_a_reader_that_is_slow_gets_all_of_a_long_message() -> None:
    text = "ä" * 500_000
    with pipe() as (reading, writing):
        got = bytearray()

        async def read() -> None:
            while len(got) < 1_000_000:
                await anyio.wait_readable(reading)
                got.extend(os.read(reading, 65_536))

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await Writer(writing).write(text)
        assert got.decode() == text
