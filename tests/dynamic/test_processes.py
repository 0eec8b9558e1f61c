"""Several processes on one store, and processes that are killed."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from rho_wasm.dynamic.generation import ToolVersion, VersionKey
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import CallKey, Quarantine, Strike
from rho_wasm.errors import GenerationConflict
from rho_wasm.events import GenerationSwitched, ToolQuarantined
from rho_wasm.sandbox import NativeCache
from tests.dynamic.bench import open_bench
from tests.dynamic.guests import TRAPS, artifact
from tests.dynamic.processes import WAIT_S, answer_of_process, begin


def opened(folder: Path) -> Store:
    return Store.open(folder, busy_ms=WAIT_S * 1_000, key_path=folder.parent / "keys" / "store.key")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def make_live(folder: Path, tool: str, salt: int) -> int:
    """What another host does: puts an artifact of one tool and makes it live. Answers the generation's number."""
    built = artifact(tool, salt=salt)
    with opened(folder) as store:
        store.put(built)
        candidate = store.history.stage({tool: ToolVersion(built.sha256)}, (), author="another", note="")
        return store.history.activate(candidate.number).live.number


def quarantine(folder: Path, tool: str, sha256: str) -> None:
    with opened(folder) as store:
        version = VersionKey(tool, sha256)
        store.quarantine(Quarantine(version=version, generation=1, at=store.clock(), reasons=("trapped",)))


def strike(folder: Path, tool: str, sha256: str, times: int) -> None:
    with opened(folder) as store:
        version = VersionKey(tool, sha256)
        store.records.add(
            [
                Strike(
                    version=version,
                    generation=1,
                    reason="trapped",
                    call=CallKey(f"another's {number}"),
                    at=store.clock(),
                )
                for number in range(times)
            ],
            {},
        )


@pytest.mark.anyio
async def test_a_switch_of_another_process_is_offered_and_told_here(folder: Path, cache: NativeCache) -> None:
    with opened(folder) as store:
        async with open_bench(cache, store=store) as bench:
            await anyio.to_thread.run_sync(answer_of_process, make_live, folder, "calc", 0)
            event = await bench.until_told(GenerationSwitched)
            assert event == GenerationSwitched(number=1, previous=0, author="another", added=("calc",))
            assert bench.threads == {threading.get_ident()}
            result = await bench.call("calc")
            assert (result.value, result.generation) == ("done", 1)


@pytest.mark.anyio
async def test_a_quarantine_of_another_process_holds_here(folder: Path, cache: NativeCache) -> None:
    built = artifact("calc")
    with opened(folder) as store:
        async with open_bench(cache, store=store) as bench:
            await bench.go(built)
            shown = bench.registry.snapshot()
            await anyio.to_thread.run_sync(answer_of_process, quarantine, folder, "calc", built.sha256)
            event = await bench.until_told(ToolQuarantined)
            assert (event.tool, event.artifact, event.replaced_by) == ("calc", built.sha256, None)
            assert (await bench.call("calc", tools=shown)).reason == "quarantined"
            assert bench.source.list() == ()
            assert bench.source.live().author == "strikes"


@pytest.mark.anyio
async def test_strikes_of_another_process_count_here(folder: Path, cache: NativeCache) -> None:
    built = artifact("calc", body=TRAPS)
    with opened(folder) as store:
        async with open_bench(cache, store=store) as bench:
            await bench.go(built)
            await bench.crash("calc")
            await anyio.to_thread.run_sync(answer_of_process, strike, folder, "calc", built.sha256, 2)
            event = await bench.until_told(ToolQuarantined)
            assert event.artifact == built.sha256
            assert (await bench.call("calc")).kind == "refused"


@pytest.mark.anyio
async def test_a_pardon_of_another_process_holds_here(folder: Path, cache: NativeCache) -> None:
    built = artifact("calc", body=TRAPS)
    with opened(folder) as store:
        async with open_bench(cache, store=store) as bench:
            await bench.go(built)
            shown = bench.registry.snapshot()
            await bench.crash("calc", times=3)
            await anyio.to_thread.run_sync(answer_of_process, pardon, folder, "calc")
            with anyio.fail_after(WAIT_S):
                while (await bench.call("calc", tools=shown)).reason == "quarantined":  # noqa: ASYNC110 - no event
                    await anyio.sleep(0.01)
            await bench.crash("calc", tools=shown)


