"""Header fields: which of them a guest may send, what is sent beside them, and what it sees of a response's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from rho_wasm.capabilities.http_content import ACCEPTED
from rho_wasm.capabilities.http_urls import HttpUrl
from rho_wasm.untrusted import inert

__all__ = ["MOST_FIELDS", "HeaderRefused", "as_sent", "checked", "for_another_origin", "seen", "without_content"]

MOST_FIELDS: Final = 64

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,128}")
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?|")

_THE_HOSTS: Final = frozenset(
    {
        # Who is asked, and who asks: the host's business.
        *("host", "authorization", "cookie", "cookie2", "forwarded", "via"),
        # One connection's (RFC 9110, section 7.6.1), framing, and what changes how a response comes.
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "expect"),
        *("accept-encoding", "http2-settings", "upgrade-insecure-requests"),
        # Some servers take method or path from these: a grant of GET below /v1 would be none.
        *("x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url"),
        *("x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix", "x-forwarded-proto"),
    }
)
_ABOUT_CONTENT: Final = frozenset(
    {"content-encoding", "content-language", "content-location", "content-type", "digest", "last-modified"}
)
_FOR_ANYBODY: Final = frozenset({"accept", "accept-language", "user-agent"}) | _ABOUT_CONTENT


class HeaderRefused(ValueError):
    """A field that may not be sent. ``malformed``: it would be none in any request."""

    def __init__(self, why: str, *, malformed: bool = False) -> None:
        self.malformed = malformed
        super().__init__(why)


def checked(given: Mapping[str, str], *, most_bytes: int) -> dict[str, str]:
    """A guest's fields by lower-case name, at most 64 of them and ``most_bytes`` together.

    Names are tokens, values visible ASCII with spaces and tabs within (RFC 9110, section 5.5): neither CR, LF nor NUL
    gets through. Raises :class:`HeaderRefused` for these, for a name that occurs twice, and for the fields that are the
    host's to set.
    """
    if len(given) > MOST_FIELDS:
        raise HeaderRefused(f"at most {MOST_FIELDS} header fields", malformed=True)
    fields: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if _TOKEN.fullmatch(lower) is None:
            raise HeaderRefused(f"{inert(name, limit=40)!r} is no name of a header field", malformed=True)
        # Servers that hand fields on as variables read X_A and X-A as one.
        dashed = lower.replace("_", "-")
        if dashed in _THE_HOSTS or dashed.startswith(("proxy-", "sec-")):
            raise HeaderRefused(f"the header field {lower!r} is the host's to set")
        if _VALUE.fullmatch(value) is None:
            raise HeaderRefused(
                f"the value of {lower!r} is not visible ASCII without spaces at its ends", malformed=True
            )
        if lower in fields:
            raise HeaderRefused(f"the header field {lower!r} is there twice", malformed=True)
        fields[lower] = value
    if sum(len(name) + len(value) + 4 for name, value in fields.items()) > most_bytes:
        raise HeaderRefused(f"the header fields have more than {most_bytes:,} bytes", malformed=True)
    return fields


def as_sent(fields: Mapping[str, str], url: HttpUrl, method: str, body: bytes | None) -> list[tuple[bytes, bytes]]:
    """All fields of one request, those of the host first."""
    sent = {"host": url.authority, "accept": "*/*", "user-agent": "rho-wasm", **fields}
    sent |= {"accept-encoding": ACCEPTED, "connection": "close"}
    if body is not None or method in ("POST", "PUT", "PATCH"):
        sent["content-length"] = str(len(body or b""))
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in sent.items()]


def without_content(fields: Mapping[str, str]) -> dict[str, str]:
    """What is left for a redirect that became a GET (RFC 9110, section 15.4)."""
    return {name: value for name, value in fields.items() if name not in _ABOUT_CONTENT}


def for_another_origin(fields: Mapping[str, str]) -> dict[str, str]:
    """What is left for a redirect to another origin: a field of the guest's own may be a key for the first one."""
    return {name: value for name, value in fields.items() if name in _FOR_ANYBODY}


def seen(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """A response's fields by lower-case name, the values of one name joined by ``, `` (RFC 9110, section 5.3).

    Without Set-Cookie, which cannot be joined, and could not be sent back.
    """
    joined: dict[str, str] = {}
    for raw_name, raw_value in fields:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name not in ("set-cookie", "set-cookie2"):
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
