"""Guests in worker processes: the same ends as in this one, and whatever a worker does, the host goes on."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from rho_wasm import Artifact, Host, Limits, ToolCall
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.errors import ToolError
from rho_wasm.events import Event, StrikeCounted
from rho_wasm.results import HandlerResult, Ok
from rho_wasm.sandbox import NativeCache, Sandbox, worker_call, worker_process, workers
from rho_wasm.sandbox.workers import Lease
from tests.fixture_build import FIXTURES
from tests.fixture_table import ENDINGS
from tests.sandbox.guests import Granting, Waiting, answering, asking, called, guest

SPIN = guest("(loop $l (br $l)) unreachable")
ENDLESS = Limits(fuel=10**15, deadline_ms=60_000)
SOON = 60  # seconds: a bound for what must not hang
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


@dataclass(frozen=True)
class End:
    """All that may be compared of one call."""

    result: HandlerResult | None
    error: str
    detail: str
    limit: str | None
    value: object
    backtrace: tuple[str, ...]
    log: tuple[object, ...]
    dropped: int
    fuel: int | None


async def end_of(sandbox: Sandbox, name: str) -> End:
    ending, meter = ENDINGS[name], CallMeter(CallClock(60_000))
    result, error = None, ToolError("", tool="")
    with await sandbox.load((FIXTURES / f"{name}.wasm").read_bytes()) as module:
        try:
            result = await sandbox.call(
                module,
                tool=ending.tool or name,
                arguments=ending.arguments,
                context={"call_id": "1", "values": {"n": [1, {"k": b"x" * 300}]}},
                limits=Limits(fuel=100_000_000),
                meter=meter,
            )
        except ToolError as caught:
            error = caught
    assert meter.backtrace == error.backtrace
    assert meter.guest_ms > 0
    assert meter.guest_cpu_ms > 0
    log = meter.log
    return End(
        result,
        error.reason,
        error.detail,
        error.limit,
        error.value,
        error.backtrace,
        tuple(log.lines),
        log.dropped_bytes,
        meter.fuel_used,
    )


@pytest.mark.parametrize("name", ENDINGS)
async def test_a_guest_ends_in_a_worker_as_it_does_here(here: Sandbox, with_workers: Sandbox, name: str) -> None:
    assert await end_of(with_workers, name) == await end_of(here, name)


async def test_large_requests_and_answers_cross_whole(with_workers: Sandbox) -> None:
    arguments = {"text": "größer " * 20_000, "many": list(range(2_000)), "bytes": bytes(range(256)) * 2_000}
    with await with_workers.load((FIXTURES / "echo.wasm").read_bytes()) as module:
        for _ in range(2):
            result = await with_workers.call(
                module,
                tool="echo",
                arguments=arguments,
                context={},
                limits=Limits(),
                meter=CallMeter(CallClock(60_000)),
            )
            assert result == Ok(arguments)


async def test_a_request_over_its_limit_reaches_no_worker(with_workers: Sandbox) -> None:
    ended = await called(with_workers, SPIN, arguments={"a": "x" * 2_000}, limits=Limits(request_bytes=1_000))
    assert ended.error is not None
    assert (ended.reason, ended.error.limit, ended.error.value) == ("invalid_arguments", "request_bytes", 1_000)
    assert ended.meter.guest_ms == 0


async def test_a_deadline_ends_a_guest_and_leaves_its_worker(with_workers: Sandbox) -> None:
    before = set(with_workers.statistics().workers)
    ended = await called(with_workers, SPIN, limits=Limits(fuel=10**15, deadline_ms=30))
    assert ended.error is not None
    assert (ended.reason, ended.error.limit, ended.error.value) == ("deadline", "deadline_ms", 30)
    assert ended.meter.guest_cpu_ms > 0
    assert set(with_workers.statistics().workers) == before


async def test_cancellation_ends_a_guest_and_leaves_its_worker(with_workers: Sandbox) -> None:
    before = set(with_workers.statistics().workers)
    meter = CallMeter(CallClock(60_000))
    with await with_workers.load(SPIN) as module, anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(spin, with_workers, module, meter)
            await until(lambda: with_workers.statistics().running == 1)
            tasks.cancel_scope.cancel()
    assert with_workers.statistics().running == 0
    assert set(with_workers.statistics().workers) == before
    assert (await called(with_workers, answering({"ok": 1}))).result == Ok(1)


async def test_more_calls_than_workers_wait_for_one(with_workers: Sandbox) -> None:
    results: list[HandlerResult | None] = []

    async def one() -> None:
        results.append((await called(with_workers, answering({"ok": 1}))).result)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one)
    assert results == [Ok(1)] * 20


async def test_a_capability_of_the_host_answers_a_guest_in_a_worker(with_workers: Sandbox) -> None:
    heard: list[tuple[int, dict[str, Any]]] = []

    async def answers(capability: str, arguments: dict[str, Any]) -> Any:
        await anyio.lowlevel.checkpoint()
        heard.append((threading.get_ident(), arguments))
        return {"capability": capability, "arguments": arguments}

    for granted in (Waiting(answers), Granting(lambda capability, arguments: {"capability": capability})):
        ended = await called(with_workers, asking("clock"), capabilities=granted)
        assert isinstance(ended.result, Ok), ended.error
        assert ended.result.value["capability"] == "clock"
    assert heard == [(threading.get_ident(), {})]


async def test_an_answer_of_as_many_items_as_the_limits_allow_reaches_a_guest_in_a_worker(
    with_workers: Sandbox,
) -> None:
    granted = Granting(lambda capability, arguments: [0] * 150_000)
    wasm, limits = asking("clock", memory="4"), Limits(items=1_000_000)
    ended = await called(with_workers, wasm, capabilities=granted, limits=limits)
    assert isinstance(ended.result, Ok), ended.error
    assert len(ended.result.value) == 150_000


@LINUX
async def test_a_worker_that_is_killed_is_a_strike_and_is_replaced() -> None:
    events: list[Event] = []
    artifact = Artifact.from_wasm(SPIN)
    async with Host.open(":memory:", limits=ENDLESS, on_event=events.append, workers=1) as host:
        candidate = await host.source.stage(add=[artifact], author="model")
        await host.source.activate(candidate)
        (pid,) = host.sandbox.statistics().workers
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(kill_when_it_computes, pid)
                result = await host.runner.run(ToolCall(id="1", name="t"))
        assert (result.reason, result.kind) == ("killed", "crashed")
        assert "SIGKILL" in result.text
        (strike,) = [event for event in events if isinstance(event, StrikeCounted)]
        assert (strike.reason, strike.tool) == ("killed", "t")
        (other,) = host.sandbox.statistics().workers
        assert other != pid
        assert (await called(host.sandbox, answering({"ok": 1}))).result == Ok(1)


@pytest.mark.slow
@LINUX
async def test_a_worker_that_died_while_it_had_no_call_is_nobodys_fault(shared_cache: NativeCache) -> None:
    wasm = answering({"ok": 1})
    async with Sandbox(cache=shared_cache, workers=1) as sandbox:
        assert (await called(sandbox, wasm)).result == Ok(1)
        (pid,) = sandbox.statistics().workers
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not runs(pid))
        assert (await called(sandbox, wasm)).result == Ok(1)
        assert sandbox.statistics().workers != (pid,)


async def test_closing_ends_calls_and_workers_and_leaves_nothing_open(shared_cache: NativeCache) -> None:
    await called_in_a_sandbox_of_its_own(shared_cache)
    gc.collect()  # What tests before left is closed now, and not meanwhile.
    before = open_files()
    pids, reason = await called_in_a_sandbox_of_its_own(shared_cache)
    assert reason == "cancelled"
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert open_files() <= before


def test_one_sandbox_with_workers_serves_event_loops_one_after_another(shared_cache: NativeCache) -> None:
    sandbox = Sandbox(cache=shared_cache, workers=1)
    pids: set[int] = set()
    for backend in ("asyncio", "trio", "asyncio"):
        assert anyio.run(called, sandbox, answering({"ok": 1}), backend=backend).result == Ok(1)
        pids.update(sandbox.statistics().workers)
    anyio.run(sandbox.aclose)
    assert len(pids) == 1


_LOST_HOST = """
import os, sys
import anyio
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm import Limits
from tests.sandbox.guests import called
from tests.sandbox.test_workers import ENDLESS, SPIN, until

