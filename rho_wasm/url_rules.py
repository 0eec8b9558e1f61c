"""Which URLs a grant means: scheme, host, port and a prefix of the path.

A rule is text of an operator's policy. What is asked of a rule (a host in its canonical form, a path without ``..``)
is not made canonical here: that is the business of whoever opens the connection, who must connect to what it asked
about.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from typing import Final

from rho_wasm.untrusted import inert

__all__ = ["DEFAULT_PORTS", "UrlRule", "ends_in_number", "is_host_name"]

_SHAPE: Final = re.compile(
    r"(?P<scheme>https?)://(?P<wild>\*\.)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]/:]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>/.*)?"
)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_PATH: Final = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@/-]*")
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MAX_CHARS: Final = 1_024


@dataclass(frozen=True, slots=True)
class UrlRule:
    """``https://api.example:8443/v1`` or ``https://*.example.com``: every URL of that origin below that path.

    ``host`` is lower case, IPv4 and IPv6 addresses (these without brackets) in their canonical form. ``subdomains``:
    the rule means the names below ``host``, at any depth, and not ``host`` itself. ``path`` is a prefix of whole
    segments: ``/v1`` means ``/v1`` and ``/v1/x``, not ``/v10``.
    """

    scheme: str
    host: str
    port: int
    path: str = "/"
    subdomains: bool = False

    @classmethod
    def parse(cls, text: str) -> UrlRule:
        """Raises ValueError, which shows at most 80 characters of ``text``."""
        shape = _SHAPE.fullmatch(text) if len(text) <= _MAX_CHARS else None
        if shape is None:
            raise _refusal(text, "a rule is http(s)://HOST[:PORT][/PATH], or with *. before the host")
        scheme, subdomains, path = shape["scheme"], shape["wild"] is not None, shape["path"] or "/"
        port = DEFAULT_PORTS[scheme] if shape["port"] is None else int(shape["port"])
        if not 0 < port < 65_536:
            raise _refusal(text, "a port is 1 to 65535")
        segments = path.split("/")[1:]
        if _PATH.fullmatch(path) is None or any(part in (".", "..") for part in segments) or "" in segments[:-1]:
            raise _refusal(text, "a path has no %, query, fragment, '.', '..' or empty part")
        return cls(scheme, _host(text, shape["host"], subdomains), port, path, subdomains)

    @property
    def origin(self) -> str:
        """Scheme, host and port, as it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{'*.' if self.subdomains else ''}{host}{port}"

    def __str__(self) -> str:
        return self.origin + ("" if self.path == "/" else self.path)

    def covers(self, scheme: str, host: str, port: int, path: str) -> bool:
        """Whether the rule means this URL, each part of which is in its canonical form."""
        if (scheme, port) != (self.scheme, self.port) or not self.covers_path(path):
            return False
        return host.endswith("." + self.host) if self.subdomains else host == self.host

    def covers_path(self, path: str) -> bool:
        """Whether ``path`` is the rule's or lies below it."""
        return path == self.path or path.startswith(self.path if self.path.endswith("/") else self.path + "/")

    def meet(self, other: UrlRule) -> UrlRule | None:
        """The rule of what both mean; None if no URL is both."""
        if (self.scheme, self.port) != (other.scheme, other.port):
            return None
        if self.covers_path(other.path):
            path = other.path
        elif other.covers_path(self.path):
            path = self.path
        else:
            return None
        if self._covers_hosts(other):
            return replace(other, path=path)
        return replace(self, path=path) if other._covers_hosts(self) else None

    def _covers_hosts(self, other: UrlRule) -> bool:
        if not self.subdomains:
            return not other.subdomains and other.host == self.host
        return other.host.endswith("." + self.host) or (other.subdomains and other.host == self.host)


def is_host_name(host: str) -> bool:
    """Whether ``host``, in lower case, is a name as DNS has them: of letters, digits, hyphens and underscores."""
    return len(host) <= 253 and all(map(_LABEL.fullmatch, host.split(".")))


def ends_in_number(host: str) -> bool:
    """Whether ``host`` is an IPv4 address or nothing.

    2130706433, 0x7f.1 and 0177.0.0.1 are 127.0.0.1 to some resolvers
    (https://url.spec.whatwg.org/#ends-in-a-number-checker).
    """
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def _host(text: str, host: str, subdomains: bool) -> str:
    try:
        if host.startswith("["):
            address = str(ipaddress.IPv6Address(host[1:-1]))
        elif ends_in_number(host):
            address = str(ipaddress.IPv4Address(host))
        else:
            # In lower case some letters beyond ASCII are ASCII: the Kelvin sign is k.
            given, host = host, host.lower()
            if not given.isascii() or not is_host_name(host):
                raise _refusal(text, "a host is a name in ASCII (others as xn--...), an IPv4 or a [IPv6] address")
            return host
    except ipaddress.AddressValueError:
        raise _refusal(text, "its host is no IPv4 or IPv6 address in the usual form") from None
    if subdomains:
        raise _refusal(text, "an address has no subdomains")
    return address


def _refusal(text: str, why: str) -> ValueError:
    return ValueError(f"{inert(text, limit=80)!r}: {why}")
