"""The real program on standard input and output: the SDK's client, and nothing but the protocol on the wire."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from rho_wasm.dynamic.store import Store
from rho_wasm.host import Host
from rho_wasm.testing import guest
from tests.server.serving import NEWEST, OLDER, names_of, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

VERSIONS = pytest.mark.parametrize("version", [NEWEST, OLDER])


@pytest.fixture
def anyio_backend() -> str:
    """Of the client; the program chooses its own."""
    return "asyncio"


def program(store: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "rho_wasm.cli", "serve", "mcp", "--store", str(store), *more]


def parameters(store: Path, *more: str) -> StdioServerParameters:
    command, *arguments = program(store, *more)
    return StdioServerParameters(command=command, args=arguments, env=dict(os.environ))


def request(number: int, method: str, **params: Any) -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return (
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": {"_meta": meta, **params}}).encode()
        + b"\n"
    )


@VERSIONS
async def test_the_program_serves_its_parent(tmp_path: Path, version: str) -> None:
    with Store.open(tmp_path / "store") as store:
        async with Host.open(store) as host:
            await host.source.activate(await host.source.stage(add=[guest("answer")], author="model"))
    mode = "legacy" if version == OLDER else version
    async with Client(parameters(tmp_path / "store"), mode=mode) as client:
        assert client.protocol_version == version
        assert await names_of(client) == ["read_artifact", "todo", "answer"]
        assert text_of(await client.call_tool("answer")) == "done"
        assert "mine" in text_of(await client.call_tool("todo", {"items": [{"text": "mine"}]}))
        assert "mine" in text_of(await client.call_tool("todo"))


async def test_a_switch_by_another_process_is_told(tmp_path: Path) -> None:
    async with (
        Client(parameters(tmp_path / "store"), mode=NEWEST) as client,
        client.listen(tools_list_changed=True) as events,
        Host.open(tmp_path / "store") as host,
    ):
        await host.source.activate(await host.source.stage(add=[guest("new")], author="model"))
        with anyio.fail_after(60):
            await anext(aiter(events))
        assert "new" in await names_of(client)


def test_nothing_but_the_protocol_stands_on_standard_output_whatever_comes_in(tmp_path: Path) -> None:
    sent = b"".join(
        [
            b"not json\n\xff\xfe\n[]\n{}\n",
            request(1, "tools/list"),
            request(2, "tools/call", name="\x1b[2Jnothing"),
            request(3, "no/such/method"),
        ]
    )
    with subprocess.Popen(
        program(tmp_path / "store"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(sent)
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(3)]
        process.stdin.close()
        said = process.stdout.read() + process.stderr.read()
        assert process.wait(60) == 0
    answers = {message["id"]: message for message in map(json.loads, lines)}
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == ["read_artifact", "todo"]
    assert answers[2]["error"]["message"] == "Unknown tool: \\x1b[2Jnothing"
    assert answers[3]["error"]["code"] == -32601
    assert said == b""


def test_a_signal_ends_it_and_closes_its_store(tmp_path: Path) -> None:
    with subprocess.Popen(
        program(tmp_path / "store"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request(1, "tools/list"))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    with Store.open(tmp_path / "store") as store:
        assert store.live().number == 0