async def main():
    async with Sandbox(workers=2) as sandbox:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: called(sandbox, SPIN, limits=ENDLESS))
            await until(lambda: sandbox.statistics().running == 1)
            print(*sandbox.statistics().workers, flush=True)
            await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.slow
@LINUX
def test_workers_end_with_their_host() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _LOST_HOST], cwd=FIXTURES.parent, stdout=subprocess.PIPE, text=True
    ) as host:
        try:
            assert host.stdout is not None
            pids = [int(pid) for pid in host.stdout.readline().split()]
            assert len(pids) == 2
            anyio.run(until, lambda: any(computes(pid) for pid in pids))
        finally:
            host.kill()
    anyio.run(until, lambda: not any(runs(pid) for pid in pids))


@LINUX
async def test_a_worker_has_nothing_of_its_hosts_and_no_way_out(with_workers: Sandbox) -> None:
    process = Path(f"/proc/{with_workers.statistics().workers[0]}")
    status = (process / "status").read_text()
    assert "NoNewPrivs:\t1" in status
    environment = (process / "environ").read_bytes().split(b"\0")
    assert {entry.partition(b"=")[0] for entry in environment if entry} <= {b"PATH", b"LANG", b"LD_LIBRARY_PATH"}
    targets = {str(each.readlink()) for each in (process / "fd").iterdir()}
    assert sum(target.startswith("socket:") for target in targets) == 1
    assert all(target.startswith(("socket:", "/memfd:", "/dev/null", "/proc/")) for target in targets), targets


