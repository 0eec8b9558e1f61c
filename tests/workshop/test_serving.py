"""``rho-wasm serve mcp``: the workshop is off unless it is asked for, and wrong words are told before it serves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from rho_wasm.names import WORKSHOP

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """Of the client; the program chooses its own."""
    return "asyncio"


def line(store: Path, *more: str) -> list[str]:
    return ["-m", "rho_wasm.cli", "serve", "mcp", "--store", str(store), *more]


@pytest.mark.parametrize(("more", "offered"), [((), ()), (("--workshop", "--workshop-language", "wat"), WORKSHOP)])
async def test_a_workshop_is_there_where_it_was_asked_for(
    tmp_path: Path, more: tuple[str, ...], offered: tuple[str, ...]
) -> None:
    server = StdioServerParameters(command=sys.executable, args=line(tmp_path, *more), env=dict(os.environ))
    with anyio.fail_after(60):
        async with Client(server) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert ("write_tool builds a source" in (client.instructions or "")) is bool(offered)
    assert set(tools) - {"read_artifact", "todo"} == set(offered)
    if offered:
        assert tools["write_tool"].input_schema["properties"]["language"]["description"] == "One of: wat."
        hints = {name: tools[name].annotations for name in WORKSHOP}
        assert [name for name, hint in hints.items() if hint is not None and hint.read_only_hint] == [
            "test_tool",
            "read_tool",
            "tool_status",
        ]


def test_a_language_that_there_is_not_is_wrong_usage(tmp_path: Path) -> None:
    command = [sys.executable, *line(tmp_path / "store", "--workshop", "--workshop-language", "cobol")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ended.returncode == 2
    assert "no such language: cobol" in ended.stderr
    assert not (tmp_path / "store").exists()
