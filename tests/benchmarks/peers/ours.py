"""rho_wasm, through its public API, from the model's call to the result."""

from __future__ import annotations

from rho_wasm import Host, ToolCall
from tests.benchmarks.guests import rho_guest
from tests.benchmarks.jobs import Job
from tests.benchmarks.measure import AsyncContender
from tests.benchmarks.peers.peer import Peer

__all__ = ["ours", "with_workers"]


async def ours(host: Host | None, job: Job, callers: int) -> AsyncContender:
    assert host is not None
    if host.registry.lookup(job.tool) is None:
        candidate = await host.source.stage(add=[await rho_guest(job)], author="benchmark")
        await host.source.activate(candidate)
    offered = host.registry.snapshot()
    call = ToolCall(id="1", name=job.tool, arguments={"text": job.text})

    async def once() -> object:
        result = await host.runner.run(call, tools=offered)
        if not result.ok:
            raise AssertionError(f"{job.group}: {result.reason}: {result.text[:200]}")
        return result.value

    job.check(await once())
    return AsyncContender(once, callers)


def with_workers(other: Host) -> Peer:
    """The same through ``other``, a host with two worker processes."""

    async def enter(host: Host | None, job: Job, callers: int) -> AsyncContender:
        return await ours(other, job, callers)

    return Peer("rho_wasm_workers", "the same, guests in two worker processes", enter)
