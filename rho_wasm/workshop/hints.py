"""What a fault of a source, or of a call, is usually about: one line that says what there is in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from rho_wasm.workshop.idioms import IDIOMS

__all__ = ["NETWORK", "call_hint", "source_hint"]

NETWORK: Mapping[str, str] = MappingProxyType(
    {
        "python": (
            '`from rho import host`, `@tool(capabilities=["http.fetch"])`, and in the function '
            '`host.call("http.fetch", url="https://...")`, which returns {"status", "headers", "body"}'
        ),
        "javascript": (
            '`import { host } from "rho"`, `export const capabilities = ["http.fetch"]`, and in the function '
            '`host("http.fetch", { url: "https://..." })`, which returns { status, headers, body }'
        ),
    }
)
"""How a tool reaches the network, by language."""

_WANTED = re.compile(r"(?:[Mm]odule|import)\b")
_WEB = re.compile(
    r"\b_?(?:requests|httpx|aiohttp|urllib3?|http|https|pycurl|websockets?|axios|node-fetch|"
    r"undici|superagent|sockets?|ssl|net|tls|fetch|network)\b"
)
_WEB_ITSELF = re.compile(r"\b(?:fetch|XMLHttpRequest|WebSocket) is not defined|URLError|unknown url type")
_ASKED = re.compile(r"HostError\b")
_DENIED = re.compile(r"\b(?:denied|quota|unavailable|invalid_arguments)\b")
_NO_HEADER = re.compile(r"include file '[^']+' not found|'[^']+' file not found")
_NOT_DEFINED = re.compile(r"is not defined anywhere|undefined symbol|implicit declaration of function")
_LOOKED_AT = 2_000


def source_hint(message: str, language: str) -> str | None:
    """What to say of a fault that a build told of; None where nothing is known of it."""
    text = message[:_LOOKED_AT]
    if language == "c":
        if _NO_HEADER.search(text) is not None:
            return f"there is no C library, only rho.h, which a tool includes alone; a tool looks like this:\n{_c()}"
        return (
            f"there is only what rho.h has and what the source defines; a tool looks like this:\n{_c()}"
            if _NOT_DEFINED.search(text) is not None
            else None
        )
    return _network(text, language)


def call_hint(reason: str, message: str, language: str | None) -> str | None:
    """What to say of a call that crashed for ``reason``; None where nothing is known of it."""
    if reason in ("deadline", "out_of_fuel"):
        return "perhaps a loop that does not end, or too much at once"
    text = message[:_LOOKED_AT]
    if "catch HostError" in text or ("http.fetch" in text and "network" in text):
        return None  # The interpreter's own text says it.
    if _then(_ASKED, _DENIED, text):
        return (
            "the host may refuse any call: catch HostError in the tool, and answer Failed with what its caller can do"
        )
    return _network(text, language)


def _network(text: str, language: str | None) -> str | None:
    if _WEB_ITSELF.search(text) is None and not any(_then(_WANTED, _WEB, line) for line in text.split("\n")):
        return None
    way = NETWORK.get("javascript" if language == "typescript" else language or "")
    return "a tool has no network but by a capability" + ("" if way is None else f": {way}")


def _then(first: re.Pattern[str], second: re.Pattern[str], text: str) -> bool:
    """Whether one stands after the other. Not one pattern, which looks through the rest for each place of the first."""
    found = first.search(text)
    return found is not None and second.search(text, found.end()) is not None


def _c() -> str:
    return IDIOMS["c"].rstrip()
