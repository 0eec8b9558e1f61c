"""Requests as a host sends them, byte by byte, and the same with what it never sends."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from rho_wasm import plain
from rho_wasm.sandbox.abi import ABI_VERSION

__all__ = ["WIDTHS", "request", "request_of_float"]

WIDTHS: Mapping[str, tuple[bytes, str]] = {
    "half": (b"\xf9", ">e"),
    "single": (b"\xfa", ">f"),
    "double": (b"\xfb", ">d"),
}
"""The head of a float of each precision, and how ``struct`` packs one."""

_CALL_ID = "conform"
_MARK = 1.0 + 2.0**-40
"""A float that has its shortest form in double precision."""


def request(tool: str, arguments: Mapping[str, Any], **more: Any) -> bytes:
    """The bytes that a host sends; ``more`` are keys that it does not."""
    context = {"call_id": _CALL_ID} | more.pop("context", {})
    whole = {"abi": ABI_VERSION, "tool": tool, "arguments": dict(arguments), "context": context} | more
    return plain.encode(whole, max_bytes=2 * 1024 * 1024)


def request_of_float(
    tool: str, arguments: Mapping[str, Any], name: str, value: float, *, width: str, call_id: str = _CALL_ID
) -> bytes | None:
    """A request whose argument ``name`` is ``value``, in a list if it is one there, in the precision ``width``.

    None where ``arguments`` have the bytes of this module's own mark in them, so that the place is not found.
    """
    marked = [_MARK] if isinstance(arguments[name], list) else _MARK
    data = request(tool, {**arguments, name: marked}, context={"call_id": call_id})
    mark = _packed(_MARK, "double")
    return data.replace(mark, _packed(value, width)) if data.count(mark) == 1 else None


def _packed(value: float, width: str) -> bytes:
    head, form = WIDTHS[width]
    return head + struct.pack(form, value)
