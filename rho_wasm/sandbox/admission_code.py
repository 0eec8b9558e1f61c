"""Function bodies, read instruction by instruction without compiling: what makes a compiler slow is counted here.

A compiler is worse than linear in the loops, blocks and branch tables of one function (measured: 210 KB of loops took
88 s), and it cannot be interrupted. So every body is tokenised first, by one regular expression over bytes that knows
the immediates of every instruction of the enabled features, at 15 MB/s or so of ordinary code. What it does not know is
refused: a body that is tokenised differently here and in the compiler would not have been counted.

The types of operands are not checked, that is the compiler's own validation. Source: WebAssembly Core Specification
3.0, 5.4 (instructions) and 5.4.9 (expressions).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.abi import FunctionType
from rho_wasm.wasm import Reader

__all__ = ["PLAIN_INSTRUCTIONS", "U32", "BodyCounts", "constant_end", "count_body"]

# LEB128 as 5.2.2 bounds it: no bits beyond the width, in the last byte only the sign's.
U32 = rb"(?:[\x00-\x7f]|[\x80-\xff]{1,3}[\x00-\x7f]|[\x80-\xff]{4}[\x00-\x0f])"
_S32 = rb"(?:[\x00-\x7f]|[\x80-\xff]{1,3}[\x00-\x7f]|[\x80-\xff]{4}[\x00-\x07\x78-\x7f])"
_S64 = rb"(?:[\x00-\x7f]|[\x80-\xff]{1,8}[\x00-\x7f]|[\x80-\xff]{9}[\x00\x7f])"
# An alignment is at most 4; from 64 on it would name another memory.
_MEMARG = rb"[\x00-\x1f]" + U32
_VALUE_TYPE = rb"[\x6f\x70\x7b-\x7f]"
_REFERENCE = rb"[\x6f\x70]"
_SIMPLE_BLOCK = rb"(?:\x40|" + _VALUE_TYPE + rb")"

PLAIN_INSTRUCTIONS = (
    # local.* global.* table.get/set br br_if call return_call ref.func: one index
    rb"[\x20-\x26\x0c\x0d\x10\x12\xd2]" + U32,
    # numeric, unreachable nop else return drop select ref.is_null: no immediate
    rb"[\x45-\xc4\x00\x01\x05\x0f\x1a\x1b\xd1]",
    rb"[\x28-\x3e]" + _MEMARG,
    rb"\x41" + _S32,
    rb"\x42" + _S64,
    # call_indirect return_call_indirect: type and table
    rb"[\x11\x13]" + U32 + U32,
    # memory.size memory.grow: the only memory
    rb"[\x3f\x40]\x00",
    rb"\x43.{4}",
    rb"\x44.{8}",
    rb"\xd0" + _REFERENCE,
    rb"\x1c\x01" + _VALUE_TYPE,
    # 0xFC: saturating conversions; memory.init/copy, table.init/copy; data.drop, memory.fill, elem.drop, table.*
    rb"\xfc(?:[\x00-\x07]|[\x08\x0a\x0c\x0e]" + U32 + U32 + rb"|[\x09\x0b\x0d\x0f\x10\x11]" + U32 + rb")",
    # 0xFD, SIMD: loads and stores; const and shuffle; lanes; lanes of memory; the rest, up to 255 (relaxed is above)
    rb"\xfd(?:[\x00-\x0b\x5c\x5d]" + _MEMARG + rb"|[\x0c\x0d].{16}|[\x0e-\x14\x23-\x53\x5e-\x7f]|[\x15-\x22].|"
    rb"[\x54-\x5b]" + _MEMARG + rb".|[\x80-\xff]\x01)",
)
# A run is cut at 1,000 instructions: the matcher remembers about 128 bytes for each until a match ends.
_STEP = re.compile(
    rb"(?:" + rb"|".join(PLAIN_INSTRUCTIONS) + rb"){0,1000}"
    rb"(?:(\x0b)|([\x02\x04])" + _SIMPLE_BLOCK + rb"|(\x03)" + _SIMPLE_BLOCK + rb"|([\x02-\x04])|(\x0e)|())",
    re.DOTALL,
)
_END, _BLOCK, _LOOP, _TYPED_BLOCK, _BR_TABLE = range(1, 6)
_OPENINGS = frozenset({_BLOCK, _LOOP, _TYPED_BLOCK})

_CONSTANT = re.compile(
    rb"(?:\x41" + _S32 + rb"|\x42" + _S64 + rb"|\x43.{4}|\x44.{8}|\xfd\x0c.{16}"
    rb"|[\x23\xd2]" + U32 + rb"|\xd0" + _REFERENCE + rb"|[\x6a-\x6c\x7c-\x7e])*\x0b",
    re.DOTALL,
)


class BodyCounts(NamedTuple):
    """What is bounded in one body. ``nesting`` counts blocks inside blocks, the body itself is 0."""

    loops: int
    blocks: int
    br_table_entries: int
    nesting: int
    block_results: int


def count_body(
    data: bytes, start: int, end: int, *, types: Sequence[FunctionType], nesting_limit: int, name: str
) -> BodyCounts:
    """Reads the instructions of the body ``name`` at ``data[start:end]`` (after its locals) and counts.

    Stops at ``nesting_limit`` blocks inside blocks. Raises :class:`ModuleRejected`: ``feature_off`` and
    ``unknown_instruction`` for what is not enabled, ``instruction`` for a malformed one, ``block_type`` for a block
    type with parameters or of no known type, ``function_end`` if the body does not end where its size says.
    """
    loops = blocks = entries = nesting = depth = results = 0
    position = start
    while True:
        # Matches follow one another without a gap, since every position matches.
        for match in _STEP.finditer(data, position, end):
            kind = match.lastindex
            if kind == _END:
                depth -= 1
                if depth < 0:
                    break
            elif kind in _OPENINGS:
                depth += 1
                blocks += 1
                loops += kind == _LOOP or (kind == _TYPED_BLOCK and data[match.end() - 1] == 0x03)
                if depth > nesting:
                    nesting = depth
                    if nesting > nesting_limit:
                        break
                if kind == _TYPED_BLOCK:
                    break
            elif kind == _BR_TABLE:
                break
            elif match.end() == match.start():
                raise _unreadable(data, match.end(), end, name)
        position = match.end()
        if depth < 0 or nesting > nesting_limit:
            break
        reader = Reader(data, position, end)
        if kind == _TYPED_BLOCK:
            results = max(results, _typed_block(reader, types, name))
        elif kind == _BR_TABLE:
            entries += _br_table(reader)
        position = reader.position
    counts = BodyCounts(loops, blocks, entries, nesting, results)
    if position != end and nesting <= nesting_limit:
        raise ModuleRejected("function_end", f"{name} ends before the size of its body says", name=name)
    return counts


def constant_end(data: bytes, start: int, end: int, *, max_bytes: int) -> int:
    """Where the constant expression at ``start`` ends (after its ``end``).

    It is evaluated on every instantiation, in the host and without fuel, so it is short. Raises
    :class:`ModuleRejected`, ``constant_expression``, for a longer one and for instructions that are not constant.
    """
    match = _CONSTANT.match(data, start, min(end, start + max_bytes))
    if match is None:
        raise ModuleRejected(
            "constant_expression",
            f"the constant expression at byte {start} is too long or has an instruction that is not constant",
            limit=max_bytes,
        )
    return match.end()


def _typed_block(reader: Reader, types: Sequence[FunctionType], name: str) -> int:
    """The number of results of a block type given by index (a positive 33-bit integer)."""
    index = reader.u32()
    negative = reader.data[reader.position - 1] & 0x40
    if negative or index >= len(types):
        raise ModuleRejected("block_type", f"{name} has a block of no known type", name=name)
    if params := len(types[index].params):
        raise ModuleRejected(
            "block_type",
            f"{name} has a block with parameters",
            name=name,
            limit=0,
            value=params,
            hint="no compiler of a language makes them; 64 KB of them took 23 GiB to compile",
        )
    return len(types[index].results)


def _br_table(reader: Reader) -> int:
    """Passes over a vector of labels and the default label; answers the length of the vector."""
    count = reader.u32()
    start = reader.skip(count + 1)
    if not reader.data[start : start + count + 1].isascii():
        # Some label has more than one byte: read them one by one.
        reader.position = start
        for _ in range(count + 1):
            reader.u32()
    return count


_OFF = {
    **dict.fromkeys((0x06, 0x07, 0x08, 0x09, 0x0A, 0x18, 0x19, 0x1F), "exceptions"),
    **dict.fromkeys((0x14, 0x15, 0xD4, 0xD5, 0xD6), "function references"),
    **dict.fromkeys((0xD3, 0xFB), "garbage collection"),
    **dict.fromkeys((0xE0, 0xE1, 0xE2, 0xE3, 0xE4, 0xE5, 0xE6), "stack switching"),
    0xFE: "threads",
}
_KNOWN = frozenset({*range(0x02), *range(0x0C, 0x14), 0x1A, 0x1B, 0x1C, *range(0x20, 0x27), *range(0x28, 0xC5)}) | {
    0xD0,
    0xD1,
    0xD2,
    0xFC,
    0xFD,
}


def _unreadable(data: bytes, position: int, end: int, name: str) -> ModuleRejected:
    """Why the instruction at ``position`` was not understood."""
    if position >= end:
        return ModuleRejected("function_end", f"{name} has no end", name=name)
    opcode = data[position]
    where = f"0x{opcode:02X} in {name} at byte {position}"
    if (feature := _OFF.get(opcode) or _off_by_immediate(data[position : min(end, position + 6)])) is not None:
        return ModuleRejected(
            "feature_off", f"{where} needs {feature}, which is off", name=name, hint=f"build it without {feature}"
        )
    if opcode in _KNOWN:
        return ModuleRejected("instruction", f"the immediates of {where} are malformed", name=name)
    return ModuleRejected("unknown_instruction", f"{where} is no instruction", name=name)


def _off_by_immediate(code: bytes) -> str | None:
    """The feature of an instruction whose first byte alone does not tell it."""
    if code[0] in (0x3F, 0x40) or (0x28 <= code[0] <= 0x3E and len(code) > 1 and 0x40 <= code[1] < 0x80):
        return "multi-memory"
    if code[0] == 0xFC and len(code) > 1 and 0x13 <= code[1] <= 0x16:
        return "wide arithmetic"
    if code[0] == 0xFD and len(code) > 2 and code[1] >= 0x80 and code[2] == 0x02:
        return "relaxed SIMD"
    return None
