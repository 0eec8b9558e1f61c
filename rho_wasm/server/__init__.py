"""The MCP server. It needs the extra ``mcp``."""

from __future__ import annotations

from rho_wasm.server.feed import EventFeed
from rho_wasm.server.server import McpServer

__all__ = ["EventFeed", "McpServer"]
