"""``python -m tests.benchmarks [--quick] [--json FILE]``: what a guest call costs, beside plain wasmtime-py."""

from __future__ import annotations

import argparse
import json
import platform
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import cbor2
import wasmtime

from rho_wasm import Artifact, Host, HostLimits, Limits, Policy, StrikePolicy, ToolCall
from rho_wasm.resources import fixture
from tests.benchmarks.measure import Figures, rss_bytes, sample, sample_sync

REQUEST = {"text": "x" * 1000}


def artifact(name: str) -> Artifact:
    return Artifact.from_wasm(fixture(f"{name}.wasm").read_bytes())


def plain_wasmtime() -> Callable[[], object]:
    """The floor of the public bindings: a fresh store and instance, CBOR both ways, no limits kept."""
    config = wasmtime.Config()
    config.consume_fuel = True
    config.epoch_interruption = True
    engine = wasmtime.Engine(config)
    module = wasmtime.Module(engine, fixture("echo.wasm").read_bytes())
    linker = wasmtime.Linker(engine)
    prepared = linker.instantiate_pre(module)

    def call() -> object:
        store = wasmtime.Store(engine)
        store.set_fuel(1_000_000_000)
        store.set_epoch_deadline(1_000_000)
        exports = prepared.instantiate(store).exports(store)
        request = cbor2.dumps({"abi": 1, "tool": "echo", "arguments": REQUEST, "context": {}})
        pointer = exports["rho_alloc"](store, len(request)) & 0xFFFFFFFF  # type: ignore[operator]
        memory = exports["memory"]
        assert isinstance(memory, wasmtime.Memory)
        memory.write(store, request, pointer)
        answer = exports["rho_call"](store, pointer, len(request))  # type: ignore[operator]
        start, size = (answer >> 32) & 0xFFFFFFFF, answer & 0xFFFFFFFF
        value = cbor2.loads(bytes(memory.read(store, start, start + size)))
        store.close()
        return value

    return call


async def switch_on(host: Host, *names: str) -> float:
    """Stages and activates fixtures; answers the seconds from ``activate`` on to its end."""
    candidate = await host.source.stage(add=[artifact(name) for name in names], author="benchmark")
    start = time.perf_counter()
    await host.source.activate(candidate)
    return time.perf_counter() - start


async def whole_way(count: int) -> tuple[Figures, Figures]:
    """The echo guest from registry to result, then two callers at once."""
    async with Host.open(":memory:") as host:
        await switch_on(host, "echo")
        offered = host.registry.snapshot()
        call = ToolCall(id="1", name="echo", arguments=REQUEST)

        async def once() -> None:
            result = await host.runner.run(call, tools=offered)
            assert result.ok, result

        one = await sample(once, count)
        took: list[float] = []

        async def caller(calls: int) -> None:
            for _ in range(calls):
                start = time.perf_counter()
                await once()
                took.append(time.perf_counter() - start)

        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(caller, count // 2)
        two = Figures.of(took, time.perf_counter() - began)
        return one, two


async def memory(count: int) -> dict[str, float]:
    """RSS before and after ``count`` calls."""
    async with Host.open(":memory:") as host:
        await switch_on(host, "echo")
        offered = host.registry.snapshot()
        call = ToolCall(id="1", name="echo", arguments=REQUEST)
        for _ in range(1_000):
            await host.runner.run(call, tools=offered)
        before = rss_bytes()
        for _ in range(count):
            await host.runner.run(call, tools=offered)
        after = rss_bytes()
    return {"calls": count, "before_mib": before / 2**20, "after_mib": after / 2**20}


async def first_answer(repeats: int) -> dict[str, float]:
    """Milliseconds from ``activate`` to the first answered call: compiled before, and compiled for the first time."""
    warm: list[float] = []
    for _ in range(repeats):
        async with Host.open(":memory:") as host:
            candidate = await host.source.stage(add=[artifact("echo")], author="benchmark")
            start = time.perf_counter()
            await host.source.activate(candidate)
            await host.runner.run(ToolCall(id="1", name="echo", arguments=REQUEST))
            warm.append((time.perf_counter() - start) * 1e3)
    return {"first_ms": warm[0], "median_ms": sorted(warm)[len(warm) // 2]}


async def stop_times(repeats: int, busy: int) -> dict[str, float]:
    """Milliseconds past a 200 ms deadline until a spinning guest has ended, with ``busy`` Python threads beside it."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=spin, daemon=True) for _ in range(busy)]
    limits = HostLimits(call=Limits(deadline_ms=200, fuel=10**15))
    late: list[float] = []
    lenient = Policy(strikes=StrikePolicy(limit=repeats + 1))
    async with Host.open(":memory:", limits=limits, policy=lenient) as host:
        await switch_on(host, "spin")
        for thread in threads:
            thread.start()
        try:
            for number in range(repeats):
                start = time.perf_counter()
                result = await host.runner.run(ToolCall(id=str(number), name="spin", arguments={}))
                assert result.reason == "deadline", result
                late.append((time.perf_counter() - start) * 1e3 - 200)
        finally:
            stop.set()
    return {"median_ms": sorted(late)[len(late) // 2], "max_ms": max(late)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer samples: ends within 50 seconds")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there")
    options = parser.parse_args()
    count = 1_000 if options.quick else 5_000
    report: dict[str, Any] = {
        "versions": {"python": platform.python_version(), "wasmtime": version("wasmtime"), "cbor2": version("cbor2")}
    }

    floor_before = sample_sync(plain_wasmtime(), count)
    one, two = anyio.run(whole_way, count)
    floor_after = sample_sync(plain_wasmtime(), count)
    floor = min(floor_before.median_us, floor_after.median_us)
    report["groups"] = {
        "echo_1k": {
            "rho_wasm": one.as_json(),
            "rho_wasm_two_callers": two.as_json(),
            "wasmtime_py": floor_after.as_json(),
        }
    }
    print(f"{'echo, 1 KB, fresh instance':40} {'median':>10} {'p99':>10} {'calls/s':>10} {'ratio':>7}")
    for name, figures in (
        ("rho_wasm, registry to result", one),
        ("  the same, two callers at once", two),
        ("plain wasmtime-py, no limits kept", floor_after),
    ):
        print(
            f"{name:40} {figures.median_us:8.0f}us {figures.p99_us:8.0f}us {figures.calls_per_s:10.0f} "
            f"{figures.median_us / floor:7.2f}"
        )

    report["first_answer"] = anyio.run(first_answer, 3 if options.quick else 9)
    first = report["first_answer"]
    print(f"activate to first answer: first {first['first_ms']:.1f} ms, median {first['median_ms']:.1f} ms")
    for busy in (0, 4):
        report[f"stop_busy_{busy}"] = late = anyio.run(stop_times, 6 if options.quick else 20, busy)
        print(
            f"past a 200 ms deadline, {busy} busy threads: "
            f"median {late['median_ms']:.1f} ms, most {late['max_ms']:.1f} ms"
        )
    report["memory"] = anyio.run(memory, 5_000 if options.quick else 100_000)
    print("RSS over {calls} calls: {before_mib:.1f} -> {after_mib:.1f} MiB".format(**report["memory"]))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
