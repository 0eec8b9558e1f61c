"""Writes the image of a tool: what loading its source changed in an engine's memory, as a module without code."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.abi import IMAGE_MEMORY, IMAGE_MODULE, MANIFEST_SECTION, PAGE_BYTES
from rho_wasm.sandbox.admission_module import DATA, IMPORT
from rho_wasm.sandbox.data_segments import InitialMemory
from rho_wasm.wasm import CUSTOM, HEADER, custom, encode_name, encode_section, encode_u32, with_custom

__all__ = ["TOUCHED_SECTION", "touched_pages", "with_touched_pages", "write_image"]

TOUCHED_SECTION = "rho.touched"
"""Of an engine: numbers of pages of 4 KiB, each as 4 bytes, which every call of a tool looks at far from all others."""
_PAGE = 4_096
_U32 = struct.Struct("<I")

_ALWAYS_MERGED = 64
"""Bytes between two runs that are copied rather than gone round: a segment of its own costs as much as copying 2 KiB,
and ten bytes of the file."""
_MEMORY = b"\x02\x00"
"""Of an import: the kind, and limits without a maximum."""
_ACTIVE = b"\x00\x41"
_END = b"\x0b"


class _Run(NamedTuple):
    offset: int
    end: int
    pieces: list[tuple[int, bytes]]


def write_image(
    *,
    engine: bytes,
    pages: int,
    changes: Iterable[tuple[int, bytes]],
    manifest: Manifest,
    limits: HostLimits,
    touched: Iterable[int] = (),
) -> bytes:
    """The image over the module ``engine`` of a memory of ``pages`` that differs from the engine's by ``changes``.

    ``changes`` ascend and do not overlap (:class:`rho_wasm.sandbox.images.LoadedSource`). Runs that stand close
    together become one, the smallest gaps first, until ``limits.image_segments`` are left; what lies between them is
    the engine's own memory. ``manifest.engine`` is written where it is not said. The same input gives the same bytes.

    Of each page of 4 KiB in ``touched`` the image has a byte, which is the engine's own if nothing there changed. To
    look at one page of an engine's memory costs a call 5 µs (the processor faults, the system maps the 16 pages around
    it, and unmaps them in the end), to have it written to with the image half of that. Where there would be too many
    segments they are left out.

    Raises :class:`BuildError` (``image_too_large``) beyond ``limits.image_bytes``.
    """
    if manifest.engine is None:
        manifest = manifest.model_copy(update={"engine": hashlib.sha256(engine).digest()})
    memory = InitialMemory(engine)
    runs = _merged([_Run(offset, offset + len(data), [(offset, data)]) for offset, data in changes if data], limits)
    runs = _with_touched(runs, touched, memory, limits)
    # Refused before it is put together: what loading changed may be all of a large memory.
    size = sum(run.end - run.offset for run in runs)
    if size <= limits.image_bytes:
        image = _module(pages, [(run.offset, _content(run, memory)) for run in runs], manifest)
        if len(image) <= limits.image_bytes:
            return image
        size = len(image)
    why = f"the tool's memory after loading is an image of {size:,} bytes, {limits.image_bytes:,} are allowed"
    raise BuildError(
        manifest.language or "image",
        [Diagnostic(why)],
        reason="image_too_large",
        hint="let the file make less when it is loaded: large data can be made inside the tool's function",
    )


def with_touched_pages(engine: bytes, pages: Iterable[int]) -> bytes:
    """The module ``engine`` with a section that says so."""
    return with_custom(engine, TOUCHED_SECTION, b"".join(map(_U32.pack, pages)))


def touched_pages(engine: bytes) -> tuple[int, ...]:
    """What the section of ``engine`` says; nothing where it has none."""
    said = custom(engine, TOUCHED_SECTION) or b""
    return tuple(page for (page,) in _U32.iter_unpack(said[: len(said) // _U32.size * _U32.size]))


def _with_touched(runs: list[_Run], touched: Iterable[int], memory: InitialMemory, limits: HostLimits) -> list[_Run]:
    had = {page for run in runs for page in range(run.offset // _PAGE, (run.end - 1) // _PAGE + 1)}
    inside = memory.pages * PAGE_BYTES // _PAGE
    places = [page * _PAGE for page in sorted(set(touched) - had) if page < inside]
    if len(runs) + len(places) > limits.image_segments:
        return runs
    return sorted([*runs, *(_Run(place, place + 1, [(place, memory.read(place, 1))]) for place in places)])


def _merged(runs: Sequence[_Run], limits: HostLimits) -> list[_Run]:
    """The runs with the gaps closed that cost least: small ones, and then as many as there are segments too many."""
    gaps = [(after.offset - before.end, place) for place, (before, after) in enumerate(pairwise(runs))]
    closed = {place for gap, place in gaps if gap <= _ALWAYS_MERGED}
    if (excess := len(runs) - len(closed) - limits.image_segments) > 0:
        closed.update(place for _, place in sorted(gap for gap in gaps if gap[1] not in closed)[:excess])
    merged: list[_Run] = []
    for place, run in enumerate(runs):
        if place - 1 in closed:
            last = merged[-1]
            merged[-1] = _Run(last.offset, run.end, last.pieces)
            last.pieces.extend(run.pieces)
        else:
            merged.append(run)
    return merged


def _content(run: _Run, memory: InitialMemory) -> bytes:
    if len(run.pieces) == 1:
        return run.pieces[0][1]
    content = bytearray(memory.read(run.offset, run.end - run.offset))
    for offset, data in run.pieces:
        content[offset - run.offset : offset - run.offset + len(data)] = data
    return bytes(content)


def _module(pages: int, segments: Sequence[tuple[int, bytes]], manifest: Manifest) -> bytes:
    memory = encode_name(IMAGE_MODULE) + encode_name(IMAGE_MEMORY) + _MEMORY + encode_u32(pages)
    parts = [HEADER, encode_section(IMPORT, encode_u32(1) + memory)]
    if segments:
        vector = [encode_u32(len(segments))]
        for offset, data in segments:
            vector += [_ACTIVE, _signed(offset), _END, encode_u32(len(data)), data]
        parts.append(encode_section(DATA, b"".join(vector)))
    parts.append(encode_section(CUSTOM, encode_name(MANIFEST_SECTION) + manifest.encode()))
    return b"".join(parts)


def _signed(offset: int) -> bytes:
    """Signed LEB128 of the i32 that means the unsigned ``offset``."""
    value = offset - (1 << 32) if offset >= 1 << 31 else offset
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        if value == (-1 if byte & 0x40 else 0):
            return bytes([*out, byte])
        out.append(byte | 0x80)
