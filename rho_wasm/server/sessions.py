"""Whose call it is: the session that outputs, lists and questions are bound to, and what a gate is told of a client."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request

from rho_wasm.untrusted import inert

__all__ = ["Domain", "McpClient", "client_of", "session_of"]

_SESSION_HEADER = "mcp-session-id"
_NAME_CHARS = 64


@dataclass(frozen=True, slots=True)
class Domain:
    """Those who share a connection (stdio), or an HTTP server: one trust domain, with a random id."""

    session_id: str

    @classmethod
    def new(cls) -> Domain:
        return cls(f"mcp-{secrets.token_urlsafe(16)}")


@dataclass(frozen=True, slots=True)
class McpClient:
    """What a call's ``ToolContext.context`` is. Name and version are the client's own words, inert and short."""

    protocol_version: str
    name: str | None
    version: str | None


def session_of(ctx: ServerRequestContext[Any, Any]) -> str:
    """The session of a request.

    Of an older client over HTTP it is the protocol's own session, whose id the SDK made and has checked. The newest
    protocol has none: over HTTP all its callers are whoever has the server's token, so one trust domain.
    """
    domain: Domain = ctx.lifespan_context
    if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS and isinstance(ctx.request, Request):
        own = ctx.request.headers.get(_SESSION_HEADER)
        if own is not None:
            return f"{domain.session_id}:{own}"
    return domain.session_id


def client_of(ctx: ServerRequestContext[Any, Any]) -> McpClient:
    """What the client of a request says of itself."""
    info = None if ctx.session.client_params is None else ctx.session.client_params.client_info
    return McpClient(
        protocol_version=ctx.protocol_version,
        name=None if info is None else inert(info.name, limit=_NAME_CHARS),
        version=None if info is None else inert(info.version, limit=_NAME_CHARS),
    )
