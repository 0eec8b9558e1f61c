"""What wasmtime says of a module that is not valid, made one line that names the function.

wasmtime gives an offset into the code, or a chain of causes over several lines. Names come from a guest: whoever shows
the line makes it inert.
"""

from __future__ import annotations

import re

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.admission_module import CODE, EXPORT, FUNCTION, IMPORT
from rho_wasm.sandbox.names import MAX_NAME_BYTES, function_names
from rho_wasm.wasm import Reader, sections

__all__ = ["one_line"]

_OFFSET = re.compile(r" ?\(at offset (0x[0-9a-f]{1,8})\)|Invalid input WebAssembly code at offset ([0-9]{1,10}): ")
_NUMBERED = re.compile(r"^\d+: ")
_CAUSES = "Caused by:"
_FUNCTION_KIND = 0
_MAX_EXPORTS = 20_000
"""Exports that are looked through for a name."""


def one_line(said: str, code: bytes, *, names: bytes = b"") -> str:
    """``said`` as one line, with the function of ``code`` in which the fault lies, or else the byte.

    ``names`` is the payload of the module's ``name`` section; without it a function is known by its index and export.
    """
    lines = [_NUMBERED.sub("", line.strip()) for line in said.splitlines()]
    lines = [line for line in lines if line and line != _CAUSES]
    found = next((match for line in reversed(lines) if (match := _OFFSET.search(line))), None)
    if found is None:
        return ": ".join(lines)
    what = found.string[: found.start()] + found.string[found.end() :]
    return f"{what}, {_place(code, int(found[1] or found[2], 0), names)}"


def _place(code: bytes, offset: int, names: bytes) -> str:
    try:
        index = _function_at(code, offset)
    except ModuleRejected:
        index = None  # It is not even well-formed up to there.
    if index is None:
        return f"at byte {offset}"
    name = function_names(names, [index]).get(index) or _exported_as(code, index)
    return f"in function {index}" + (f" ({name})" if name else "")


def _function_at(code: bytes, offset: int) -> int | None:
    """The index of the function whose body holds the byte at ``offset``. Raises :class:`ModuleRejected`."""
    found = {section.id: section for section in sections(code)}
    section = found.get(CODE)
    if section is None or not section.content <= offset < section.end or FUNCTION not in found:
        return None
    # What is admitted imports functions only.
    imported = found[IMPORT].reader(code).u32() if IMPORT in found else 0
    reader = section.reader(code)
    for index in range(reader.u32()):
        size = reader.u32()
        if offset < reader.skip(size) + size:
            return imported + index
    return None


def _exported_as(code: bytes, index: int) -> str | None:
    section = next((section for section in sections(code) if section.id == EXPORT), None)
    if section is None:
        return None
    reader: Reader = section.reader(code)
    try:
        for _ in range(min(reader.u32(), _MAX_EXPORTS)):
            name = reader.name(max_bytes=MAX_NAME_BYTES)
            kind = reader.byte()
            if reader.u32() == index and kind == _FUNCTION_KIND:
                return name
    except ModuleRejected:
        return None
    return None
