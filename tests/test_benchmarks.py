"""The benchmarks run, and their table and JSON have the shape that scripts read. Time is no test's matter."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rho_wasm import Host
from tests.benchmarks.alone import alone
from tests.benchmarks.compare import Group, compare
from tests.benchmarks.guests import Absent
from tests.benchmarks.jobs import ECHO, LOOP, after
from tests.benchmarks.language_jobs import LANGUAGE_JOBS, LANGUAGES, Language, language_job
from tests.benchmarks.measure import Figures, Pace
from tests.benchmarks.peers import OURS, PEERS
from tests.benchmarks.peers.languages import language_peers
from tests.benchmarks.report import Report, table
from tests.benchmarks.sections import ALL_OF, SECTIONS
from tests.benchmarks.sizes import QUICK
from tests.benchmarks.steady import WATCHED

TINY = Pace(rounds=1, block_s=0.0, most=2)
IN_SLOW_TESTS = (OURS, "modebox", "python_subprocess", "node_subprocess")
"""Engines have to be made, modebox would take SIGSEGV, and processes take long to start."""
TOOLS_FIGURES = (
    "tools",
    "held",
    "tool_kib",
    "rss_one_mib",
    "rss_all_mib",
    "first_calls_ms",
    "build_s",
    "stage_s",
)
ELSEWHERE = dict.fromkeys(("extism", "extism_reused"), "its engine would take SIGSEGV from the tests after this one")


async def test_every_peer_has_figures_or_says_why_not_in_table_and_json() -> None:
    async with Host.open(":memory:") as host:
        alone = await compare(host, ECHO, callers=1, pace=TINY, peers=PEERS, without=ELSEWHERE)
        pair = await compare(
            host, ECHO, callers=2, pace=TINY, peers=PEERS, without=ELSEWHERE | {"python_subprocess": "left out"}
        )
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


@pytest.mark.slow
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


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("tool", ["tiny", "words_260", "json_10k"])
async def test_the_peers_of_a_language_come_to_the_same_or_say_why_not(tool: str, language: Language) -> None:
    for peer in language_peers(language):
        if peer.name in IN_SLOW_TESTS:
            continue
        with contextlib.suppress(Absent):
            contender = await peer.enter(None, language_job(tool, language), 1)
            assert len((await contender.block(2)).samples) == 2
            contender.close()


def test_the_texts_of_the_language_jobs_are_as_large_as_their_names_say() -> None:
    jobs = {tool: language_job(tool, "python") for tool in LANGUAGE_JOBS}
    assert len(jobs["words_260"].text.split()) == 260
    assert 10_000 <= len(jobs["json_10k"].text) < 10_500
    assert 100_000 <= len(jobs["regex_100k"].text) < 100_200
    assert jobs["loop_1m"].answer == after(10**6)


def test_aims_and_what_has_no_figures_are_lines_of_the_table() -> None:
    medians = {OURS: 300.0, "modebox": 600.0}
    figures = {name: Figures(10, median, median, median, 1e6 / median) for name, median in medians.items()}
    report = Report(
        groups=[Group(name, name, figures, {}) for name in ("javascript_tiny", "javascript_words_260")],
        builds={"python": "absent: no engine"},
        many_tools={"python": dict.fromkeys(TOOLS_FIGURES, 500.0) | {"tools": 1_000}},
    )
    lines = list(table(report))

    assert "aim: javascript_tiny under 350 us: 300.0 us, reached" in lines
    assert "aim: javascript_words_260 faster than every peer in WebAssembly: 2.00 times modebox, reached" in lines
    assert "aim: 1,000 Python tools in 400 MiB: 500 MiB, NOT reached" in lines
    assert "tool built, python: absent: no engine" in lines
    assert any(line.startswith("many tools, python: 1,000 (500.0 in memory)") for line in lines)


def test_a_quick_run_leaves_out_only_what_there_is() -> None:
    assert set(QUICK.left_out) <= set(SECTIONS)
    assert set(QUICK.skips) <= {*SECTIONS, *LANGUAGE_JOBS}
    assert all(name in SECTIONS for names in ALL_OF.values() for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("what", WATCHED)
def test_memory_and_descriptors_are_watched_over_calls_of_every_way(what: str) -> None:
    try:
        told = alone("steady", what, "50")
    except Absent as absent:
        pytest.skip(str(absent))
    assert told["calls"] == 50
    assert told["descriptors_after"] == told["descriptors_before"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tools_in_python_and_javascript_are_measured_beside_their_peers(tmp_path: Path) -> None:
    told_in = tmp_path / "told.json"
    command = [sys.executable, "-m", "tests.benchmarks", "--quick", "--json", str(told_in)]
    for section in ("languages", "languages_tools"):
        command += ["--only", section]
    subprocess.run(command, check=True)
    told = json.loads(told_in.read_text())

    for language in LANGUAGES:
        for tool in ("tiny", "words_260", "json_10k", "regex_100k"):
            group = f"{language}_{tool}"
            assert group in told["left_out"] or OURS in told["groups"][group] or OURS in told["absent"][group]
    figures = told["figures"]["languages"]
    assert set(figures["build"]) == set(figures["first_call"]) == set(LANGUAGES)
    assert set(figures["tools"]) == {"python"}


@pytest.mark.slow
def test_an_engine_is_made_and_compiled_in_an_empty_folder() -> None:
    try:
        told = alone("install", "javascript")
    except Absent as absent:
        pytest.skip(str(absent))
    assert told["install_s"] >= told["make_s"] > 0
    assert told["engine_mib"] > 0
