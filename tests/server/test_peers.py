"""Held against the protocol's own programs: the conformance suite's scenarios for tools, and the inspector."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.server.peers import NEXT, STABLE, conformance, inspector, node
from tests.server.test_program import program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOOLS = frozenset(
    {
        *("tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-error", "tools-call-with-progress"),
        *("server-sse-multiple-streams", "dns-rebinding-protection"),
    }
)
HANDSHAKE = TOOLS | {"server-initialize", "ping", "tools-call-elicitation"}
NEWEST = TOOLS | {
    *("http-header-validation", "http-custom-header-server-validation", "json-schema-2020-12"),
    *("input-required-result-missing-input-response", "input-required-result-result-type"),
    *("input-required-result-unsupported-methods", "input-required-result-tampered-state"),
    *("input-required-result-ignore-extra-params", "input-required-result-validate-input"),
}
NOT_HERE = re.compile(
    # What this server does not have, or leaves to its clients.
    r"(prompts|resources|completion|logging|tasks|sep-2640)-.*|caching"
    # Content that tools here do not answer, and what a client would be asked for beside a person's word.
    r"|tools-call-(audio|embedded-resource|mixed-content|with-logging|sampling)"
    # Forms of more fields than the one answer that a question has here, told apart by names that the suite chose.
    r"|elicitation-sep(1034|1330)-.*|input-required-result-(basic|request|multi|multiple|non-tool|capability)-.*"
    # All but its diagnostic tools, which stand for sampling, logging and prompts.
    r"|server-stateless"
)
"""Scenarios that may fail, and why."""
_SUMMARY = re.compile(r"^([✓✗]) ([\w-]+): (\d+) passed, (\d+) failed", re.MULTILINE)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server with the tools that the suite calls."""
    command = [sys.executable, "-m", "tests.server.everything"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()
        assert process.wait(60) == 0


def scenarios(suite: str, url: str, *options: str) -> Mapping[str, tuple[int, int]]:
    """How many checks of each scenario passed and failed."""
    command = [node(), str(conformance(suite)), "server", "--url", url, *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    found = _SUMMARY.findall(ended.stdout)
    assert found, ended.stdout[-2_000:] + ended.stderr[-2_000:]
    return {name: (int(passed), int(failed)) for _, name, passed, failed in found}


@pytest.mark.parametrize(
    ("suite", "options", "wanted"),
    [
        (STABLE, (), HANDSHAKE),
        (NEXT, ("--requirements", "2025-11-25"), HANDSHAKE | {"server-session-lifecycle", "json-schema-2020-12"}),
        (NEXT, ("--requirements", "2026-07-28"), NEWEST),
    ],
)
def test_the_conformance_suite_passes_for_tools(
    url: str, suite: str, options: tuple[str, ...], wanted: frozenset[str]
) -> None:
    found = scenarios(suite, url, *options)
    failing = {name for name, (_, failed) in found.items() if failed}
    assert wanted <= found.keys() - failing
    assert {name for name in failing if NOT_HERE.fullmatch(name) is None} == set()
    if "server-stateless" in found:
        passed, failed = found["server-stateless"]
        assert (passed >= 25, failed <= 4) == (True, True)


def inspected(tmp_path: Path, target: list[str], *options: str) -> Any:
    command = [node(), str(inspector()), "--cli", *options, "--", *target]
    environment = {**os.environ, "HOME": str(tmp_path)}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment, stdin=subprocess.DEVNULL
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    return json.loads(ended.stdout)


def test_the_inspector_lists_and_calls_tools_over_stdio(tmp_path: Path) -> None:
    serving = program(tmp_path / "store")
    listed = inspected(tmp_path, serving, "--method", "tools/list")
    assert [tool["name"] for tool in listed["tools"]] == ["read_artifact", "todo"]
    called = inspected(
        tmp_path, serving, "--method", "tools/call", "--tool-name", "todo", "--tool-arg", 'items=[{"text":"inspect"}]'
    )
    assert called["content"] == [{"type": "text", "text": "1. [ ] inspect"}]


def test_the_inspector_lists_and_calls_tools_over_http(tmp_path: Path, url: str) -> None:
    listed = inspected(tmp_path, [url], "--method", "tools/list")
    assert "test_simple_text" in {tool["name"] for tool in listed["tools"]}
    called = inspected(tmp_path, [url], "--method", "tools/call", "--tool-name", "test_image_content")
    assert [block["type"] for block in called["content"]] == ["text", "image"]
