"""Compiled schemas, kept: a tool is written, tested, switched to and called, and its schema is the same each time."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from rho_wasm.errors import SchemaInvalid
from rho_wasm.schema import ArgumentSchema, schema_text

__all__ = ["PatternBudget", "compiled_schema"]

_MAX_KEPT: Final = 256
_MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
_BYTES_PER_CHAR: Final = 32
_BYTES_PER_PATTERN: Final = 512 * 1024  # As it has grown once it was matched with long texts.
_MAX_TOGETHER: Final = 1024 * 1024


def compiled_schema(schema: Mapping[str, Any], *, of_arguments: bool = True) -> ArgumentSchema:
    """:class:`ArgumentSchema` of ``schema``, compiled once while it is among the last 256, or 64 MiB, asked for.

    Raises :class:`SchemaInvalid` as that does, and again at once for a schema that it was raised for. From any thread.
    """
    return _KEPT.of(schema_text(schema), of_arguments=of_arguments)


class PatternBudget:
    """What the patterns of the schemas of one manifest may take together when compiled: 1 MiB."""

    def __init__(self) -> None:
        self._counted: dict[int, ArgumentSchema] = {}
        self._left = _MAX_TOGETHER

    def take(self, schema: ArgumentSchema) -> None:
        """Counts ``schema``, the same object once. Raises :class:`SchemaInvalid` over the bound."""
        if id(schema) in self._counted:
            return
        self._counted[id(schema)] = schema
        self._left -= schema.pattern_bytes
        if self._left < 0:
            raise SchemaInvalid(
                f"the patterns of all tools together take more than {_MAX_TOGETHER // 1024} KiB when compiled: use "
                "fewer or shorter ones, or build the tools apart from each other"
            )


class _Kept:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[bytes, bool], tuple[ArgumentSchema | str, int]] = OrderedDict()
        self._bytes = 0

    def of(self, text: str, *, of_arguments: bool) -> ArgumentSchema:
        key = hashlib.sha256(text.encode()).digest(), of_arguments
        with self._lock:
            entry = self._found.get(key)
            if entry is not None:
                self._found.move_to_end(key)
        if entry is None:
            found = _compiled(text, of_arguments=of_arguments)
            self._keep(key, found, _BYTES_PER_CHAR * len(text))
        else:
            found = entry[0]
        if isinstance(found, str):
            raise SchemaInvalid(found)
        return found

    def _keep(self, key: tuple[bytes, bool], found: ArgumentSchema | str, size: int) -> None:
        if isinstance(found, ArgumentSchema):
            size += _BYTES_PER_PATTERN * found.patterns
        with self._lock:
            if key in self._found or size > _MAX_KEPT_BYTES:
                return
            self._found[key] = found, size
            self._bytes += size
            while len(self._found) > _MAX_KEPT or self._bytes > _MAX_KEPT_BYTES:
                self._bytes -= self._found.popitem(last=False)[1][1]


def _compiled(text: str, *, of_arguments: bool) -> ArgumentSchema | str:
    try:
        return ArgumentSchema.of_text(text, of_arguments=of_arguments)
    except SchemaInvalid as error:
        return error.detail


_KEPT: Final = _Kept()
