"""How much of a response its parser is given at once: header fields are parsed together, and take 50 µs each.

The parser works through a whole section, and through all informational responses that are there, without looking up.
So what comes is looked through for ends of lines before it gets there: sections have a bound of fields, a response one
of informational ones before it (RFC 9110, section 15.2), and trailers (RFC 9112, section 7.1.2) are such a section.
"""

from __future__ import annotations

import enum
import re
from typing import Final

__all__ = ["MOST_FIELDS", "MOST_INFORMATIONAL", "HeadWatch", "TooManyFields", "TooManyInformational"]

MOST_FIELDS: Final = 128
"""Lines of one section."""
MOST_INFORMATIONAL: Final = 8
_LINE_BYTES: Final = 64
"""Of the begin of a line, which are kept where it comes in pieces: nothing behind them is looked at."""

_INFORMATIONAL: Final = re.compile(rb"HTTP/1\.[0-9] +1[0-9][0-9]")
_CHUNKED: Final = re.compile(rb"transfer-encoding[ \t]*:", re.IGNORECASE)
"""The parser takes no other coding than chunks (RFC 9112, section 7.1), which may stand in the next line."""
_SIZE: Final = re.compile(rb"[0-9a-fA-F]{1,20}")


class TooManyFields(Exception):
    """A section has more than ``MOST_FIELDS`` lines."""


class TooManyInformational(Exception):
    """There were more than ``MOST_INFORMATIONAL`` informational responses."""


class _At(enum.Enum):
    FIELDS = "fields"
    BODY = "body"
    SIZE = "size"
    CHUNK = "chunk"
    TRAILERS = "trailers"


class HeadWatch:
    """Sees the bytes of one response, in pieces, before its parser does. What is no HTTP is left to that."""

    __slots__ = ("_at", "_chunked", "_informational", "_left", "_line", "_lines", "_sections")

    def __init__(self) -> None:
        self._at = _At.FIELDS
        self._line = b""
        """The begin of the line that has not ended yet."""
        self._lines = self._sections = 0
        self._left = 0
        """Of the chunk, with the end of line behind it."""
        self._chunked = self._informational = False

    def see(self, data: bytes) -> None:
        """Raises :class:`TooManyFields` and :class:`TooManyInformational`."""
        at = 0
        while at < len(data) and self._at is not _At.BODY:
            if self._at is _At.CHUNK:
                taken = min(self._left, len(data) - at)
                self._left -= taken
                at += taken
                if not self._left:
                    self._at = _At.SIZE
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._line = (self._line + data[at : at + _LINE_BYTES])[:_LINE_BYTES]
                return
            line = (self._line + data[at : min(end, at + _LINE_BYTES)]).removesuffix(b"\r")
            self._line = b""
            at = end + 1
            self._ended(line)

    def _ended(self, line: bytes) -> None:
        if self._at is _At.SIZE:
            found = _SIZE.match(line)
            if found is None:
                self._at = _At.BODY  # It is no HTTP: the parser says so.
            elif size := int(found[0], 16):
                self._at, self._left = _At.CHUNK, size + 2
            else:
                self._at, self._lines = _At.TRAILERS, 0
            return
        if line:
            self._lines += 1
            if self._lines > MOST_FIELDS:
                raise TooManyFields
            if self._at is _At.FIELDS:
                if self._lines == 1:
                    self._informational = _INFORMATIONAL.match(line) is not None
                elif _CHUNKED.match(line):
                    self._chunked = True
            return
        if self._at is _At.TRAILERS:
            self._at = _At.BODY
        elif self._informational:
            self._sections += 1
            if self._sections > MOST_INFORMATIONAL:
                raise TooManyInformational
            self._lines, self._chunked = 0, False
        else:
            self._at = _At.SIZE if self._chunked else _At.BODY
