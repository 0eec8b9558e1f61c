"""A module as admission sees it: where its sections stand, and the facts that one check leaves for the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.abi import FunctionType, ValueType
from rho_wasm.untrusted import inert
from rho_wasm.wasm import Reader, Section

__all__ = [
    "CODE",
    "DATA",
    "DATA_COUNT",
    "ELEMENT",
    "EXPORT",
    "FUNCTION",
    "GLOBAL",
    "IMPORT",
    "MEMORIES",
    "START",
    "TABLE",
    "TAG",
    "TYPE",
    "Facts",
    "finished",
    "over",
    "reference_type",
    "shown",
    "value_type",
]

TYPE, IMPORT, FUNCTION, TABLE, MEMORIES, GLOBAL, EXPORT, START, ELEMENT, CODE, DATA, DATA_COUNT, TAG = range(1, 14)

_VALUE_TYPES: dict[int, ValueType] = {
    0x7F: "i32",
    0x7E: "i64",
    0x7D: "f32",
    0x7C: "f64",
    0x7B: "v128",
    0x70: "funcref",
    0x6F: "externref",
}


@dataclass(slots=True)
class Facts:
    """The module's bytes and limits, and what the checks before have found. Lives for one ``admit``."""

    data: bytes
    limits: HostLimits
    sections: dict[int, Section] = field(default_factory=dict)
    """The sections with an id of their own: each is there at most once."""
    customs: list[tuple[str, Section, int]] = field(default_factory=list)
    """Name, section and where its payload begins, of each custom section."""
    types: list[FunctionType] = field(default_factory=list)
    imports: list[tuple[str, str]] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    """The type index of every function: imported ones first, then the module's own."""
    imported_functions: int = 0
    tables: int = 0
    memories: int = 0
    memory_pages: int = 0
    globals: int = 0
    exports: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Kind (0 function, 1 table, 2 memory, 3 global) and index by name."""
    elements: int = 0
    manifest: Manifest | None = None

    def reader(self, identifier: int) -> Reader | None:
        """Over the content of the section of that id, or None if it is absent."""
        section = self.sections.get(identifier)
        return section.reader(self.data) if section is not None else None

    @property
    def code_bytes(self) -> int:
        section = self.sections.get(CODE)
        return section.end - section.content if section is not None else 0


def shown(name: str) -> str:
    """A name of the module, fit for a message."""
    return inert(name, limit=128)


def over(reason: str, what: str, *, limit: int, value: int, name: str | None = None, hint: str = "") -> ModuleRejected:
    """A bound that was passed."""
    return ModuleRejected(reason, f"too many {what}", limit=limit, value=value, name=name, hint=hint)


def finished(reader: Reader, section: str) -> None:
    """A section ends where its content ends."""
    if not reader.done:
        raise ModuleRejected("section_size", f"the {section} section has bytes after its content", name=section)


def value_type(reader: Reader) -> ValueType:
    """The next value type. ``feature_off`` for the types of features that are off, and anything else."""
    position = reader.position
    code = reader.byte()
    if code not in _VALUE_TYPES:
        raise ModuleRejected(
            "feature_off",
            f"0x{code:02X} at byte {position} is a type that is not enabled",
            hint="build it without garbage collection, exceptions and typed function references",
        )
    return _VALUE_TYPES[code]


def reference_type(reader: Reader) -> ValueType:
    """The next reference type: funcref or externref."""
    found = value_type(reader)
    if found not in ("funcref", "externref"):
        raise ModuleRejected("table_type", f"{found} is no reference type")
    return found
