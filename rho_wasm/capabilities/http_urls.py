"""One reading of a URL, for the decision about it and for the request that follows.

Half of all ways round an allow-list are two readers of one text: the one that checks sees ``api.example``, the one that
connects sees ``10.0.0.1``. So a URL is read once, strictly, into its canonical parts, and everything after that (rules,
secrets, name resolution, the request line, the Host field) is made of those parts.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from rho_wasm.url_rules import DEFAULT_PORTS, ends_in_number, is_host_name

__all__ = ["HttpUrl", "UrlRefused"]

MAX_URL_CHARS: Final = 8_192
_MOST_DECODINGS: Final = 8

_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\\\\\ud800-\udfff]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_IN_PATH: Final = _UNRESERVED | frozenset("!$&'()*+,;=:@/")
_IN_QUERY: Final = _IN_PATH | frozenset("?")
_ESCAPE: Final = re.compile("%([0-9A-Fa-f]{2})?|[^%]", re.DOTALL)
_SEPARATORS: Final = re.compile(r"[/\\?#]")
_DOT: Final = re.compile("%2e", re.IGNORECASE)


class UrlRefused(ValueError):
    """The text is not a URL (``malformed``), or one whose form is never allowed. Its message shows nothing of it."""

    def __init__(self, why: str, *, malformed: bool = False) -> None:
        self.malformed = malformed
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """A URL of http or https in canonical form (RFC 3986, section 6.2.2).

    ``host`` is lower case without a trailing dot; addresses stand in their usual form, those of IPv6 without brackets.
    ``path`` begins with a slash and climbs nowhere, however often a server decodes it; ``query`` is None where the URL
    has no question mark. Escapes are upper case, and unreserved characters are not escaped. There is no fragment.
    """

    scheme: str
    host: str
    port: int
    path: str
    query: str | None

    @classmethod
    def parse(cls, text: str) -> HttpUrl:
        """Reads ``text``, at most 8,192 characters. Characters that a path or a query cannot have (a space, letters
        beyond ASCII) are escaped as UTF-8; a fragment is dropped. Raises :class:`UrlRefused`."""
        if len(text) > MAX_URL_CHARS:
            raise UrlRefused(f"a URL has at most {MAX_URL_CHARS:,} characters", malformed=True)
        if _UNSAFE.search(text):
            raise UrlRefused("a URL has no control character and no backslash", malformed=True)
        scheme, found, rest = text.partition("://")
        scheme = scheme.lower()
        if not found or scheme not in DEFAULT_PORTS:
            raise UrlRefused("a URL begins with https:// or http://", malformed=True)
        end = next((index for index, character in enumerate(rest) if character in "/?#"), len(rest))
        host, port = _authority(rest[:end], DEFAULT_PORTS[scheme])
        path, question, query = rest[end:].partition("#")[0].partition("?")
        path = _escaped(path, _IN_PATH) or "/"
        _check_path(path)
        return cls(scheme, host, port, path, _escaped(query, _IN_QUERY) if question else None)

    def joined(self, reference: str) -> HttpUrl:
        """The URL that ``reference`` (a Location field) means here (RFC 3986, section 5.2). Raises as :meth:`parse`."""
        reference = reference.partition("#")[0]
        if _SCHEME.match(reference):
            return HttpUrl.parse(reference)
        if reference.startswith("//"):
            return HttpUrl.parse(f"{self.scheme}:{reference}")
        path, question, query = reference.partition("?")
        if path:
            path = _without_dots(path if path.startswith("/") else self.path.rpartition("/")[0] + "/" + path)
        else:
            path = self.path
            if not question and self.query is not None:
                question, query = "?", self.query
        return HttpUrl.parse(f"{self.origin}{path}{question}{query}")

    @property
    def authority(self) -> str:
        """Host and port, as the Host field has them (RFC 9110, section 7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def target(self) -> str:
        """Path and query: what stands in the request line."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    def __str__(self) -> str:
        return self.origin + self.target


def _authority(text: str, port: int) -> tuple[str, int]:
    if "@" in text:
        raise UrlRefused("a URL has no user and no password: a secret is named by 'secret'")
    if text.startswith("["):
        host, bracket, after = text[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise UrlRefused("an IPv6 address stands in brackets", malformed=True)
        colon, digits = after[:1], after[1:]
        host = _ipv6(host)
    else:
        host, colon, digits = text.partition(":")
        host = _name(host)
    if not colon:
        return host, port
    if _PORT.fullmatch(digits) is None or int(digits) > 65_535:
        raise UrlRefused("a port is 1 to 65535, in digits", malformed=True)
    return host, int(digits)


def _ipv6(text: str) -> str:
    try:
        # A zone id would be accepted here, and means nothing outside this machine.
        if "%" not in text:
            return str(ipaddress.IPv6Address(text))
    except ValueError:
        pass
    raise UrlRefused("its host is no IPv6 address, or one with a zone id")


def _name(text: str) -> str:
    name = text.removesuffix(".").lower()
    if not name:
        raise UrlRefused("a URL has a host", malformed=True)
    if not text.isascii():
        raise UrlRefused("a host is written in ASCII: others as xn--...")
    if ends_in_number(name):
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            raise UrlRefused("an IPv4 address is four decimal numbers without leading zeros") from None
    if not is_host_name(name):
        raise UrlRefused("a host is a name of letters, digits and hyphens")
    return name


def _escaped(text: str, allowed: frozenset[str]) -> str:
    """``text`` with its escapes in canonical form and everything escaped that is not ``allowed``."""
    if allowed.issuperset(text):
        return text

    def canonical(found: re.Match[str]) -> str:
        text = found[0]
        if text == "%":
            raise UrlRefused("in a URL % begins an escape of two hexadecimal digits: write %25", malformed=True)
        if len(text) == 1:
            return text if text in allowed else "".join(f"%{byte:02X}" for byte in text.encode())
        character = chr(int(found[1], 16))
        return character if character in _UNRESERVED else text.upper()

    return _ESCAPE.sub(canonical, text)


def _check_path(path: str) -> None:
    """Refuses a path that some server would read as another one.

    Whether ``%2F``, ``%5C`` or ``%252F`` separate, whether ``%3F`` or ``%23`` end a path, whether ``..;x`` climbs, how
    often escapes are decoded, and whether a two-dot leader (U+2025) becomes two dots, differs between servers. A prefix
    of the path is kept for all of them only if no reading climbs.
    """
    decoded = path
    for _ in range(_MOST_DECODINGS):
        before = decoded
        try:
            decoded = unicodedata.normalize("NFKC", unquote(decoded, errors="strict"))
        except UnicodeDecodeError:
            raise UrlRefused("its path is no escaped UTF-8") from None
        if decoded == before:
            break
    else:
        raise UrlRefused("its path is escaped over and over")
    if _CONTROL.search(decoded):
        raise UrlRefused("its path has an escaped control character")
    if any(part.partition(";")[0].strip() in (".", "..") for part in _SEPARATORS.split(decoded)):
        raise UrlRefused("its path has a part '.' or '..': write out what is meant")


def _without_dots(path: str) -> str:
    """RFC 3986, section 5.2.4, for a path that begins with a slash."""
    kept: list[str] = []
    parts = path.split("/")[1:]
    for index, part in enumerate(parts):
        dots = _DOT.sub(".", part)
        if dots == "..":
            del kept[-1:]
        if dots not in (".", ".."):
            kept.append(part)
        elif index == len(parts) - 1:
            kept.append("")
    return "/" + "/".join(kept)
