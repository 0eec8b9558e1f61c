"""What the host changes in an admitted module before it compiles it: some instructions become calls of added functions.

``memory.grow`` says whether it was refused (watch.py), large ``memory.fill`` and ``memory.copy`` go in steps (bulk.py).
Types, functions, a global and an export are appended: no index of the module's own changes. wasmtime validates the
result like any module.
"""

from __future__ import annotations

import re

from rho_wasm.sandbox import admission_code as code
from rho_wasm.sandbox.admission_module import CODE, EXPORT, FUNCTION, GLOBAL, IMPORT, TYPE
from rho_wasm.sandbox.bulk import COPY_BODY, FILL_BODY
from rho_wasm.sandbox.watch import GROW_REFUSED, watcher_body
from rho_wasm.wasm import HEADER, Reader, Section, encode_name, encode_section, encode_u32, sections

__all__ = ["VERSION", "rewritten"]

VERSION = 3
"""Part of the key of compiled code: raise it when this makes other code of the same module."""

_NEEDLES = (b"\x40\x00", b"\xfc\x0a", b"\xfc\x0b")
"""Bytes without one of which a body has nothing to replace."""
_CALL = b"\x10"
_GROW_TYPE = b"\x60\x01\x7f\x01\x7f"
_BULK_TYPE = b"\x60\x03\x7f\x7f\x7f\x00"
_MUTABLE_ZERO = b"\x7f\x01\x41\x00\x0b"
_GLOBAL_KIND = b"\x03"

# Instructions other than those that are replaced and br_table, then one of those.
_RUN = re.compile(
    rb"(?:(?!\x40|\xfc[\x0a\x0b])(?:"
    + rb"|".join(code.PLAIN_INSTRUCTIONS)
    + rb"|[\x02-\x04]"
    + code.U32
    + rb"|[\x05\x0b])){0,1000}"
    rb"(?:(\x40\x00)|(\xfc\x0b" + code.U32 + rb")|(\xfc\x0a" + code.U32 + code.U32 + rb")|(\x0e)|())",
    re.DOTALL,
)
_GROW, _FILL, _COPY, _BR_TABLE = 1, 2, 3, 4
_REPLACED = (_GROW, _FILL, _COPY)


def rewritten(module: bytes) -> bytes:
    """``module``, which was admitted, with those instructions replaced; the same object if it has none."""
    found = {section.id: section for section in sections(module) if section.id}
    if CODE not in found or not _may_have(module[found[CODE].content : found[CODE].end]):
        return module
    # Guests import functions only, and define globals only: admission saw to it.
    first = _count(module, found.get(IMPORT)) + _count(module, found.get(FUNCTION))
    flag = encode_u32(_count(module, found.get(GLOBAL)))
    calls = {kind: _CALL + encode_u32(first + place) for place, kind in enumerate(_REPLACED)}
    bodies = _code(module, found[CODE], calls, [watcher_body(flag), FILL_BODY, COPY_BODY])
    if bodies is None:
        return module
    grow_type = _count(module, found.get(TYPE))
    bulk_type = encode_u32(grow_type + 1)
    changed = {
        TYPE: _appended(module, found.get(TYPE), _GROW_TYPE, _BULK_TYPE),
        FUNCTION: _appended(module, found.get(FUNCTION), encode_u32(grow_type), bulk_type, bulk_type),
        GLOBAL: _appended(module, found.get(GLOBAL), _MUTABLE_ZERO),
        EXPORT: _appended(module, found[EXPORT], encode_name(GROW_REFUSED) + _GLOBAL_KIND + flag),
        CODE: bodies,
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


def _may_have(code_bytes: bytes) -> bool:
    return any(needle in code_bytes for needle in _NEEDLES)


def _count(module: bytes, section: Section | None) -> int:
    return section.reader(module).u32() if section is not None else 0


def _appended(module: bytes, section: Section | None, *items: bytes) -> bytes:
    if section is None:
        return encode_u32(len(items)) + b"".join(items)
    reader = section.reader(module)
    count = reader.u32()
    return encode_u32(count + len(items)) + module[reader.position : section.end] + b"".join(items)


def _code(module: bytes, section: Section, calls: dict[int, bytes], added: list[bytes]) -> bytes | None:
    """The code section with calls in place of what is replaced, and the added bodies; None if nothing was."""
    reader = section.reader(module)
    count = reader.u32()
    bodies: list[bytes] = []
    replaced = False
    for _ in range(count):
        body = reader.take(reader.u32())
        if _may_have(body) and (other := _body(body, calls)) is not None:
            body, replaced = other, True
        bodies.append(body)
    if not replaced:
        return None
    bodies += added
    return encode_u32(len(bodies)) + b"".join(encode_u32(len(body)) + body for body in bodies)


def _body(body: bytes, calls: dict[int, bytes]) -> bytes | None:
    reader = Reader(body)
    for _ in range(reader.u32()):
        reader.u32()
        reader.skip(1)
    out: list[bytes] = []
    copied = 0
    while not reader.done:
        match = _RUN.match(body, reader.position)
        assert match is not None, "the last alternative is empty"
        kind = match.lastindex or 0
        if kind in calls:
            out += [body[copied : match.start(kind)], calls[kind]]
            copied = match.end()
        elif match.end() == reader.position:
            raise AssertionError("an admitted body has an instruction that admission did not know")
        reader.position = match.end()
        if kind == _BR_TABLE:
            for _ in range(reader.u32() + 1):
                reader.u32()
    return b"".join([*out, body[copied:]]) if out else None
