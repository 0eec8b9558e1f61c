"""The figures of MCP have the shape that scripts read, and no call is lost. Time is no test's matter."""

from __future__ import annotations

import importlib.util
import json

import pytest

from tests.benchmarks.guests import Absent
from tests.benchmarks.mcp import IN_FLIGHT, added_latency, many_clients, protocol_versions
from tests.benchmarks.measure import Pace
from tests.benchmarks.report import Report, table
from tests.server.serving import NEWEST, OLDER

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """Of the clients; servers are processes of their own."""
    return "asyncio"


async def test_each_way_has_figures_beside_the_bare_sdk_and_each_call_its_answer_in_table_and_json() -> None:
    versions = protocol_versions()
    assert list(versions) == [NEWEST, OLDER]
    report = Report()
    report.mcp |= await added_latency(Pace(rounds=1, block_s=0.0, most=2), {NEWEST: versions[NEWEST]})
    report.mcp_clients |= await many_clients(2, versions)
    told = json.loads(json.dumps(report.as_json()))["figures"]["mcp"]
    assert set(told["latency"]) == {f"stdio {NEWEST}", f"http {NEWEST}"}
    for figures in told["latency"].values():
        # What is added is a difference of two times of this machine, which may have been busy during either.
        added = {name: figures.pop(name) for name in ("added_us", "added_min_us")}
        assert all(number > 0 for number in figures.values())
        for name, number in added.items():
            of_two = [figures[name.replace("added", way)] for way in ("rho_wasm", "direct")]
            assert number == pytest.approx(of_two[0] - of_two[1], abs=0.2)
    servers = ("rho_wasm", "mcpserver", "lowlevel")
    assert set(told["many_clients"]) == {f"{version} {name}" for version in versions for name in servers}
    for counts in told["many_clients"].values():
        assert (counts["answered"], counts["lost"]) == (2 * IN_FLIGHT, 0)
    lines = list(table(report))
    assert len([line for line in lines if line.startswith("echo through MCP, ")]) == 2
    assert len([line for line in lines if line.startswith("many clients of MCP, ")]) == 6


def test_without_the_package_it_is_named_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Absent, match="mcp is not installed"):
        protocol_versions()
