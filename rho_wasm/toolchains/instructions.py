"""Instructions of function bodies, found or given other indices, without compiling.

One regular expression over bytes knows the immediates of every instruction of the enabled features (that of admission,
admission_code.py); what it does not know is refused, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.admission_code import PLAIN_INSTRUCTIONS, U32
from rho_wasm.toolchains.binary import encode_signed
from rho_wasm.wasm import Reader, encode_u32

__all__ = ["Renumbering", "calls_any", "changes_tables_or_segments", "renumbered"]

_BLOCKS = rb"[\x02-\x04]" + U32
_CONTROL = rb"[\x05\x0b]"
# table.set; memory.init, data.drop, table.init, elem.drop, table.copy, table.grow, table.fill
_CHANGING = rb"\x26|\xfc[\x08\x09\x0c\x0d\x0e\x0f\x11]"
_NAMES = {
    b"\x26": "table.set",
    b"\xfc\x08": "memory.init",
    b"\xfc\x09": "data.drop",
    b"\xfc\x0c": "table.init",
    b"\xfc\x0d": "elem.drop",
    b"\xfc\x0e": "table.copy",
    b"\xfc\x0f": "table.grow",
    b"\xfc\x11": "table.fill",
}


def _run(without: bytes, stops: bytes) -> re.Pattern[bytes]:
    """A run of instructions that are not ``without``, and then one of ``stops``, a br_table (last group) or nothing."""
    plain = rb"|".join((*PLAIN_INSTRUCTIONS, _BLOCKS, _CONTROL))
    # A run is cut at 1,000 instructions: the matcher remembers about 128 bytes for each until a match ends.
    return re.compile(rb"(?:(?!" + without + rb")(?:" + plain + rb")){0,1000}(?:" + stops + rb"|(\x0e)|)", re.DOTALL)


_CHANGES = _run(_CHANGING, rb"(" + _CHANGING + rb")")
_INDEXED = (
    rb"([\x10\x12\xd2])(" + U32 + rb")",
    rb"([\x23\x24])(" + U32 + rb")",
    rb"([\x11\x13])(" + U32 + rb")" + U32,
    # A block of a type given by index; a simple type is one byte from 0x40 to 0x7F.
    rb"([\x02-\x04])(?![\x40-\x7f])(" + U32 + rb")",
)
_INDEXES = _run(rb"[\x10-\x13\xd2\x23\x24]|[\x02-\x04](?![\x40-\x7f])", rb"|".join(_INDEXED))
_FUNCTION, _GLOBAL, _INDIRECT_TYPE, _BLOCK_TYPE, _BR_TABLE = 2, 4, 6, 8, 9


@dataclass(frozen=True, slots=True)
class Renumbering:
    """New indices by old ones. What is not named keeps its index, and tables always do."""

    functions: Mapping[int, int] = field(default_factory=dict)
    globals: Mapping[int, int] = field(default_factory=dict)
    types: Mapping[int, int] = field(default_factory=dict)


def changes_tables_or_segments(body: bytes) -> str | None:
    """The first instruction of ``body`` that writes a table or uses a passive segment, or None.

    Raises :class:`ModuleRejected` (``unknown_instruction``).
    """
    if b"\x26" not in body and b"\xfc" not in body:
        return None
    for match in _matches(_CHANGES, body, br_table=2):
        if match.lastindex == 1:
            return _NAMES[match[1]]
    return None


def calls_any(functions: Iterable[int]) -> Callable[[bytes], bool]:
    """A quick look whether a body may name one of ``functions``: never wrong where it says no."""
    longer = rb"|".join(_padded(index) for index in sorted(functions))
    pattern = re.compile(rb"[\x10\x12\xd2](?:" + longer + rb")", re.DOTALL) if longer else None
    return lambda body: pattern is not None and pattern.search(body) is not None


def renumbered(body: bytes, numbers: Renumbering) -> bytes:
    """``body`` with other indices. Raises :class:`ModuleRejected` (``unknown_instruction``)."""
    mappings = {
        _FUNCTION: numbers.functions,
        _GLOBAL: numbers.globals,
        _INDIRECT_TYPE: numbers.types,
        _BLOCK_TYPE: numbers.types,
    }
    out: list[bytes] = []
    copied = 0
    for match in _matches(_INDEXES, body, br_table=_BR_TABLE):
        kind = match.lastindex
        if kind is None or kind == _BR_TABLE:
            continue
        index = Reader(match[kind]).u32()
        new = mappings[kind].get(index, index)
        # A block's type is a signed number: negative ones are the types without an index.
        out += [body[copied : match.start(kind)], encode_signed(new) if kind == _BLOCK_TYPE else encode_u32(new)]
        copied = match.end(kind)
    return b"".join([*out, body[copied:]])


def _matches(pattern: re.Pattern[bytes], body: bytes, *, br_table: int) -> Iterable[re.Match[bytes]]:
    """The matches one after another through all of ``body``, after its locals."""
    reader = Reader(body)
    for _ in range(reader.u32()):
        reader.u32()
        reader.skip(1)
    while not reader.done:
        match = pattern.match(body, reader.position)
        assert match is not None, "the pattern matches nothing too"
        if match.end() == reader.position:
            raise ModuleRejected("unknown_instruction", f"0x{body[match.end()]:02X} is no instruction that is enabled")
        yield match
        reader.position = match.end()
        if match.lastindex == br_table:
            for _ in range(reader.u32() + 1):
                reader.u32()


def _padded(index: int) -> bytes:
    """A pattern of the LEB128 of ``index``, which linkers pad to five bytes."""
    short = encode_u32(index)
    more = bytes([short[-1] | 0x80])
    tails = [short[-1:], *(more + b"\x80" * zeros + b"\0" for zeros in range(5 - len(short)))]
    return re.escape(short[:-1]) + rb"(?:" + rb"|".join(re.escape(tail) for tail in tails) + rb")"
