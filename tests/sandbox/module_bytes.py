"""Modules made of bytes, section by section, so that each test can get exactly one thing wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.abi import MANIFEST_SECTION
from rho_wasm.wasm import CUSTOM, HEADER, encode_name, encode_section, encode_u32

__all__ = ["ALLOC", "CALL", "I32", "I64", "MANIFEST", "Guest", "body", "export", "function_type", "vector"]

I32, I64 = 0x7F, 0x7E
MANIFEST = Manifest.from_json(
    {"tools": [{"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}]}
).encode()

_ORDER = (1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11)


def vector(items: Sequence[bytes]) -> bytes:
    return encode_u32(len(items)) + b"".join(items)


def function_type(params: Iterable[int] = (), results: Iterable[int] = ()) -> bytes:
    return b"\x60" + vector([bytes([p]) for p in params]) + vector([bytes([r]) for r in results])


def body(instructions: bytes, local_groups: Sequence[bytes] = ()) -> bytes:
    """A function body with its size; ``instructions`` without the last ``end``."""
    content = vector(local_groups) + instructions + b"\x0b"
    return encode_u32(len(content)) + content


def export(name: str, kind: int, index: int) -> bytes:
    return encode_name(name) + bytes([kind]) + encode_u32(index)


ALLOC = body(b"\x41\x10")
CALL = body(b"\x42\x00")


class Guest:
    """A small valid guest. Types 0, 1, 2 are those of rho_alloc, rho_call and () -> (); functions 0 and 1 are the two.

    Change the lists, or put the raw content of a section into ``raw`` (None leaves it out), then ``build()``.
    """

    def __init__(self) -> None:
        self.types = [function_type([I32], [I32]), function_type([I32, I32], [I64]), function_type()]
        self.imports: list[bytes] = []
        self.functions = [0, 1]
        self.exports = [export("memory", 2, 0), export("rho_alloc", 0, 0), export("rho_call", 0, 1)]
        self.bodies = [ALLOC, CALL]
        self.raw: dict[int, bytes | None] = {}
        self.customs = [(MANIFEST_SECTION, MANIFEST)]

    def add_function(self, function_body: bytes, *, type_index: int = 2) -> Guest:
        self.functions.append(type_index)
        self.bodies.append(function_body)
        return self

    def with_raw(self, identifier: int, content: bytes | None) -> Guest:
        self.raw[identifier] = content
        return self

    def build(self) -> bytes:
        contents: dict[int, bytes | None] = {
            1: vector(self.types),
            2: vector(self.imports) if self.imports else None,
            3: vector([encode_u32(index) for index in self.functions]),
            5: b"\x01\x00\x01",
            7: vector(self.exports),
            10: vector(self.bodies),
        } | self.raw
        parts = [encode_section(i, content) for i in _ORDER if (content := contents.get(i)) is not None]
        customs = [encode_section(CUSTOM, encode_name(name) + payload) for name, payload in self.customs]
        return b"".join([HEADER, *parts, *customs])
