"""rho_wasm, through its public API, from the model's call to the result."""

from __future__ import annotations

from rho_wasm import Artifact, BuildError, Host, ToolCall, build
from tests.benchmarks.guests import rho_guest, unbuilt
from tests.benchmarks.jobs import Job
from tests.benchmarks.language_jobs import LanguageJob, tool_source
from tests.benchmarks.measure import AsyncContender
from tests.benchmarks.peers.peer import Peer

__all__ = ["ours", "ours_in_a_language", "with_workers"]


async def ours(host: Host | None, job: Job, callers: int) -> AsyncContender:
    assert host is not None
    if host.registry.lookup(job.tool) is None:
        await _offer(host, await rho_guest(job))
    return await _contender(host, job, callers)


async def ours_in_a_language(host: Host | None, job: LanguageJob, callers: int) -> AsyncContender:
    """Its tool is built from the job's source, and nothing of that is timed."""
    assert host is not None
    if host.registry.lookup(job.tool) is None:
        try:
            artifact = await build(tool_source(job.code, job.language, job.tool), language=job.language)
        except BuildError as error:
            raise unbuilt(error) from None
        await _offer(host, artifact)
    return await _contender(host, job, callers)


async def _offer(host: Host, artifact: Artifact) -> None:
    candidate = await host.source.stage(add=[artifact], author="benchmark")
    await host.source.activate(candidate)


async def _contender(host: Host, job: Job, callers: int) -> AsyncContender:
    offered = host.registry.snapshot()
    call = ToolCall(id="1", name=job.tool, arguments={"text": job.text})

    async def once() -> object:
        result = await host.runner.run(call, tools=offered)
        if not result.ok:
            raise AssertionError(f"{job.group}: {result.reason}: {result.text[:200]}")
        return result.value

    job.check(await once())
    return AsyncContender(once, callers)


def with_workers(other: Host) -> Peer[Job]:
    """The same through ``other``, a host with two worker processes."""

    async def enter(host: Host | None, job: Job, callers: int) -> AsyncContender:
        return await ours(other, job, callers)

    return Peer("rho_wasm_workers", "the same, guests in two worker processes", enter)
