"""The frames of QuickJS-ng 0.15 in a memory of 32 bits, by the layouts of ``quickjs.c``."""

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

__all__ = ["JavaScriptFrames"]

_ATOMS, _CURRENT = 60, 148
"""Of ``JSRuntime``: ``atom_array``, and ``current_stack_frame``."""
_FRAME: Final = struct.Struct("<I4xII12xI")
"""``JSStackFrame``: ``prev_frame``, ``cur_func`` (a value: an address and a tag), ``cur_pc``. That is set at calls and
wherever else something may be thrown, so a loop that only reckons leaves it as it was."""
_OBJECT_TAG: Final = 0xFFFF_FFFF
_BYTECODE_OF_OBJECT: Final = 32
_FUNCTION: Final = struct.Struct("<4xI12xI4xI32xII8xII")
"""``JSFunctionBytecode``: the kind of garbage it is, ``byte_code_buf``, ``func_name``, ``filename``, ``line_num``,
``pc2line_len``, ``pc2line_buf``."""
_KIND_MASK, _IS_BYTECODE = 15, 1
_STRING: Final = struct.Struct("<4xI12x")
"""``JSString``: the length, and above it whether its characters have 16 bits."""
_LENGTH_MASK: Final = 0x3FFF_FFFF
_WIDE: Final = 1 << 31
_NUMBER: Final = 1 << 31
"""Of an atom that is a number."""
_BITS: Final = 7
"""In each byte of a number of the table."""
_FIRST_OP, _LINE_RANGE, _LINE_BASE = 1, 5, -1
"""How ``pc2line_buf`` is packed: ``PC2LINE_OP_FIRST``, ``PC2LINE_RANGE``, ``PC2LINE_BASE``."""

_FOREIGN: Final = frozenset({"", "rho", "<evalScript>", "<eval>", "<input>"})
"""Files that are not the author's: the guest module, and what a tool made out of text."""


class JavaScriptFrames:
    """``current``: the address of the ``JSRuntime``."""

    def __init__(self, current: int) -> None:
        self.current = current

    def read(self, memory: InterpreterMemory) -> Stopped:
        atoms: list[int] = []

        def first() -> int:
            atoms.append(memory.word(self.current + _ATOMS))
            return memory.word(self.current + _CURRENT)

        def step(frame: int) -> tuple[int, int, int]:
            outer, called, tag, position = _FRAME.unpack(memory.read(frame, _FRAME.size))
            return outer, called if tag == _OBJECT_TAG else 0, position

        places, more = walked(first, step, lambda called: _function(memory, atoms[0], called))
        return Stopped(places, more, line_of=_line, near=True)


def _function(memory: InterpreterMemory, atoms: int, called: int) -> Function | None:
    """None for one that is not the author's, or is not of bytecode: that has something else there."""
    bytecode = memory.word(called + _BYTECODE_OF_OBJECT)
    kind, start, name, file, line, size, table = _FUNCTION.unpack(memory.read(bytecode, _FUNCTION.size))
    if kind & _KIND_MASK != _IS_BYTECODE:
        return None
    named = _atom(memory, atoms, file, FILE_CHARS)
    if named in _FOREIGN:
        return None
    if size > TABLE_BYTES:
        line = size = 0
    return Function(named, _atom(memory, atoms, name, NAME_CHARS), line, memory.read(table, size), start)


def _atom(memory: InterpreterMemory, atoms: int, atom: int, most: int) -> str:
    if not atom or atom & _NUMBER:
        return ""
    text = memory.word(atoms + 4 * atom)
    (length,) = _STRING.unpack(memory.read(text, _STRING.size))
    count = min(length & _LENGTH_MASK, most)
    if length & _WIDE:
        # By its name the codec would be looked for in files, which a worker process cannot read.
        return codecs.utf_16_le_decode(memory.read(text + _STRING.size, 2 * count), "replace", True)[0]
    return memory.read(text + _STRING.size, count).decode("latin-1")


def _line(place: Place) -> int:
    """By ``pc2line_buf``, which says where the arguments of calls begin, and of properties that are read nothing."""
    function = place.function
    at = place.position - function.start - 1  # What is called stands before where it goes on.
    line, passed, table = function.first_line, 0, iter(function.table)
    for op in table:
        if op == 0:
            passed += number(table, bits=_BITS)
            after = line + _signed(table)
        else:
            passed += (op - _FIRST_OP) // _LINE_RANGE
            after = line + (op - _FIRST_OP) % _LINE_RANGE + _LINE_BASE
        _signed(table)  # The column.
        if at < passed:
            return line
        line = after
    return line


def _signed(table: Iterator[int]) -> int:
    value = number(table, bits=_BITS)
    return -(value >> 1) - 1 if value & 1 else value >> 1