def pardon(folder: Path, tool: str) -> None:
    with opened(folder) as store:
        store.records.pardon(tool)


def race(connection: Connection, folder: Path, salt: int) -> None:
    with opened(folder) as store:
        built = artifact("calc", salt=salt)
        store.put(built)
        candidate = store.history.stage({"calc": ToolVersion(built.sha256)}, (), author=f"{salt}", note="")
        connection.send("ready")
        connection.recv()
        try:
            store.history.activate(candidate.number)
        except GenerationConflict as error:
            connection.send(error.reason)
        else:
            connection.send("live")


def test_of_processes_that_switch_one_tool_at_once_one_wins(folder: Path) -> None:
    opened(folder).close()
    others = [begin(race, folder, salt) for salt in range(4)]
    for _, connection in others:
        assert connection.poll(WAIT_S)
        assert connection.recv() == "ready"
    for _, connection in others:
        connection.send("go")
    ended = []
    for process, connection in others:
        assert connection.poll(WAIT_S)
        ended.append(connection.recv())
        process.join(WAIT_S)
    assert Counter(ended) == {"live": 1, "generation_conflict": 3}
    with opened(folder) as store:
        assert [generation.state for generation in store.generations()].count("live") == 1


def work_until_killed(connection: Connection, folder: Path, seed: int) -> None:
    """Stages, activates, strikes, quarantines and rolls back, and says after each what is certain to be kept."""
    chance = random.Random(seed)
    with opened(folder) as store:
        for number in range(10_000):
            built = artifact("calc", salt=seed * 10_000 + number)
            store.put(built)
            candidate = store.history.stage({"calc": ToolVersion(built.sha256)}, (), author="model", note="")
            switched = store.history.activate(candidate.number)
            connection.send(("switched", switched.id))
            version = VersionKey("calc", built.sha256)
            call = CallKey(f"{seed}.{number}")
            made = Strike(version=version, generation=candidate.number, reason="trapped", call=call, at=store.clock())
            store.records.add([made], {(version, 1): 1})
            connection.send(("struck", f"{seed}.{number}"))
            if chance.random() < 0.3:
                reverted = store.quarantine(Quarantine(version=version, generation=candidate.number, at=store.clock()))
                connection.send(("quarantined", built.sha256))
                assert reverted is not None
                connection.send(("switched", reverted.id))


@pytest.mark.parametrize("kills", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_a_host_killed_at_any_moment_comes_back_with_what_was_there(folder: Path, kills: int) -> None:
    chance = random.Random(7)
    switched, struck, quarantined = 0, set[str](), set[str]()
    opened(folder).close()
    for kill in range(kills):
        process, connection = begin(work_until_killed, folder, kill)
        for message in range(chance.randrange(1, 12)):
            assert connection.poll(WAIT_S), (kill, message)
            what, value = connection.recv()
            switched = max(switched, value) if what == "switched" else switched
            struck |= {value} if what == "struck" else set()
            quarantined |= {value} if what == "quarantined" else set()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(WAIT_S)
        assert process.exitcode == -signal.SIGKILL
        connection.close()
        with opened(folder) as store:
            generations = store.generations()
            assert [generation.number for generation in generations] == list(range(len(generations)))
            assert [generation.state for generation in generations].count("live") == 1
            latest, live = store.history.live_switch()
            assert latest >= switched
            if latest:
                assert store.switches(limit=1)[0].number == live.number
            for tool, version in live.tools.items():
                assert store.artifact(version.artifact).tools == (tool,)
            assert {made.call.call_id for made in store.strikes()} >= struck
            held = {made.version.artifact for made in store.quarantines()}
            assert held >= quarantined
            assert not {version.artifact for version in live.tools.values()} & held
