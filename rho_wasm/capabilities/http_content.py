"""The content of a response, decoded as it streams and counted after decoding, and whether it is text.

A few kilobytes of gzip can hold gigabytes. Nothing is inflated beyond what is still allowed, so a bomb costs what an
honest response of the largest size costs.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

__all__ = ["ACCEPTED", "BadContent", "Content", "ContentTooLarge", "readable"]

ACCEPTED: Final = "gzip, deflate"
"""For the Accept-Encoding field."""

_MOST_MEMBERS: Final = 1_000
"""Of one gzip file. An empty one has 20 bytes, and takes 5 µs."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_ENCODINGS: Final = {"": None, "identity": None, "gzip": _GZIP, "x-gzip": _GZIP, "deflate": 0}
_TEXTS: Final = frozenset(
    {"", "application/json", "application/xml", "application/javascript", "application/x-www-form-urlencoded"}
)
_CHARSET: Final = re.compile(r"""charset\s*=\s*"?([A-Za-z0-9._-]{1,32})""", re.IGNORECASE)
_CODECS: Final = {
    "utf-8": "utf-8-sig",  # whoever parses JSON does not want the mark
    "utf8": "utf-8-sig",
    "us-ascii": "ascii",
    "iso-8859-1": "latin-1",
    "windows-1252": "cp1252",
}
"""Those of which every ASCII byte is itself: a secret that was looked for in bytes cannot appear by decoding."""


class BadContent(Exception):
    """It is not what its Content-Encoding says, or that is none which was asked for."""


class ContentTooLarge(Exception):
    """It decodes to more than the bound."""


class Content:
    """Collects at most ``most`` bytes of decoded content. ``encoding`` is the Content-Encoding field, or empty.

    One layer of gzip or deflate (RFC 9110, section 8.4.1; deflate with or without its zlib header), since nobody was
    asked for two. Raises :class:`BadContent`.
    """

    def __init__(self, encoding: str, *, most: int) -> None:
        coding = encoding.strip().lower()
        if coding not in _ENCODINGS:
            raise BadContent
        self._bits = _ENCODINGS[coding]
        self._inflater: zlib._Decompress | None = None
        self._head = b""
        self._room = most
        self._members = 0
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Takes what came. Raises :class:`ContentTooLarge` or :class:`BadContent`."""
        if self._bits is None:
            self._keep(data)
            return
        if self._inflater is None:
            self._head += data
            if len(self._head) < 2:
                return
            data, self._head = self._head, b""
            self._inflater = zlib.decompressobj(self._bits or _deflate_bits(data))
        try:
            while data:
                if self._inflater.eof:
                    # RFC 1952, section 2.2: members may follow one another.
                    if self._bits != _GZIP:
                        raise BadContent
                    self._members += 1
                    if self._members >= _MOST_MEMBERS:
                        raise ContentTooLarge
                    self._inflater = zlib.decompressobj(_GZIP)
                self._keep(self._inflater.decompress(data, self._room + 1))
                data = self._inflater.unconsumed_tail or self._inflater.unused_data
        except zlib.error:
            raise BadContent from None

    def whole(self) -> bytes:
        """All of it, once the last byte came. Raises :class:`BadContent` if the encoding does not end there."""
        if self._head or (self._inflater is not None and not self._inflater.eof):
            raise BadContent
        return b"".join(self._pieces)

    def _keep(self, data: bytes) -> None:
        self._room -= len(data)
        if self._room < 0:
            raise ContentTooLarge
        if data:
            self._pieces.append(data)


def _deflate_bits(head: bytes) -> int:
    """RFC 9110 means zlib's format by "deflate"; some servers leave out its header (RFC 1950, section 2.2)."""
    return zlib.MAX_WBITS if head[0] & 0x0F == 8 and (head[0] << 8 | head[1]) % 31 == 0 else -zlib.MAX_WBITS


def readable(content: bytes, content_type: str) -> str | bytes:
    """``content`` as text if ``content_type`` says that it is text (or says nothing) and it is, by its charset or in
    UTF-8; else as it is."""
    media = content_type.partition(";")[0].strip().lower()
    if not (media in _TEXTS or media.startswith("text/") or media.endswith(("+json", "+xml"))):
        return content
    charset = _CHARSET.search(content_type)
    codec = _CODECS.get("utf-8" if charset is None else charset[1].lower())
    try:
        return content if codec is None else content.decode(codec)
    except UnicodeDecodeError:
        return content
