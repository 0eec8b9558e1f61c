"""The benchmarks run, and their table and JSON have the shape that scripts read. Time is no test's matter."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from rho_wasm import Host
from tests.benchmarks.compare import compare
from tests.benchmarks.jobs import ECHO, LOOP, after
from tests.benchmarks.measure import Pace
from tests.benchmarks.peers import OURS, PEERS
from tests.benchmarks.report import Report, table

TINY = Pace(rounds=1, block_s=0.0, most=2)
ELSEWHERE = dict.fromkeys(("extism", "extism_reused"), "its engine would take SIGSEGV from the tests after this one")


async def test_every_peer_has_figures_or_says_why_not_in_table_and_json() -> None:
    async with Host.open(":memory:") as host:
        alone = await compare(host, ECHO, callers=1, pace=TINY, without=ELSEWHERE)
        pair = await compare(host, ECHO, callers=2, pace=TINY, without=ELSEWHERE | {"python_subprocess": "left out"})
        report = Report(groups=[alone, pair], sandbox=host.sandbox.statistics())
    told = json.loads(json.dumps(report.as_json()))

    assert set(alone.figures) == {peer.name for peer in PEERS} - set(ELSEWHERE)
    assert list(told["groups"]) == ["echo_1k", "echo_1k_callers_2"]
    for figures in told["groups"]["echo_1k"].values():
        assert {"min_us", "median_us", "p99_us", "calls_per_s", "samples"} <= set(figures)
        assert all(number > 0 for number in figures.values())
    assert OURS in told["groups"]["echo_1k_callers_2"]
    assert told["absent"]["echo_1k_callers_2"]["python_subprocess"] == "left out"
    assert told["versions"]["wasmtime"] != "absent"
    assert told["machine"]["way"]

    lines = list(table(report))
    for peer in PEERS:
        assert any(line.split()[:1] == [peer.name] for line in lines), peer.name
    assert any(line.startswith("aim: a whole call under") for line in lines)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_extism_does_the_job_or_is_named_as_absent(name: str) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.resident", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if importlib.util.find_spec("extism") is None:
        assert "extism is not installed" in done.stderr
        assert done.returncode == 1
    else:
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) > 0


def test_the_answer_of_the_loop_is_what_turning_gives() -> None:
    for turns in (0, 1, 2, 1_000, 12_345):
        assert after(turns) == LOOP.python(str(turns))
