"""How what a source came to crosses from a worker process. A worker is believed no more than a guest is."""

from __future__ import annotations

from typing import Any, Final

from rho_wasm import plain
from rho_wasm.errors import PlainError
from rho_wasm.limits import Limits
from rho_wasm.sandbox.abi import PAGE_BYTES
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.images import LoadedSource
from rho_wasm.sandbox.loading import LoadCall

__all__ = ["loaded_message", "read_loaded"]

_ITEMS: Final = 200_000
_KEYS: Final = {"reply", "pages", "changes"}


def loaded_message(call: LoadCall, reply: bytes, *, limits: Limits) -> bytes:
    """What a worker answers. Raises :class:`CallFailed` where that is more than it may say."""
    flat = None if call.changes is None else [part for change in call.changes for part in change]
    said = {"reply": reply, "pages": call.pages, "changes": flat}
    try:
        return plain.encode(said, max_bytes=limits.answer_bytes + limits.images_bytes, max_items=_ITEMS)
    except PlainError:
        raise CallFailed("bad_answer", "the memory that changed is too large for a worker process") from None


def read_loaded(answer: bytes, *, limits: Limits, image_bytes: int) -> LoadedSource | None:
    """What the host hears; None where more than ``image_bytes`` changed.

    Raises :class:`CallFailed` (``bad_answer``) for anything that no worker says.
    """
    try:
        said = plain.decode(answer, max_bytes=len(answer), max_items=_ITEMS)
    except PlainError:
        said = None
    if type(said) is not dict or said.keys() != _KEYS:
        raise _strange()
    reply, pages, flat = said["reply"], said["pages"], said["changes"]
    if type(reply) is not bytes or type(pages) is not int:
        raise _strange()
    if flat is None:
        return None
    if type(flat) is not list or len(flat) % 2 or not 0 <= pages * PAGE_BYTES <= limits.memory_bytes:
        raise _strange()
    return LoadedSource(reply, pages, _changes(flat, pages * PAGE_BYTES, image_bytes))


def _changes(flat: list[Any], size: int, room: int) -> tuple[tuple[int, bytes], ...]:
    end = 0
    for offset, data in zip(flat[::2], flat[1::2], strict=True):
        if type(offset) is not int or type(data) is not bytes or offset < end:
            raise _strange()
        end = offset + len(data)
        room -= len(data)
        if end > size or room < 0:
            raise _strange()
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def _strange() -> CallFailed:
    return CallFailed("bad_answer", "its worker process said what no worker says")
