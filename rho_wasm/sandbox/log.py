"""A call's log while the guest writes it: bounded in bytes and in lines, made inert when it is handed over."""

from __future__ import annotations

from rho_wasm.results import NOTHING_LOGGED, CallLog, LogLine
from rho_wasm.untrusted import inert

__all__ = ["MAX_LINES", "LogBuffer", "log_level"]

MAX_LINES = 4_096
"""Lines of one log. Empty lines cost no bytes, so bytes alone would not bound them."""

_SHORT_BYTES, _SHORT_LINES = 2_048, 64
_LEVELS = (10, 20, 30, 40)
_ESCAPED = 6
"""So many characters an escaped character has at most for each byte that it had."""


def log_level(level: int) -> int:
    """The nearest of 10, 20, 30 and 40 (debug, info, warning, error); what is far off both ends too."""
    return min(_LEVELS, key=lambda known: abs(known - level))


class LogBuffer:
    """Collects lines until ``limit`` bytes (``Limits.log_bytes``) or :data:`MAX_LINES`; the rest is counted only."""

    __slots__ = ("_dropped", "_limit", "_lines", "_notes", "_pending", "room")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.room = limit
        """Bytes that still fit. Whoever reads a guest's memory for the log reads no more than this."""
        self._lines: list[tuple[int, bytes]] = []
        self._pending: dict[int, bytearray] = {}
        self._notes: dict[str, LogLine] = {}
        self._dropped = 0

    @property
    def short(self) -> bool:
        """Whether :meth:`finish` takes no time to speak of."""
        return self._limit - self.room <= _SHORT_BYTES and len(self._lines) <= _SHORT_LINES

    def line(self, level: int, data: bytes, *, dropped: int = 0) -> None:
        """One whole line. ``dropped`` counts bytes of it that the caller did not even read."""
        self._dropped += dropped
        kept = data[: self.room] if len(self._lines) < MAX_LINES else b""
        self._dropped += len(data) - len(kept)
        if kept or (not data and not dropped and len(self._lines) < MAX_LINES):
            self.room -= len(kept)
            self._lines.append((log_level(level), kept))

    def stream(self, level: int, data: bytes, *, dropped: int = 0) -> None:
        """A piece of a byte stream (standard output): lines end at newlines, the last one when the call ends."""
        self._dropped += dropped
        kept = data[: self.room]
        self._dropped += len(data) - len(kept)
        self.room -= len(kept)
        pending = self._pending.setdefault(log_level(level), bytearray())
        pending += kept
        if b"\n" in kept:
            *whole, rest = bytes(pending).split(b"\n")
            for text in whole:
                self._streamed(level, text)
            pending[:] = rest

    def _streamed(self, level: int, text: bytes) -> None:
        # Its bytes were taken from the room when they came.
        if len(self._lines) < MAX_LINES:
            self._lines.append((log_level(level), text))
        else:
            self._dropped += len(text)

    def note(self, text: str, *, level: int = 20) -> None:
        """A line of the host's own, said once however often it is noted, and outside the guest's bytes."""
        self._notes.setdefault(text, LogLine(level, text))

    def finish(self) -> CallLog:
        """The log: the host's notes first, then the guest's lines in their order.

        Text is inert, and whole: what room it has was counted in the guest's own bytes.
        """
        if not (self._lines or self._pending or self._notes or self._dropped):
            return NOTHING_LOGGED
        for level, rest in self._pending.items():
            if rest:
                self._streamed(level, bytes(rest))
        self._pending.clear()
        lines = [
            LogLine(level, inert(data.decode("utf-8", "replace"), limit=_ESCAPED * len(data)))
            for level, data in self._lines
        ]
        return CallLog(lines=(*self._notes.values(), *lines), dropped_bytes=self._dropped)
