"""Header fields: which of them a guest may send, what is sent beside them, and what it sees of a response's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from rho_wasm.capabilities.http_content import ACCEPTED
from rho_wasm.capabilities.http_urls import HttpUrl
from rho_wasm.untrusted import inert

__all__ = [
    "MOST_FIELDS",
    "HeaderRefused",
    "as_sent",
    "checked",
    "for_a_part",
    "for_another_origin",
    "same_field",
    "seen",
    "without_content",
]

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
    }
)
_KINDS: Final = (
    # The connection's, and what browsers say of themselves.
    *("proxy-*", "sec-*"),
    # Some servers take method, host or path from these: a grant of GET below /v1 would be none.
    *("x-http-*", "x-method*", "x-original-*", "x-rewrite-*", "x-accel-*", "x-middleware-*", "x-envoy-*"),
    *("x-host", "x-uri", "x-url", "x-url-*", "x-base-url", "base-url", "x-scheme"),
    # What a proxy says of who asks, from where and how: a server behind one believes it.
    *("x-forwarded*", "x-real-*", "x-proxy-*", "x-remote-*", "x-cluster-*", "x-originating-*", "remote-*"),
    *("client-ip", "*-client-ip", "*-clientip", "*-socketip", "*-connecting-ip", "*-remote-ip", "*-remote-addr"),
    *("ssl-*", "x-ssl-*", "client-cert*", "x-client-cert*", "x-client-dn", "x-client-verify", "front-end-https"),
    # What a proxy says of whom it let in.
    *("*remote-user", "x-authenticated-*", "x-auth-request-*", "x-webauth-*", "x-ms-client-principal*", "cf-*"),
    *("x-amzn-oidc-*", "x-goog-authenticated-*", "x-goog-iap-*", "tailscale-*"),
)
"""By :func:`same_field`. Every product has names of its own for the same few things: so it is their kinds."""
_KIND: Final = re.compile("|".join(re.escape(kind).replace(r"\*", ".*") for kind in _KINDS))
_OF_A_PART: Final = frozenset({"range", "if-range", "request-range", "x-range", "a-im"})
_SIGN: Final = re.compile(r"[^0-9a-z-]")
_ABOUT_CONTENT: Final = frozenset(
    {"content-encoding", "content-language", "content-location", "content-type", "digest", "last-modified"}
)
_FOR_ANYBODY: Final = frozenset({"accept", "accept-language", "user-agent"}) | _ABOUT_CONTENT


class HeaderRefused(ValueError):
    """A field that may not be sent. ``malformed``: it would be none in any request."""

    def __init__(self, why: str, *, malformed: bool = False) -> None:
        self.malformed = malformed
        super().__init__(why)


def same_field(name: str) -> str:
    """What names have in common that some server reads as one: those that hand fields on as variables read ``X_A`` and
    ``X.A`` as ``X-A``."""
    return _SIGN.sub("-", name.lower())


def checked(given: Mapping[str, str], *, most_bytes: int) -> dict[str, str]:
    """A guest's fields by lower-case name, at most 64 of them and ``most_bytes`` together.

    Names are tokens, values visible ASCII with spaces and tabs within (RFC 9110, section 5.5): neither CR, LF nor NUL
    gets through. Raises :class:`HeaderRefused` for these, for a name that occurs twice (by :func:`same_field`), and for
    the fields that are the host's, or of proxies before the server, to set.
    """
    if len(given) > MOST_FIELDS:
        raise HeaderRefused(f"at most {MOST_FIELDS} header fields", malformed=True)
    fields: dict[str, str] = {}
    read: set[str] = set()
    for name, value in given.items():
        lower = name.lower()
        if _TOKEN.fullmatch(lower) is None:
            raise HeaderRefused(f"{inert(name, limit=40)!r} is no name of a header field", malformed=True)
        same = same_field(lower)
        if same in _THE_HOSTS or _KIND.fullmatch(same) is not None:
            raise HeaderRefused(f"the header field {lower!r} is the host's to set")
        if _VALUE.fullmatch(value) is None:
            raise HeaderRefused(
                f"the value of {lower!r} is not visible ASCII without spaces at its ends", malformed=True
            )
        if same in read:
            raise HeaderRefused(f"the header field {lower!r} is there twice", malformed=True)
        read.add(same)
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


def for_a_part(fields: Mapping[str, str]) -> str | None:
    """The first field that asks for a part of the content (RFC 9110, section 14; RFC 3229, section 10.5.3), if any."""
    return next((name for name in fields if same_field(name) in _OF_A_PART), None)


def without_content(fields: Mapping[str, str]) -> dict[str, str]:
    """What is left for a redirect that became a GET (RFC 9110, section 15.4)."""
    return {name: value for name, value in fields.items() if same_field(name) not in _ABOUT_CONTENT}


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
