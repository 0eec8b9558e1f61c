"""The tools as the API of a model is given them: ``rho-wasm tools --format``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from rho_wasm.adapters.anthropic import tools_to_anthropic
from rho_wasm.adapters.mcp import tool_to_mcp
from rho_wasm.adapters.openai import tools_to_openai
from rho_wasm.cli.hosts import with_host
from rho_wasm.cli.output import Output
from rho_wasm.cli.which_store import DEFAULT_STORE
from rho_wasm.host import Host
from rho_wasm.portable import unportable
from rho_wasm.registry import ToolRegistry
from rho_wasm.tools import Tool

__all__ = ["FormatOption", "ToolFormat", "offered_tools", "print_offered"]


class ToolFormat(StrEnum):
    """Whose shape."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    MCP = "mcp"


FormatOption: TypeAlias = Annotated[
    ToolFormat | None,
    typer.Option("--format", help="Print them as JSON, as that API is given them: what a model would be offered."),
]


def offered_tools(store: Path, policy: Path | None) -> Sequence[Tool]:
    """What a model would be offered; without a store, unless one was named, the built-in tools.

    Raises :class:`UsageProblem` where there is no store of that name, and what ``Host.open`` does.
    """
    if store == DEFAULT_STORE and not store.exists():
        return ToolRegistry().list()

    async def offered(host: Host) -> Sequence[Tool]:
        return host.registry.list()

    return with_host(store, policy, offered)


def print_offered(tools: Sequence[Tool], shape: ToolFormat) -> None:
    """Prints one object with ``tools``, whether with ``--json`` or not; what an API refuses it says beside it."""
    match shape:
        case ToolFormat.OPENAI:
            shown: list[dict[str, Any]] = tools_to_openai(tools)
        case ToolFormat.ANTHROPIC:
            shown = tools_to_anthropic(tools)
        case ToolFormat.MCP:
            shown = [tool_to_mcp(tool) for tool in tools]
    Output(as_json=True).object({"tools": shown})
    for tool in tools if shape is not ToolFormat.MCP else ():
        if (why := unportable(tool.input_schema)) is not None:
            Output(as_json=False).aside(f"{tool.name} cannot be shown as it is: ", why, style="yellow")
