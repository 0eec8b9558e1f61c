"""Where texts too long for a model are kept whole, until somebody pages them or room is needed."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from typing import Protocol

from rho_wasm.errors import TooLarge
from rho_wasm.limits import HostLimits

__all__ = ["MemoryOutputs", "Outputs", "new_output_id"]


class Outputs(Protocol):
    """An output store. Ids cannot be guessed and are bound to the session that they were made in."""

    def keep(self, text: str, *, session_id: str | None) -> str:
        """Keeps ``text`` and answers its id, ``out_`` and 128 random bits in hex.

        Raises :class:`rho_wasm.errors.RhoError` if it cannot be kept (too large, a full disk).
        """
        ...

    def read(self, output_id: str, *, session_id: str | None) -> str | None:
        """The text kept as ``output_id`` in that very session, or None (another's, never kept, let go)."""
        ...


def new_output_id() -> str:
    """``out_`` and 128 random bits in hex."""
    return f"out_{secrets.token_hex(16)}"


class MemoryOutputs:
    """Outputs in memory, at most ``max_bytes`` of UTF-8 together, all sessions in one; the oldest are let go.

    A single text larger than that raises :class:`TooLarge`.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self.max_bytes = HostLimits().output_bytes if max_bytes is None else max_bytes
        self._kept: OrderedDict[str, tuple[str | None, bytes]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, text: str, *, session_id: str | None) -> str:
        data = text.encode("utf-8", "replace")
        if len(data) > self.max_bytes:
            raise TooLarge("bytes", self.max_bytes, len(data))
        output_id = new_output_id()
        with self._lock:
            self._kept[output_id] = (session_id, data)
            self._bytes += len(data)
            while self._bytes > self.max_bytes:
                _, (_, oldest) = self._kept.popitem(last=False)
                self._bytes -= len(oldest)
        return output_id

    def read(self, output_id: str, *, session_id: str | None) -> str | None:
        with self._lock:
            kept = self._kept.get(output_id)
        return kept[1].decode() if kept is not None and kept[0] == session_id else None
