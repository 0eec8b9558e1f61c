"""Additions to a module for which the functions it defines must make room, or its table."""

from __future__ import annotations

from collections.abc import Sequence

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.abi import ALLOWED_IMPORTS
from rho_wasm.toolchains.binary import FUNCTION, Element, Import, Module, encode_s32
from rho_wasm.toolchains.module_edits import renumber_functions
from rho_wasm.wasm import Reader, encode_u32

__all__ = ["add_imports", "add_to_table"]

_FUNCREF = 0x70
_HAS_MAXIMUM = 1


def add_imports(module: Module, names: Sequence[str]) -> dict[str, int]:
    """Imports functions that the guest ABI knows, by their names, and answers their indices.

    Imports come first among the indices, so every function that the module defines moves up.
    """
    first = module.imported(FUNCTION)
    moved = {old: old + len(names) for old in range(first, first + len(module.functions))}
    for name in names:
        origin, signature = next((key[0], found) for key, found in ALLOWED_IMPORTS.items() if key[1] == name)
        index = module.type_index(signature)
        module.imports.append(Import(origin, name, FUNCTION, index, encode_u32(index)))
    renumber_functions(module, moved)
    return {name: first + place for place, name in enumerate(names)}


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
