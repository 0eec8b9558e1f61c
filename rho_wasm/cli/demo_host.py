"""The host process that the demo kills: it switches a tool on and dies while that tool spins."""

from __future__ import annotations

import sys

import anyio

from rho_wasm.calls import ToolCall
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.events import Event, ToolRunning
from rho_wasm.host import Host
from rho_wasm.limits import MAX_DEADLINE_MS, Limits
from rho_wasm.resources import fixture


def _tell(event: Event) -> None:
    if isinstance(event, ToolRunning):
        print(f"{event.tool} runs", flush=True)


async def _main(store: str) -> None:
    async with Host.open(store, limits=Limits(fuel=10**15, deadline_ms=MAX_DEADLINE_MS), on_event=_tell) as host:
        spin = Artifact.from_wasm(fixture("spin.wasm").read_bytes())
        await host.source.activate(await host.source.stage(add=[spin], author="model", note="the host dies on it"))
        await host.runner.run(ToolCall(id="spin", name="spin"))


if __name__ == "__main__":
    anyio.run(_main, sys.argv[1])
