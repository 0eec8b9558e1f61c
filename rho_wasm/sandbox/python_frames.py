"""The frames of CPython 3.12 in a memory of 32 bits, by the layouts of its header files."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Iterator
from typing import Final

from rho_wasm.sandbox.interpreter_frames import (
    FILE_CHARS,
    NAME_CHARS,
    TABLE_BYTES,
    Function,
    InterpreterMemory,
    Place,
    Stopped,
    number,
    walked,
)

__all__ = ["PythonFrames"]

_FRAME: Final = struct.Struct("<II20xI")
"""``_PyInterpreterFrame``: ``f_code``, ``previous``, ``prev_instr``, which is set at each instruction."""
_CODE: Final = struct.Struct("<44xI32xI4xII28x")
"""``PyCodeObject``: ``co_firstlineno``, ``co_filename``, ``co_qualname``, ``co_linetable``. Bytecode follows it."""
_STR: Final = struct.Struct("<8xI4xI")
"""``PyASCIIObject``: length and state. If it is one, its characters follow."""
_WIDE_BYTES: Final = 28
"""Of ``PyCompactUnicodeObject``, which any other characters follow."""
_WIDTHS: Final = (1, 2, 4)
_BYTES: Final = struct.Struct("<8xI4x")
_BITS: Final = 6
"""In each byte of a number of the table."""
_UNIT_BYTES: Final = 2

_FOREIGN: Final = ("<", "/wlr/build-staging/")
"""How the files begin that are not the author's: ``<rho._engine>``, ``<frozen importlib>``, and Python's library."""


class PythonFrames:
    """``current``: the address of ``PyThreadState.cframe``, whose first field is the innermost frame."""

    def __init__(self, current: int, *, foreign: tuple[str, ...] = _FOREIGN) -> None:
        self.current = current
        self._foreign = foreign

    def read(self, memory: InterpreterMemory) -> Stopped:
        def step(frame: int) -> tuple[int, int, int]:
            code, outer, instruction = _FRAME.unpack(memory.read(frame, _FRAME.size))
            return outer, code, instruction

        places, more = walked(
            lambda: memory.word(memory.word(self.current)), step, lambda code: self._function(memory, code)
        )
        return Stopped(places, more, line_of=_line)

    def _function(self, memory: InterpreterMemory, code: int) -> Function | None:
        """None for one that is not the author's."""
        first, file, name, table = _CODE.unpack(memory.read(code, _CODE.size))
        named = _text(memory, file, FILE_CHARS)
        if not named or named.startswith(self._foreign):
            return None
        (length,) = _BYTES.unpack(memory.read(table, _BYTES.size))
        lines = memory.read(table + _BYTES.size, length) if length <= TABLE_BYTES else b""
        return Function(named, _text(memory, name, NAME_CHARS), first, lines, code + _CODE.size)


def _text(memory: InterpreterMemory, address: int, most: int) -> str:
    length, state = _STR.unpack(memory.read(address, _STR.size))
    width = state >> 2 & 7
    if width not in _WIDTHS or not state >> 5 & 1:  # It is not compact: none that compiling makes.
        return "?"
    start = address + (_STR.size if state >> 6 & 1 else _WIDE_BYTES)
    characters = memory.read(start, min(length, most) * width)
    # By their names codecs would be looked for in files, which a worker process cannot read.
    if width == 2:
        return codecs.utf_16_le_decode(characters, "replace", True)[0]
    return codecs.utf_32_le_decode(characters, "replace", True)[0] if width == 4 else characters.decode("latin-1")


def _line(place: Place) -> int | None:
    """By ``co_linetable``, whose format is said in CPython's ``Objects/locations.md``; None where it says none."""
    function = place.function
    at = (place.position - function.start) // _UNIT_BYTES
    line, passed, table = function.first_line, 0, iter(function.table)
    for first in table:
        code = first >> 3 & 15
        if code in (13, 14):
            line += _signed(table)
        elif 10 <= code <= 12:
            line += code - 10
        passed += (first & 7) + 1
        if passed > at:
            return None if code == 15 else line
        if code == 14:
            for _ in range(3):
                number(table, bits=_BITS)
        elif code < 13:
            for _ in range(2 if code >= 10 else 1):
                next(table, 0)
    return None


def _signed(table: Iterator[int]) -> int:
    value = number(table, bits=_BITS)
    return -(value >> 1) if value & 1 else value >> 1
