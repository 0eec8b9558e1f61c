"""What MCP adds to a call, beside servers of the bare SDK with a Python function, and whether many clients lose any."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import anyio

from rho_wasm import Host
from tests.benchmarks.guests import Absent, rho_guest
from tests.benchmarks.jobs import ECHO
from tests.benchmarks.measure import AsyncContender, Contender, Figures, Pace, alternate
from tests.benchmarks.peers import OURS
from tests.benchmarks.peers.ours import ours

__all__ = ["IN_FLIGHT", "added_latency", "many_clients", "protocol_versions"]

_PEERS = ("mcpserver", "lowlevel")
"""Of the SDK: as its documentation shows it, and the layer below, on which ours stands too."""
IN_FLIGHT = 20
"""Calls of each of many clients."""
_BLOCK_S = 0.1
"""A call takes some milliseconds: a block has to hold a few dozen."""
_DIRECT = "direct"


def protocol_versions() -> dict[str, str]:
    """The newest version of the protocol and the last one before it, with the client's mode that speaks each.

    Raises :class:`Absent`.
    """
    if importlib.util.find_spec("mcp") is None:
        raise Absent("mcp is not installed: pip install 'rho-wasm[mcp]'")
    from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

    return {LATEST_MODERN_VERSION: LATEST_MODERN_VERSION, LATEST_HANDSHAKE_VERSION: "legacy"}


async def added_latency(pace: Pace, versions: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """The echo of 1 KB through the SDK's own client, which runs here, to servers that have a process of their own each.

    By transport and version (of :func:`protocol_versions`): microseconds of ours, of the peers, and of the call without
    MCP (``direct_us``). Ours calls a guest and answers its value as text and as an object; the peers answer text.
    """
    contenders: dict[str, Contender] = {}
    async with _store() as store, Host.open(":memory:") as host, AsyncExitStack() as stack:
        servers = {f"stdio {name}": _over_stdio(line) for name, line in _commands(store).items()}
        servers |= {f"http {name}": url for name, url in stack.enter_context(_over_http(store)).items()}
        contenders[_DIRECT] = await ours(host, ECHO, 1)
        for version, mode in versions.items():
            for server, where in servers.items():
                transport, _, name = server.partition(" ")
                client = await stack.enter_async_context(_client(where, mode))
                contenders[f"{transport} {version} {name}"] = AsyncContender(_calling(client), 1)
        for contender in contenders.values():
            await contender.block(3)
        figures = await alternate(contenders, replace(pace, block_s=max(pace.block_s, _BLOCK_S)))
    ways = dict.fromkeys(name.rpartition(" ")[0] for name in contenders if name != _DIRECT)
    return {way: _told(figures[_DIRECT], {name: figures[f"{way} {name}"] for name in (OURS, *_PEERS)}) for way in ways}


async def many_clients(clients: int, versions: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """``clients`` over HTTP, each with 20 calls in flight whose texts all differ: how many were answered rightly.

    By version and server.
    """
    async with _store() as store:
        with _over_http(store) as urls:
            return {
                f"{version} {name}": await _flood(url, mode, clients)
                for version, mode in versions.items()
                for name, url in urls.items()
            }


@asynccontextmanager
async def _store() -> AsyncIterator[str]:
    """A store whose live generation has the echo."""
    with tempfile.TemporaryDirectory() as store:
        async with Host.open(store) as host:
            candidate = await host.source.stage(add=[await rho_guest(ECHO)], author="benchmark")
            await host.source.activate(candidate)
        yield store


def _commands(store: str) -> dict[str, Sequence[str]]:
    """The lines that serve over standard input and output."""
    bare = {name: (sys.executable, "-m", "tests.benchmarks.bare_mcp", name) for name in _PEERS}
    return {OURS: (sys.executable, "-m", "rho_wasm.cli", "serve", "mcp", "--store", store), **bare}


def _over_stdio(line: Sequence[str]) -> Any:
    from mcp import StdioServerParameters

    command, *arguments = line
    return StdioServerParameters(command=command, args=arguments, env=dict(os.environ))


@contextmanager
def _over_http(store: str) -> Iterator[dict[str, str]]:
    """The URL of each server. They end with the block."""
    with ExitStack() as stack:
        urls: dict[str, str] = {}
        for name, line in _commands(store).items():
            options = ("--http", "--port", "0", "--json") if name == OURS else ("--http",)
            process = stack.enter_context(subprocess.Popen((*line, *options), stdout=subprocess.PIPE, text=True))
            stack.callback(process.terminate)
            assert process.stdout is not None
            urls[name] = json.loads(process.stdout.readline())["url"]
        yield urls


def _client(where: Any, mode: str) -> Any:
    from mcp import Client

    return Client(where, mode=mode)


def _calling(client: Any) -> Any:
    async def once() -> None:
        ECHO.check(await _echo(client, ECHO.text))

    return once


async def _echo(client: Any, text: str) -> object:
    """What the server's echo answers: an object where that is structured content, else a text."""
    result = await client.call_tool(ECHO.tool, {"text": text})
    if result.is_error:
        raise AssertionError(result.content[0].text[:200])
    return result.content[0].text if result.structured_content is None else result.structured_content


def _told(direct: Figures, found: Mapping[str, Figures]) -> dict[str, float]:
    told = {"direct_us": direct.median_us, "direct_min_us": direct.min_us}
    for name, figures in found.items():
        told |= {f"{name}_us": figures.median_us, f"{name}_min_us": figures.min_us}
    own = found[OURS]
    told |= {"added_us": own.median_us - direct.median_us, "added_min_us": own.min_us - direct.min_us}
    told = {key: round(value, 1) for key, value in told.items()}
    for name in _PEERS:
        told[f"to_{name}"] = round(own.median_us / found[name].median_us, 3)
        told[f"to_{name}_min"] = round(own.min_us / found[name].min_us, 3)
    return told


async def _flood(url: str, mode: str, clients: int) -> dict[str, float]:
    """Every client is connected before the first call. A call that fails is counted by the kind of its exception."""
    answered, began, ended = 0, 0.0, 0.0
    failed: Counter[str] = Counter()
    connected, all_connected = 0, anyio.Event()

    async def call(client: Any, text: str) -> None:
        nonlocal answered
        try:
            answer = await _echo(client, text)
        except Exception as error:
            failed[f"{type(error).__name__}: {error}"[:200]] += 1
        else:
            if answer in (text, {"text": text}):
                answered += 1
            else:
                failed["the answer of another call"] += 1

    async def work(number: int) -> None:
        nonlocal connected, ended
        async with _client(url, mode) as client:
            connected += 1
            if connected == clients:
                all_connected.set()
            await all_connected.wait()
            async with anyio.create_task_group() as group:
                for each in range(IN_FLIGHT):
                    group.start_soon(call, client, f"{number}-{each}")
            ended = time.perf_counter()

    async with anyio.create_task_group() as group:
        for number in range(clients):
            group.start_soon(work, number)
        await all_connected.wait()
        began = time.perf_counter()
    seconds = ended - began
    for why, times in failed.items():
        print(f"{url}: {times} times {why}", file=sys.stderr)
    asked = clients * IN_FLIGHT
    return {
        "clients": clients,
        "asked": asked,
        "answered": answered,
        "lost": asked - answered,
        "seconds": round(seconds, 2),
        "calls_per_s": round(asked / seconds, 1),
    }