_ODD = """
import json, socket, struct, sys, time
job = json.loads(sys.argv[1])
sys.path[:] = job["path"]
from rho_wasm import plain
s = socket.socket(fileno=job["fd"])
f = s.makefile("rb")
def say(message):
    send(message if type(message) is bytes else plain.encode(message))
def send(body):
    s.sendall(struct.pack(">I", len(body)) + body)
def hear():
    (length,) = struct.unpack(">I", f.read(4))
    return f.read(length)
say({"ready": 1})
while (heard := hear())[0] != 1:
    pass
m = {"call": struct.unpack_from(">Q", heard, 1)[0]}
def answer(number, fuel=1, ms=0.0, answer=plain.encode({"ok": 2})):
    send(struct.pack(">BQQdd?", 2, number, fuel, ms, 0.0, False) + answer)
end = {"ended": m["call"], "answer": plain.encode({"ok": 2}), "fuel": 1, "ms": 0.0, "cpu_ms": 0.0, "refused": False}
"""
"""A worker that a guest has taken over."""


@pytest.mark.parametrize(
    ("does", "reason", "says"),
    [
        ("s.sendall(b'\\xff' * 64)", "killed", "more than its limits allow"),
        pytest.param("say(b'\\xff')", "killed", "no message", marks=pytest.mark.slow),
        pytest.param("say(end | {'fuel': 'much'})", "killed", "fuel is no int", marks=pytest.mark.slow),
        pytest.param("say(end | {'ended': m['call'] + 1})", "killed", "another call", marks=pytest.mark.slow),
        pytest.param("answer(m['call'] + 1)", "killed", "another call", marks=pytest.mark.slow),
        pytest.param("answer(m['call'], ms=float('nan'))", "killed", "less than nothing", marks=pytest.mark.slow),
        # Together: the second alone would be heard by nobody, and the worker replaced before the next call.
        pytest.param(
            "b = plain.encode(end); s.sendall(2 * (struct.pack('>I', len(b)) + b))",
            "killed",
            "out of turn",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "say({'call': m['call'], 'capability': 'clock', 'arguments': plain.encode({})})",
            "killed",
            "more than",
            marks=pytest.mark.slow,
        ),
        pytest.param("sys.exit(3)", "overloaded", "ended with code 3", marks=pytest.mark.slow),
        ("import os; os.abort()", "killed", "SIGABRT"),
        pytest.param("pass", "overloaded", "ended with code 0", marks=pytest.mark.slow),
        pytest.param("time.sleep(60)", "deadline", "did not stop it in time", marks=pytest.mark.slow),
    ],
)
async def test_a_worker_that_was_taken_over_is_not_believed_and_is_replaced(
    shared_cache: NativeCache, monkeypatch: pytest.MonkeyPatch, does: str, reason: str, says: str
) -> None:
    wasm = asking("clock")
    if reason == "deadline":
        monkeypatch.setattr(worker_call, "_GRACE_S", 1.0)
    async with Sandbox(cache=shared_cache) as sandbox:
        (await sandbox.load(wasm)).close()
    with monkeypatch.context() as patched:
        patched.setattr(worker_process, "PROGRAM", _ODD + does)
        sandbox = Sandbox(cache=shared_cache, workers=1)
        module = await sandbox.load(wasm)
        (first,) = await started(sandbox)
    with anyio.fail_after(SOON):
        ended = await called(sandbox, wasm, limits=Limits(deadline_ms=200 if reason == "deadline" else 60_000))
    assert ended.error is not None
    assert (ended.reason, says in ended.error.detail) == (reason, True), ended.error.detail
    assert ended.meter.guest_ms > 0
    assert (await called(sandbox, answering({"ok": 1}))).result == Ok(1)
    assert first not in sandbox.statistics().workers
    module.close()
    await sandbox.aclose()


