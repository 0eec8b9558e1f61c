"""Makes a module say whether ``memory.grow`` was ever refused, so that a lack of memory is told apart from a panic.

A guest that gets no memory ends in ``unreachable``, exactly as one that panics, and wasmtime's C API reports no refused
grow. So every ``memory.grow`` of an admitted module becomes a call of one added function, which grows and, if the
answer was -1, sets an added and exported global. Type, function, global and export are appended: no index of the
module's own changes. wasmtime validates the result like any module.
"""

from __future__ import annotations

import re

from rho_wasm.sandbox import admission_code as code
from rho_wasm.sandbox.admission_module import CODE, EXPORT, FUNCTION, GLOBAL, IMPORT, TYPE
from rho_wasm.wasm import HEADER, Reader, Section, encode_name, encode_section, encode_u32, sections

__all__ = ["GROW_REFUSED", "VERSION", "watch_grows"]

GROW_REFUSED = "rho:grow_refused"
"""The exported i32 global: 1 once a grow was refused."""
VERSION = 2
"""Part of the key of compiled code: raise it when this file makes other code of the same module."""

_GROW = b"\x40\x00"
_CALL = b"\x10"
_I32_TO_I32 = b"\x60\x01\x7f\x01\x7f"
_MUTABLE_ZERO = b"\x7f\x01\x41\x00\x0b"
_GLOBAL_KIND = b"\x03"

# Instructions other than memory.grow and br_table, then one of those two.
_RUN = re.compile(
    rb"(?:(?!\x40)(?:" + rb"|".join(code.PLAIN_INSTRUCTIONS) + rb"|[\x02-\x04]" + code.U32 + rb"|[\x05\x0b])){0,1000}"
    rb"(?:(\x40\x00)|(\x0e)|())",
    re.DOTALL,
)
_IS_GROW, _IS_BR_TABLE = 1, 2


def watch_grows(module: bytes) -> bytes:
    """``module``, which was admitted, with its grows watched; unchanged if it has none."""
    found = {section.id: section for section in sections(module) if section.id}
    if CODE not in found or _GROW not in module[found[CODE].content : found[CODE].end]:
        return module
    # Guests import functions only, and define globals only: admission saw to it.
    function = _count(module, found.get(IMPORT)) + _count(module, found.get(FUNCTION))
    flag = _count(module, found.get(GLOBAL))
    grown = _code(module, found[CODE], encode_u32(function), encode_u32(flag))
    if grown is None:
        return module
    changed = {
        TYPE: _appended(module, found.get(TYPE), _I32_TO_I32),
        FUNCTION: _appended(module, found.get(FUNCTION), encode_u32(_count(module, found.get(TYPE)))),
        GLOBAL: _appended(module, found.get(GLOBAL), _MUTABLE_ZERO),
        EXPORT: _appended(module, found[EXPORT], encode_name(GROW_REFUSED) + _GLOBAL_KIND + encode_u32(flag)),
        CODE: grown,
    }
    parts = [HEADER]
    for section in sections(module):
        if section.id == EXPORT and GLOBAL not in found:
            parts.append(encode_section(GLOBAL, changed[GLOBAL]))
        if (content := changed.get(section.id)) is not None:
            parts.append(encode_section(section.id, content))
        else:
            parts.append(module[section.start : section.end])
    return b"".join(parts)


def _count(module: bytes, section: Section | None) -> int:
    return section.reader(module).u32() if section is not None else 0


def _appended(module: bytes, section: Section | None, item: bytes) -> bytes:
    if section is None:
        return encode_u32(1) + item
    reader = section.reader(module)
    count = reader.u32()
    return encode_u32(count + 1) + module[reader.position : section.end] + item


def _code(module: bytes, section: Section, function: bytes, flag: bytes) -> bytes | None:
    """The code section with every grow replaced and the watching function at its end; None if it has no grow."""
    reader = section.reader(module)
    count = reader.u32()
    bodies: list[bytes] = []
    replaced = False
    for _ in range(count):
        body = reader.take(reader.u32())
        if _GROW in body and (watched := _body(body, _CALL + function)) is not None:
            body, replaced = watched, True
        bodies.append(encode_u32(len(body)) + body)
    if not replaced:
        return None
    # local 1 = memory.grow(local 0); if it is -1 the flag becomes 1; the answer is local 1
    watcher = b"\x01\x01\x7f\x20\x00\x40\x00\x22\x01\x41\x7f\x46\x04\x40\x41\x01\x24" + flag + b"\x0b\x20\x01\x0b"
    return encode_u32(count + 1) + b"".join(bodies) + encode_u32(len(watcher)) + watcher


def _body(body: bytes, call: bytes) -> bytes | None:
    reader = Reader(body)
    for _ in range(reader.u32()):
        reader.u32()
        reader.skip(1)
    out: list[bytes] = []
    copied = 0
    while not reader.done:
        match = _RUN.match(body, reader.position)
        assert match is not None, "the last alternative is empty"
        if match.lastindex == _IS_GROW:
            out += [body[copied : match.start(_IS_GROW)], call]
            copied = match.end()
        elif match.end() == reader.position:
            raise AssertionError("an admitted body has an instruction that admission did not know")
        reader.position = match.end()
        if match.lastindex == _IS_BR_TABLE:
            for _ in range(reader.u32() + 1):
                reader.u32()
    return b"".join([*out, body[copied:]]) if out else None
