"""A core WebAssembly module as lists that can be edited and written. binary_reader.py reads one.

Function bodies stay opaque bytes (instructions.py looks into them), so an index never changes unless an edit says so.
Source: WebAssembly Core Specification 2.0, 5.5 (modules).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rho_wasm.sandbox import admission_module as parts
from rho_wasm.sandbox.abi import FunctionType, ValueType
from rho_wasm.untrusted import inert
from rho_wasm.wasm import CUSTOM, HEADER, Reader, encode_name, encode_section, encode_u32

__all__ = [
    "FUNCTION",
    "GLOBAL",
    "MEMORY",
    "SECTION_ORDER",
    "TABLE",
    "Element",
    "Export",
    "Global",
    "Import",
    "Memory",
    "Module",
    "encode_function_type",
    "encode_s32",
    "encode_signed",
    "encode_vector",
]

FUNCTION, TABLE, MEMORY, GLOBAL = range(4)
"""Kinds of imports and exports."""

_FUNCTION_TYPE = 0x60
_CODES: dict[ValueType, int] = {
    "i32": 0x7F,
    "i64": 0x7E,
    "f32": 0x7D,
    "f64": 0x7C,
    "v128": 0x7B,
    "funcref": 0x70,
    "externref": 0x6F,
}
SECTION_ORDER = (
    parts.TYPE,
    parts.IMPORT,
    parts.FUNCTION,
    parts.TABLE,
    parts.MEMORIES,
    parts.GLOBAL,
    parts.EXPORT,
    parts.START,
    parts.ELEMENT,
    parts.DATA_COUNT,
    parts.CODE,
    parts.DATA,
)


class Import(NamedTuple):
    """``kind`` is FUNCTION, TABLE, MEMORY or GLOBAL; ``type_index`` is a function's, ``raw`` the encoded type."""

    module: str
    name: str
    kind: int
    type_index: int
    raw: bytes

    def __str__(self) -> str:
        return inert(f"{self.module}.{self.name}", limit=128)


class Memory(NamedTuple):
    """In pages of 64 KiB."""

    minimum: int
    maximum: int | None


class Global(NamedTuple):
    """``initial`` is a constant expression with its ``end``."""

    value_type: ValueType
    mutable: bool
    initial: bytes

    @property
    def encoded_type(self) -> bytes:
        return bytes([_CODES[self.value_type], self.mutable])


@dataclass(frozen=True, slots=True)
class Export:
    name: str
    kind: int
    index: int


class Element(NamedTuple):
    """An element segment. ``flags`` as in 5.5.12; ``head`` is what stands between them and the vector, encoded.

    ``functions`` are indices; None is a null reference, which only segments of expressions (flag 4) can hold.
    """

    flags: int
    head: bytes
    functions: tuple[int | None, ...]