@pytest.mark.slow
async def test_a_worker_that_is_deaf_to_cancellation_is_killed(
    shared_cache: NativeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = "say({'call': m['call'], 'capability': 'clock', 'arguments': plain.encode({})}); hear(); time.sleep(60)"
    monkeypatch.setattr(worker_process, "PROGRAM", _ODD + ask)
    monkeypatch.setattr(worker_call, "_GRACE_S", 1.0)
    asked = threading.Event()
    tells = Granting(lambda *_: asked.set())
    async with Sandbox(cache=shared_cache, workers=1) as sandbox:
        (pid,) = sandbox.statistics().workers
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: called(sandbox, asking("clock"), limits=ENDLESS, capabilities=tells))
                await until(asked.is_set)
                tasks.cancel_scope.cancel()
        assert pid not in sandbox.statistics().workers
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_worker_that_is_killed_for_its_silence_as_it_speaks_is_not_handed_to_the_next_call(
    shared_cache: NativeCache,
) -> None:
    wasm = answering({"ok": 1})
    async with Sandbox(cache=shared_cache, workers=1) as sandbox:
        assert (await called(sandbox, wasm)).result == Ok(1)
        pool = sandbox._pool
        assert pool is not None
        (worker,) = pool._workers
        lease = Lease()
        assert pool._take_idle(lease) is worker
        worker.until = 0.0
        pool._look_at(worker)
        pool.give_back(lease, keep=True)  # It was heard after all.
        assert pool._take_idle(Lease()) is None
        assert (await called(sandbox, wasm)).result == Ok(1)


def test_whoever_wakes_the_thread_that_watches_is_heard_though_it_was_about_to_end(
    shared_cache: NativeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_IDLE_LOOKS", 1)
    monkeypatch.setattr(workers, "_LOOK_S", 0.0)
    sandbox = Sandbox(cache=shared_cache, workers=1)
    pool = sandbox._pool
    assert pool is not None
    for _ in range(2):  # The first is heard, and the second comes while that thread looks for the last time.
        pool._doomed.put(None)
    pool._watch()
    assert pool._doomed.empty()
    assert not pool._watched
    anyio.run(sandbox.aclose)


async def test_workers_that_never_serve_are_not_started_for_ever(
    shared_cache: NativeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "PROGRAM", "raise SystemExit(3)")
    async with Sandbox(cache=shared_cache, workers=1) as sandbox:
        for _ in range(2):
            with anyio.fail_after(SOON):
                ended = await called(sandbox, answering({"ok": 1}))
            assert ended.error is not None
            assert (ended.reason, ended.error.limit) == ("overloaded", "workers")
            assert "ended before they served (with code 3)" in ended.error.detail
        assert sandbox.statistics().workers == ()


async def spin(sandbox: Sandbox, module: Any, meter: CallMeter) -> None:
    await sandbox.call(module, tool="t", arguments={}, context={}, limits=ENDLESS, meter=meter)


async def until(true: Callable[[], bool]) -> None:
    """Another process changes what is looked at, and tells nobody."""
    with anyio.fail_after(SOON):
        while not true():  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def started(sandbox: Sandbox) -> tuple[int, ...]:
    await sandbox.__aenter__()
    return sandbox.statistics().workers


async def kill_when_it_computes(pid: int) -> None:
    await until(lambda: computes(pid))
    os.kill(pid, signal.SIGKILL)


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def computes(pid: int) -> bool:
    """Whether it has used more of a processor than starting takes."""
    return cpu_ticks(pid) >= 1.5 * os.sysconf("SC_CLK_TCK")


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def open_files() -> set[str]:
    """What this process has open that stays open: event loops have their own."""
    folder = Path("/proc/self/fd")
    return {each.name for each in folder.iterdir()} if folder.exists() else set()


async def called_in_a_sandbox_of_its_own(cache: NativeCache) -> tuple[tuple[int, ...], str | None]:
    """The workers of a sandbox that was closed while it called a guest, and how that ended."""
    reasons: list[str | None] = []
    sandbox = Sandbox(cache=cache, workers=2)
    async with sandbox:
        pids = sandbox.statistics().workers

        async def call() -> None:
            reasons.append((await called(sandbox, SPIN, limits=ENDLESS)).reason)

        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await until(lambda: sandbox.statistics().running == 1)
                await sandbox.aclose()
    return pids, reasons[0]
