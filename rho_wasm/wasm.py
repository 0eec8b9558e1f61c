"""WebAssembly binaries as bytes: LEB128, names and sections, read and written. Nothing here runs or compiles.

Sources: WebAssembly Core Specification, chapter 5 (binary format): 5.2.2 integers, 5.2.4 names, 5.5.2 sections, 5.5.3
custom sections. What is malformed raises :class:`ModuleRejected` with the reason ``header``, ``leb128``, ``name``,
``sections`` or ``truncated``, whoever asks: bytes of a guest are never trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rho_wasm.errors import ModuleRejected

__all__ = [
    "CUSTOM",
    "HEADER",
    "MAX_SECTIONS",
    "Reader",
    "Section",
    "custom",
    "custom_sections",
    "encode_name",
    "encode_section",
    "encode_u32",
    "sections",
    "with_custom",
]

HEADER = b"\0asm\x01\0\0\0"
CUSTOM = 0
"""The id of custom sections."""
MAX_SECTIONS = 1_000
"""Of a module that is read at all, with any limits: 5 million empty ones took half a minute to walk."""

_COMPONENT = b"\0asm\x0d\0\x01\0"


class Reader:
    """A cursor over ``data`` from ``position`` up to ``end``. Reading past ``end`` is ``truncated``."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end

    @property
    def done(self) -> bool:
        return self.position >= self.end

    def byte(self) -> int:
        position = self.position
        if position >= self.end:
            raise _truncated(position)
        self.position = position + 1
        return self.data[position]

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        position = self.skip(size)
        return self.data[position : position + size]

    def skip(self, size: int) -> int:
        """Passes over ``size`` bytes without copying them; answers where they begin."""
        position = self.position
        if size > self.end - position:
            raise _truncated(position)
        self.position = position + size
        return position

    def u32(self) -> int:
        """An unsigned LEB128 integer of at most 32 bits: at most 5 bytes, no bit beyond the 32nd."""
        position = self.position
        if position < self.end and (low := self.data[position]) < 0x80:
            self.position = position + 1
            return low
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 32:
                    break
                return value
        raise ModuleRejected("leb128", f"the integer at byte {position} is over 32 bits")

    def name(self, *, max_bytes: int) -> str:
        """A length and that many bytes of UTF-8. ``name`` if it is longer than ``max_bytes`` or not UTF-8."""
        position = self.position
        size = self.u32()
        if size > max_bytes:
            raise ModuleRejected("name", f"the name at byte {position} is too long", limit=max_bytes, value=size)
        try:
            return self.take(size).decode("utf-8")
        except UnicodeDecodeError:
            raise ModuleRejected("name", f"the name at byte {position} is not UTF-8") from None


def _truncated(position: int) -> ModuleRejected:
    return ModuleRejected("truncated", f"the module ends early, or a size is too large, at byte {position}")


@dataclass(frozen=True, slots=True)
class Section:
    """Where a section stands: it begins at ``start`` with its id, its content is ``data[content:end]``."""

    id: int
    start: int
    content: int
    end: int

    def reader(self, data: bytes) -> Reader:
        return Reader(data, self.content, self.end)


def sections(data: bytes) -> Iterator[Section]:
    """The sections of a core module in the order they stand in, one at a time: stop when there are too many.

    Raises :class:`ModuleRejected`: ``header`` for anything but a core module of version 1, ``leb128`` and ``truncated``
    for a size that is wrong, ``sections`` for more than :data:`MAX_SECTIONS`. Order and content are the caller's to
    check.
    """
    if data[:8] != HEADER:
        raise ModuleRejected("header", _what_it_is(data), hint="build a core module (wasm32), not a component or text")
    reader = Reader(data, len(HEADER))
    count = 0
    while not reader.done:
        if (count := count + 1) > MAX_SECTIONS:
            raise ModuleRejected("sections", "the module has too many sections", limit=MAX_SECTIONS, value=count)
        start = reader.position
        identifier = reader.byte()
        size = reader.u32()
        content = reader.skip(size)
        yield Section(identifier, start, content, content + size)


def _what_it_is(data: bytes) -> str:
    if data[:8] == _COMPONENT:
        return "this is a WebAssembly component"
    if data[:4] == HEADER[:4]:
        return "the version of the binary format is not 1"
    if data[:1] in (b"(", b";"):
        return "this is WebAssembly text"
    return "this is not WebAssembly"


def custom_sections(data: bytes, *, max_name_bytes: int = 1024) -> Iterator[tuple[str, bytes]]:
    """Name and payload of each custom section, in order. Raises as :func:`sections` does."""
    for section in sections(data):
        if section.id == CUSTOM:
            reader = section.reader(data)
            yield reader.name(max_bytes=max_name_bytes), data[reader.position : section.end]


def custom(data: bytes, name: str) -> bytes | None:
    """The payload of the first custom section of that name, or None."""
    return next((payload for found, payload in custom_sections(data) if found == name), None)


def with_custom(data: bytes, name: str, payload: bytes) -> bytes:
    """``data`` with exactly one custom section ``name``, at its end; any of that name before is left out."""
    kept = [HEADER]
    for section in sections(data):
        if section.id == CUSTOM and section.reader(data).name(max_bytes=1024) == name:
            continue
        kept.append(data[section.start : section.end])
    return b"".join([*kept, encode_section(CUSTOM, encode_name(name) + payload)])


def encode_u32(value: int) -> bytes:
    """The shortest unsigned LEB128 of ``value``. ValueError outside 0 .. 2^32-1."""
    if not 0 <= value < 1 << 32:
        raise ValueError(f"{value} is no unsigned 32-bit integer")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_name(name: str) -> bytes:
    """A length and the name in UTF-8."""
    raw = name.encode("utf-8")
    return encode_u32(len(raw)) + raw


def encode_section(identifier: int, content: bytes) -> bytes:
    """One section: id, size, content."""
    return bytes([identifier]) + encode_u32(len(content)) + content
