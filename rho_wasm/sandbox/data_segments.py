"""Active data segments at constant offsets: what an image holds, and what an engine's memory is before it runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.abi import PAGE_BYTES
from rho_wasm.sandbox.admission_module import DATA, MEMORIES
from rho_wasm.wasm import Reader, sections

__all__ = ["DataSegment", "InitialMemory", "active_segments"]

_I32_CONST, _END = 0x41, 0x0B


class DataSegment(NamedTuple):
    """``length`` bytes that stand at ``start`` of the module's file go to ``offset`` of the memory."""

    offset: int
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


def active_segments(reader: Reader, *, limit: int, reason: str) -> list[DataSegment]:
    """The content of a data section, in its order. What they overlap with or leave is the caller's to check.

    Raises :class:`ModuleRejected` (``reason``) for more than ``limit`` segments, for a passive one, for one whose
    offset is anything but an ``i32.const``, and for bytes after the last.
    """
    count = reader.u32()
    if count > limit:
        raise ModuleRejected(
            reason, "too many data segments", limit=limit, value=count, hint="merge segments that stand close together"
        )
    found = []
    for index in range(count):
        flags = reader.byte()
        if flags != 0:
            raise ModuleRejected(
                reason, f"data segment {index} is not an active one of memory 0", hint="make every segment active"
            )
        offset = _offset(reader, index, reason)
        length = reader.u32()
        found.append(DataSegment(offset, reader.skip(length), length))
    if not reader.done:
        raise ModuleRejected(reason, "the data section has bytes after its last segment")
    return found


def _offset(reader: Reader, index: int, reason: str) -> int:
    """The unsigned offset that ``i32.const n end`` says. A signed LEB128 of at most 5 bytes (5.2.2)."""
    if reader.byte() != _I32_CONST:
        raise ModuleRejected(reason, f"the offset of data segment {index} is no constant i32")
    value = shift = 0
    while True:
        byte = reader.byte()
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift == 35:
            raise ModuleRejected("leb128", f"the offset of data segment {index} is over 32 bits")
    if shift == 35 and byte not in (*range(0x08), *range(0x78, 0x80)):
        raise ModuleRejected("leb128", f"the offset of data segment {index} is over 32 bits")
    if byte & 0x40 and shift < 35:
        value -= 1 << shift
    if reader.byte() != _END:
        raise ModuleRejected(reason, f"the offset of data segment {index} is more than a constant")
    return value & 0xFFFF_FFFF


class InitialMemory:
    """What a module's own memory holds before anything of it runs: zeros, and its active data segments.

    Raises :class:`ModuleRejected` where they are not constant, or leave the memory.
    """

    def __init__(self, wasm: bytes) -> None:
        self._wasm = wasm
        found = {section.id: section for section in sections(wasm) if section.id in (MEMORIES, DATA)}
        self.pages = _minimum(found[MEMORIES].reader(wasm)) if MEMORIES in found else 0
        """How many pages it begins with, of 64 KiB."""
        self.segments: Sequence[DataSegment] = ()
        """Those of the module, in its order: where two overlap the later one counts."""
        if DATA in found:
            self.segments = active_segments(found[DATA].reader(wasm), limit=len(wasm), reason="data_segments")
        if any(segment.end > self.pages * PAGE_BYTES for segment in self.segments):
            raise ModuleRejected("data_segments", "a data segment leaves the memory that the module begins with")
        ordered = all(one.end <= two.offset for one, two in pairwise(self.segments))
        self._offsets = [segment.offset for segment in self.segments] if ordered else None

    def whole(self) -> bytearray:
        """All of it. What no segment covers costs no memory before it is written to."""
        memory = bytearray(self.pages * PAGE_BYTES)
        for offset, start, length in self.segments:
            memory[offset : offset + length] = memoryview(self._wasm)[start : start + length]
        return memory

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes at ``offset``. Beyond what the module begins with they are zeros."""
        end = offset + length
        piece = bytearray(length)
        first = 0 if self._offsets is None else max(0, bisect_right(self._offsets, offset) - 1)
        for segment in self.segments[first:]:
            if self._offsets is not None and segment.offset >= end:
                break
            low, high = max(offset, segment.offset), min(end, segment.end)
            if low < high:
                start = segment.start + low - segment.offset
                piece[low - offset : high - offset] = memoryview(self._wasm)[start : start + high - low]
        return bytes(piece)


def _minimum(reader: Reader) -> int:
    if reader.u32() != 1:
        raise ModuleRejected("memory_count", "the module must have one memory of its own", limit=1)
    reader.byte()
    return reader.u32()