@dataclass(slots=True)
class Module:
    """Everything of a module but the custom sections other than ``name``, whose payload is kept as it is.

    ``functions`` has the type index of each function that the module defines, ``bodies`` the code of the same
    functions without its size. ``tables`` are encoded types. ``data`` is the content of the data section.
    """

    types: list[FunctionType] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    tables: list[bytes] = field(default_factory=list)
    memory: Memory | None = None
    globals: list[Global] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)
    start: int | None = None
    elements: list[Element] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    data: bytes = b"\0"
    counts_data: bool = False
    """There is a data count section, which memory.init and data.drop need."""
    names: bytes | None = None

    def encode(self) -> bytes:
        """The module's bytes, in the shortest encoding of everything but bodies."""
        contents = {
            parts.TYPE: encode_vector(encode_function_type(each) for each in self.types),
            parts.IMPORT: encode_vector(
                encode_name(each.module) + encode_name(each.name) + bytes([each.kind]) + each.raw
                for each in self.imports
            ),
            parts.FUNCTION: encode_vector(encode_u32(index) for index in self.functions),
            parts.TABLE: encode_vector(self.tables),
            parts.MEMORIES: b"\0" if self.memory is None else b"\1" + _encode_memory(self.memory),
            parts.GLOBAL: encode_vector(each.encoded_type + each.initial for each in self.globals),
            parts.EXPORT: encode_vector(
                encode_name(each.name) + bytes([each.kind]) + encode_u32(each.index) for each in self.exports
            ),
            parts.ELEMENT: encode_vector(_encode_element(each) for each in self.elements),
            parts.CODE: encode_vector(encode_u32(len(body)) + body for body in self.bodies),
            parts.DATA: self.data,
        }
        out = [HEADER]
        for identifier in SECTION_ORDER:
            if identifier == parts.START:
                if self.start is not None:
                    out.append(encode_section(identifier, encode_u32(self.start)))
            elif identifier == parts.DATA_COUNT:
                if self.counts_data:
                    out.append(encode_section(identifier, encode_u32(Reader(self.data).u32())))
            elif contents[identifier] != b"\0":
                out.append(encode_section(identifier, contents[identifier]))
        if self.names is not None:
            out.append(encode_section(CUSTOM, encode_name("name") + self.names))
        return b"".join(out)

    def imported(self, kind: int) -> int:
        """How many of a kind are imported: those have the first indices."""
        return sum(each.kind == kind for each in self.imports)

    def signature(self, function: int) -> FunctionType:
        """The type of the function of that index. IndexError for no function."""
        imported = [each.type_index for each in self.imports if each.kind == FUNCTION]
        own = function - len(imported)
        return self.types[imported[function] if own < 0 else self.functions[own]]

    def exported(self, name: str, kind: int) -> int | None:
        """The index of the export of that name and kind."""
        return next((each.index for each in self.exports if each.name == name and each.kind == kind), None)

    def add_export(self, name: str, kind: int, index: int) -> None:
        """Exports something of the module's own. ValueError for a name that is taken."""
        if any(each.name == name for each in self.exports):
            raise ValueError(f"there is an export {inert(name, limit=128)!r} already")
        self.exports.append(Export(name, kind, index))

    def type_index(self, signature: FunctionType) -> int:
        """The index of that function type, which is appended where there is none."""
        if signature not in self.types:
            self.types.append(signature)
        return self.types.index(signature)

    def add_function(self, signature: FunctionType, body: bytes, *, export: str | None = None) -> int:
        """Appends a function (``body``: locals, instructions, ``end``) and answers its index."""
        index = self.imported(FUNCTION) + len(self.functions)
        self.functions.append(self.type_index(signature))
        self.bodies.append(body)
        if export is not None:
            self.add_export(export, FUNCTION, index)
        return index

    def replace_data(self, segments: Sequence[tuple[int, bytes]]) -> None:
        """Makes the data section these active segments, each with its offset in memory (unsigned)."""
        self.data = encode_vector(
            b"\0\x41" + encode_s32(offset) + b"\x0b" + encode_u32(len(content)) + content
            for offset, content in segments
        )


def encode_vector(items: Iterable[bytes]) -> bytes:
    """A vector of encoded items."""
    encoded = list(items)
    return encode_u32(len(encoded)) + b"".join(encoded)


def encode_function_type(signature: FunctionType) -> bytes:
    """The encoded type."""
    return (
        bytes([_FUNCTION_TYPE])
        + encode_vector(bytes([_CODES[each]]) for each in signature.params)
        + encode_vector(bytes([_CODES[each]]) for each in signature.results)
    )


def encode_s32(value: int) -> bytes:
    """The shortest signed LEB128 of a number that is given as 32 unsigned bits."""
    return encode_signed(value - (1 << 32) if value >> 31 else value)


def encode_signed(value: int) -> bytes:
    """The shortest signed LEB128 of ``value``."""
    out = bytearray()
    while not -64 <= value < 64:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def _encode_memory(memory: Memory) -> bytes:
    if memory.maximum is None:
        return b"\0" + encode_u32(memory.minimum)
    return b"\1" + encode_u32(memory.minimum) + encode_u32(memory.maximum)


def _encode_element(element: Element) -> bytes:
    expressions = element.flags & 4
    return (
        encode_u32(element.flags)
        + element.head
        + encode_vector(
            encode_u32(index)
            if not expressions and index is not None
            else (b"\xd2" + encode_u32(index) if index is not None else b"\xd0\x70") + b"\x0b"
            for index in element.functions
        )
    )
