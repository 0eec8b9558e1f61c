"""``kv.get``, ``kv.put``, ``kv.delete``, ``kv.list``: a tool's own keys, which outlive the call and the version.

The namespace is the tool's name, which the host takes from the call: no key leads out of it, whatever it looks like.

- ``kv.get {"key"}`` answers ``{"value": plain}``, or ``{}`` where there is none.
- ``kv.put {"key", "value", "expected"?, "if_absent"?}`` answers ``{"stored": bool}``. With ``expected`` it stores only
  if that is the value now, with ``if_absent: true`` only if there is none; not stored is an answer, not an error. Two
  values are the same if their deterministic encodings are: 1 is not 1.0, and the order of a map's keys is nothing.
- ``kv.delete {"key"}`` answers ``{"deleted": bool}``.
- ``kv.list {"prefix"?, "after"?, "limit"?}`` answers ``{"keys": [text], "more": bool}`` in the order of the keys'
  UTF-8, those behind ``after`` only. ``limit`` is 1 to 1,000 (default 100); a page also ends at 256 KiB of keys.

A key is text without control characters. Its bytes in UTF-8 and those of the encoded value are what is counted.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from rho_wasm import plain
from rho_wasm.capabilities.capability import Arguments, Capability, CapabilityContext
from rho_wasm.capabilities.in_thread import charged_in_thread
from rho_wasm.capabilities.kv_backend import KvBackend, KvCondition, KvRoom
from rho_wasm.counting import ITEMS_AT_ONCE, items_of
from rho_wasm.errors import CapabilityError, Malformed, NotPlain, TooLarge
from rho_wasm.grants import KvReadBounds, KvWriteBounds
from rho_wasm.long_work import LONG_BYTES, LONG_ITEMS
from rho_wasm.sandbox.crossing import BYTES_AT_ONCE

__all__ = ["kv_capabilities"]

_PAGE_BYTES = 256 * 1024
"""Of the keys of one ``kv.list``: with long keys a full page would not fit in a reply."""


def _without_controls(text: str) -> str:
    if not text.isprintable() and any(character < " " or "\x7f" <= character < "\xa0" for character in text):
        raise ValueError("it has control characters")
    return text


_Text = Annotated[str, Field(max_length=4_096), AfterValidator(_without_controls)]
_Key = Annotated[_Text, Field(min_length=1)]


class _OneKey(Arguments):
    key: _Key


class _Put(Arguments):
    key: _Key
    value: Any
    expected: Any = None
    if_absent: bool = False

    @model_validator(mode="after")
    def _one_condition(self) -> _Put:
        if self.if_absent and "expected" in self.model_fields_set:
            raise ValueError("either 'expected' or 'if_absent'")
        return self


class _List(Arguments):
    prefix: _Text = ""
    after: _Text = ""
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100


def kv_capabilities(backend: KvBackend) -> tuple[Capability, ...]:
    """``kv.get``, ``kv.put``, ``kv.delete`` and ``kv.list`` on ``backend``."""

    async def get(arguments: _OneKey, context: CapabilityContext) -> dict[str, Any]:
        bounds: KvReadBounds = context.bounds
        data = await backend.get(context.tool, _key(arguments.key, bounds))
        if data is None:
            return {}
        if len(data) > bounds.value_bytes:
            raise _too_large(bounds)
        return {"value": await _decoded(data, context)}

    async def put(arguments: _Put, context: CapabilityContext) -> dict[str, Any]:
        bounds: KvWriteBounds = context.bounds
        key = _key(arguments.key, bounds)
        only_if: KvCondition = "absent" if arguments.if_absent else None
        if "expected" in arguments.model_fields_set:
            only_if = await _encoded(arguments.expected, context)
        value = await _encoded(arguments.value, context)
        room = KvRoom(bounds.keys, bounds.bytes)
        siblings = context.siblings
        return {"stored": await backend.put(context.tool, key, value, room=room, only_if=only_if, siblings=siblings)}

    async def delete(arguments: _OneKey, context: CapabilityContext) -> dict[str, Any]:
        return {"deleted": await backend.delete(context.tool, _key(arguments.key, context.bounds))}

    async def list_keys(arguments: _List, context: CapabilityContext) -> dict[str, Any]:
        found = await backend.keys(
            context.tool, prefix=arguments.prefix, after=arguments.after, limit=arguments.limit + 1
        )
        page: list[str] = []
        room = _PAGE_BYTES
        for key in found[: arguments.limit]:
            room -= len(key.encode())
            if room < 0:
                break
            page.append(key)
        return {"keys": page, "more": len(page) < len(found)}

    return (
        Capability(name="kv.get", arguments=_OneKey, bounds=KvReadBounds, later=get),
        Capability(name="kv.put", arguments=_Put, bounds=KvWriteBounds, later=put),
        Capability(name="kv.delete", arguments=_OneKey, bounds=KvWriteBounds, later=delete),
        Capability(name="kv.list", arguments=_List, bounds=KvReadBounds, later=list_keys),
    )


def _key(key: str, bounds: KvReadBounds) -> str:
    if len(key.encode()) > bounds.key_bytes:
        raise CapabilityError("invalid_arguments", f"a key has at most {bounds.key_bytes} bytes")
    return key


async def _decoded(data: bytes, context: CapabilityContext) -> Any:
    """The value that is kept as ``data``."""
    try:
        return plain.decode(data, max_bytes=BYTES_AT_ONCE, max_depth=plain.MAX_DEPTH, max_items=ITEMS_AT_ONCE)
    except (Malformed, TooLarge):
        decode = partial(plain.decode, data, max_bytes=len(data), max_depth=plain.MAX_DEPTH, max_items=len(data))
    try:
        long = len(data) > LONG_BYTES
        return await charged_in_thread(context.context.meter, decode, long=long)
    except (Malformed, TooLarge):
        raise CapabilityError(
            "unavailable", "what is kept under that key is damaged: put it anew", fault=True
        ) from None


async def _encoded(value: Any, context: CapabilityContext) -> bytes:
    bounds: KvReadBounds = context.bounds
    most = bounds.value_bytes
    at_once, items_at_once = min(most, BYTES_AT_ONCE), min(most + 1, ITEMS_AT_ONCE)
    try:
        return plain.encode(value, max_bytes=at_once, max_depth=plain.MAX_DEPTH, max_items=items_at_once)
    except (NotPlain, TooLarge):
        encode = partial(plain.encode, value, max_bytes=most, max_depth=plain.MAX_DEPTH, max_items=most + 1)
    try:
        long = items_of(value, most=LONG_ITEMS) > LONG_ITEMS
        return await charged_in_thread(context.context.meter, encode, long=long)
    except NotPlain:
        raise CapabilityError("invalid_arguments", "a value is plain data") from None
    except TooLarge:
        raise _too_large(bounds) from None


def _too_large(bounds: KvReadBounds) -> CapabilityError:
    return CapabilityError("quota", f"a value has at most {bounds.value_bytes} bytes")
