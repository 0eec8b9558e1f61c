"""MCP over standard input and output, where nothing but the protocol may stand on standard output."""

from __future__ import annotations

import os
import select
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server

from rho_wasm.errors import RhoError
from rho_wasm.server.bodies import MAX_PARTS, is_dense
from rho_wasm.server.server import McpServer

__all__ = ["LineTooLong", "Lines", "Writer", "serve_stdio"]

MAX_LINE_BYTES = 4 * 1024 * 1024
"""Of one message: 1 MiB of arguments, however they are escaped. A client that sends more is not answered any more."""

_READ_BYTES = 64 * 1024


class LineTooLong(RhoError):
    """The client sent a message without end, or one that would take long to parse."""

    reason = "line_too_long"

    def __init__(self, limit: int, unit: str = "bytes") -> None:
        super().__init__(f"the client sent a message of more than {limit} {unit}")


async def serve_stdio(server: McpServer) -> None:
    """Serves one client, the parent process, until it closes standard input, or this is cancelled.

    While it does, standard input is empty for everybody else in this process and its children, and what they print goes
    to standard error. No thread waits for the client, so that a signal ends this at once.

    Raises :class:`LineTooLong` for a message of more than 4 MiB or 100,000 values.
    """
    with _claimed() as (wire_in, wire_out):
        # The SDK takes any lines to read and anything to write to, and says that it wants files.
        streams = stdio_server(stdin=cast(Any, Lines(wire_in)), stdout=cast(Any, Writer(wire_out)))
        async with streams as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


@contextmanager
def _claimed() -> Iterator[tuple[int, int]]:
    """Private descriptors of standard input and output; the public ones lead nowhere and to standard error."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield wire_in, wire_out
    finally:
        os.dup2(wire_in, 0)
        os.dup2(wire_out, 1)
        for descriptor in (nothing, wire_in, wire_out):
            os.close(descriptor)


class Lines:
    """The lines that arrive on a descriptor, each at most ``limit`` bytes long and none too dense to be parsed."""

    def __init__(self, descriptor: int, *, limit: int = MAX_LINE_BYTES) -> None:
        self._descriptor = descriptor
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[str]:
        waiting = bytearray()
        while data := await self._read():
            waiting += data
            if b"\n" in data:
                *lines, rest = waiting.split(b"\n")
                waiting = rest
                for line in lines:
                    if line.strip():
                        yield self._text(line)
            if len(waiting) > self._limit:
                raise LineTooLong(self._limit)
        if waiting.strip():
            yield self._text(waiting)

    def _text(self, line: bytearray) -> str:
        if len(line) > self._limit:
            raise LineTooLong(self._limit)
        if is_dense(line):
            raise LineTooLong(MAX_PARTS, "values")
        return line.decode("utf-8", "replace")

    async def _read(self) -> bytes:
        try:
            await anyio.wait_readable(self._descriptor)
        except PermissionError:
            await anyio.lowlevel.checkpoint()  # A file: reading it waits for nobody, and it cannot be waited for.
        return os.read(self._descriptor, _READ_BYTES)


class Writer:
    """Writes to a descriptor as it takes it, without holding the event loop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", "replace"))
        while data:
            try:
                await anyio.wait_writable(self._descriptor)
            except PermissionError:
                await anyio.lowlevel.checkpoint()
            # A pipe that can be written to takes this many bytes without waiting.
            written = os.write(self._descriptor, data[: select.PIPE_BUF])
            data = data[written:]

    async def flush(self) -> None:
        """Nothing is kept back."""
