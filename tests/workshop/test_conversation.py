"""The whole conversation: a model finds no tool, writes one, sees a test fail, repairs it, switches it on, uses it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from rho_wasm import Policy, ToolLoop, Workshop
from tests.workshop.shop import opened

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WRONG = '''\
def initials(name: str) -> str:
    """The first letters of a name."""
    return ".".join(part[0] for part in name.split(" "))
'''
RIGHT = WRONG.replace('name.split(" ")', "name.split()")
CASES = [
    {"arguments": {"name": "Ada Lovelace"}, "expect": "A.L"},
    {"arguments": {"name": "Ada  King Lovelace"}, "expect": "A.K.L"},
]
DESCRIPTION = "The first letters of a name, with points between."

Call = Callable[[str, dict[str, Any]], Awaitable[tuple[bool, str]]]
"""Calls a tool: whether it failed, and its text."""


class ScriptedModel:
    """Reads what it is answered and acts on it, as a model would: it repairs the line that a failed test names."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    async def converse(self, offered: Callable[[], Awaitable[Sequence[str]]], call: Call) -> str:
        assert "initials" not in await offered()
        failed, text = await call("write_tool", self.written(WRONG))
        assert not failed
        failed, text = await call("test_tool", {"name": "initials", "cases": CASES})
        assert failed
        (wrong,) = [case for case in json.loads(text)["cases"] if not case["passed"]]
        frame = next(line for line in wrong["backtrace"] if 'name.split(" ")' in line)
        self.steps.append(f"{wrong['message']} at {frame.partition(' in ')[0]}")
        failed, text = await call("write_tool", self.written(RIGHT))
        assert not failed
        candidate = json.loads(text)["candidate"]
        failed, _ = await call("test_tool", {"name": "initials", "cases": CASES})
        assert not failed
        assert "initials" not in await offered()
        failed, text = await call("switch_tools", {"candidate": candidate, "note": "asked for by a person"})
        assert not failed
        assert json.loads(text)["status"] == "live"
        assert "initials" in await offered()
        failed, text = await call("initials", {"name": "Grace Brewster  Murray Hopper"})
        assert not failed
        return text

    @staticmethod
    def written(source: str) -> dict[str, Any]:
        return {"language": "python", "source": source, "name": "initials", "description": DESCRIPTION}


async def test_a_loop_with_a_scripted_model_goes_the_whole_way(engines: None) -> None:
    """The script runs as a task of its own: it is asked for the next message, and answered by the one after."""
    model = ScriptedModel()
    asked: list[str] = []
    to_loop, from_script = anyio.create_memory_object_stream[dict[str, Any]](1)
    to_script, from_loop = anyio.create_memory_object_stream[tuple[Sequence[Mapping[str, Any]], list[str]]](1)

    async def speak(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> dict[str, Any]:
        await to_script.send((messages, [tool.name for tool in tools]))
        return await from_script.receive()

    async def script() -> None:
        _, names = await from_loop.receive()

        async def offered() -> Sequence[str]:
            return names

        async def call(tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
            nonlocal names
            asked.append(tool)
            made = {"id": f"c{len(asked)}", "name": tool, "arguments": arguments}
            await to_loop.send({"role": "assistant", "content": "", "tool_calls": [made]})
            messages, names = await from_loop.receive()
            return messages[-1]["is_error"], messages[-1]["content"]

        answer = await model.converse(offered, call)
        await to_loop.send({"role": "assistant", "content": answer})

    async with opened(workshop=Workshop(languages=["python"]), policy=Policy()) as host:
        with to_loop, from_script, to_script, from_loop:
            async with anyio.create_task_group() as group:
                group.start_soon(script)
                loop = ToolLoop(speak, host.runner)
                outcome = await loop.run([{"role": "user", "content": "Initials of Grace?"}], session_id="one")
    assert outcome.messages[-1]["content"] == "G.B.M.H"
    assert model.steps == ["IndexError: string index out of range at tool.py:3"]
    assert asked == ["write_tool", "test_tool", "write_tool", "test_tool", "switch_tools", "initials"]


async def test_a_client_with_one_line_of_configuration_goes_the_whole_way(
    made_engines: Mapping[str, str], tmp_path: Path
) -> None:
    """The real program, and the SDK's own client over standard input and output."""
    line = ["-m", "rho_wasm.cli", "serve", "mcp", "--workshop", "--store", str(tmp_path / "store")]
    server = StdioServerParameters(command=sys.executable, args=line, env={**os.environ, **made_engines})
    with anyio.fail_after(120):
        async with Client(server) as client, client.listen(tools_list_changed=True) as events:
            changes = 0

            async def offered() -> Sequence[str]:
                return [tool.name for tool in (await client.list_tools()).tools]

            async def call(tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
                nonlocal changes
                result = await client.call_tool(tool, arguments)
                if tool == "switch_tools":
                    await anext(aiter(events))
                    changes += 1
                (block,) = result.content
                assert isinstance(block, TextContent)
                return result.is_error is True, block.text

            assert await ScriptedModel().converse(offered, call) == "G.B.M.H"
            assert changes == 1
