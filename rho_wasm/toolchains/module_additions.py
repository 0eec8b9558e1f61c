"""Additions to a module for which its table must make room."""

from __future__ import annotations

from rho_wasm.errors import ModuleRejected
from rho_wasm.toolchains.binary import Element, Module, encode_s32
from rho_wasm.wasm import Reader, encode_u32

__all__ = ["add_to_table"]

_FUNCREF = 0x70
_HAS_MAXIMUM = 1


def add_to_table(module: Module, function: int) -> int:
    """Puts a function at the end of the module's one table, which grows by one, and answers its place there.

    Raises :class:`ModuleRejected` (``tables``) where there is no single table of functions.
    """
    if len(module.tables) != 1:
        raise ModuleRejected("tables", "the module has not one table", limit=1, value=len(module.tables))
    reader = Reader(module.tables[0])
    kind, limits = reader.byte(), reader.byte()
    if kind != _FUNCREF or limits > _HAS_MAXIMUM:
        raise ModuleRejected("tables", "the module's table is no plain table of functions")
    place = reader.u32()
    maximum = b"" if limits != _HAS_MAXIMUM else encode_u32(max(reader.u32(), place + 1))
    module.tables[0] = bytes([_FUNCREF, limits]) + encode_u32(place + 1) + maximum
    module.elements.append(Element(0, b"\x41" + encode_s32(place) + b"\x0b", (function,)))
    return place
