"""README is true: its commands and snippets run as printed, its tests exist, its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from rho_wasm.cli.app import run
from tests.weather_server import PORT, weather_server

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    language: str
    file: str
    text: str
    section: str


def blocks() -> Iterator[Block]:
    section = language = file = ""
    lines: list[str] | None = None
    for line in README.splitlines():
        if lines is not None:
            if line == "```":
                yield Block(language, file, "\n".join(lines) + "\n", section)
                lines = None
            else:
                lines.append(line)
        elif line.startswith("```"):
            language, _, file = line[3:].partition(" ")
            lines = []
        elif line.startswith("## "):
            section = line[3:]


def of_section(section: str, language: str) -> list[Block]:
    found = [block for block in blocks() if block.section == section and block.language == language]
    assert found, f"README has no {language} in the section {section!r}"
    return found


def lay_files(folder: Path) -> None:
    for block in blocks():
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def command_here(line: str) -> list[str]:
    """A line as printed, but with this environment's programs in place of those in ``.venv``."""
    programs = Path(sys.executable).parent
    return [part.replace(".venv/bin/", f"{programs}{os.sep}") for part in shlex.split(line)]


def run_here(line: str, folder: Path, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a line as printed, in ``folder``."""
    command = command_here(line)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RHO_WASM_")}
    environment |= variables or {}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def test_every_command_after_the_set_up_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lay_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RHO_WASM_")]:
        monkeypatch.delenv(name)
    lines = [
        line
        for section in ("From a source to an answer", "What an operator decides")
        for block in of_section(section, "sh")
        for line in block.text.splitlines()
    ]
    ran = [line for line in lines if "/pip install" not in line]  # What it installs is what this test runs on.
    assert len(lines) - len(ran) == 1
    greeting = """.venv/bin/rho-wasm call greet.wasm greet --arguments '{"name": "Ada"}'"""
    assert greeting in ran
    for line in ran:
        program, *arguments = shlex.split(line)
        assert program == ".venv/bin/rho-wasm"
        code = run(arguments)  # What that program does, in this process: starting one takes longer than most commands.
        printed = capsys.readouterr()
        assert code == 0, f"{line}\n{printed.out}{printed.err}"
        assert "Traceback" not in printed.err
        assert line != greeting or '{"greeting":"hello","name":"Ada"}' in printed.out


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_for_other_languages_run_as_printed(tmp_path: Path) -> None:
    [block] = of_section("Tools in other languages", "sh")
    for line in block.text.splitlines():
        ended = run_here(line, tmp_path)
        assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
        assert "Traceback" not in ended.stderr


def test_the_program_runs_as_printed(tmp_path: Path) -> None:
    [program] = of_section("In your own program", "python")
    (tmp_path / "program.py").write_text(program.text)
    ended = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ.copy()
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"^ok 42 \d+ 1$", ended.stdout, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_a_tool_may_touch_is_as_printed(tmp_path: Path) -> None:
    """The server is a test's own, on a free port, and what is printed runs with that port in it."""
    section = "What a tool may touch"
    before, after = (block.text.splitlines() for block in of_section(section, "sh"))
    program, own = (block.text for block in of_section(section, "python"))
    [policy] = of_section(section, "toml")
    assert policy.text in (ROOT / "fixtures" / policy.file).read_text(encoding="utf-8")
    install, check, explain, serve = before
    assert "pip install" in install
    assert f"http.server {PORT} " in serve
    (tmp_path / "fixtures").mkdir()
    with weather_server() as server:
        for name in ("weather.c", "weather_v2.c", "weather_policy.toml"):
            (tmp_path / "fixtures" / name).write_text(server.fixture(name), encoding="utf-8")
        (tmp_path / "program.py").write_text(program, encoding="utf-8")
        printed = {}
        for line in (check, explain, ".venv/bin/python program.py", *after):
            ended = run_here(line, tmp_path)
            assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
            printed[line] = ended.stdout
        assert server.asked == ["/Oslo.json", "/Atlantis.json", "/Oslo.json"]
    said = re.findall(r"  # (\w.*|\.\.\. .* \.\.\.)$", program, re.MULTILINE)
    expected = [text for text in said if not text.startswith("means ")]
    got = printed[".venv/bin/python program.py"].splitlines()
    assert len(got) == len(expected) == 4
    for line, text in zip(got, expected, strict=True):
        assert text.strip(". ") in line
    assert "Atlantis" in printed[after[1]]
    assert "http.fetch" in printed[explain]
    made: dict[str, Any] = {}
    exec(own, made)
    assert made["lookup"].name == "invoice.lookup"


def test_the_limits_in_the_readme_are_those_of_a_host_and_its_grant_of_a_programs_capability_is_one() -> None:
    from rho_wasm import Limits, Policy, capability
    from rho_wasm.limits import MIB

    limits, told = Limits(), " ".join(README.split())
    has = f"{limits.fuel:,} units of fuel (about half a second of arithmetic), {limits.deadline_ms // 1000} s and"
    assert f"{has} {limits.memory_bytes // MIB} MiB, and its request and its answer" in told
    assert limits.request_bytes == limits.answer_bytes == MIB

    @capability("invoice.lookup", read_only=True)
    async def lookup(number: str) -> str:
        return number

    [(line, table)] = re.findall(r"in a policy `(.*?)` under `\[(.*?)\]`", told)
    policy = Policy.parse(tomllib.loads(f"[{table.replace('NAME', 'bill')}]\n{line}"), capabilities=[lookup])
    assert list(policy.grants_for("bill")) == ["invoice.lookup"]


def test_the_figures_of_engines_in_the_readme_are_those_that_hold() -> None:
    from rho_wasm import HostLimits
    from rho_wasm.limits import MIB
    from rho_wasm.toolchains.engines import cpython, quickjs, typescript

    limits = HostLimits()
    call, told = limits.engine_call, " ".join(README.split())
    assert f"{call.fuel:,} units of fuel, {call.deadline_ms // 1000} s and {call.memory_bytes // MIB} MiB" in told
    assert f"loading a source {limits.loading().fuel:,}" in told
    assert f"at most {limits.image_bytes // MIB} MiB" in told
    for file in (cpython.SPEC, quickjs.SPEC, typescript.STRIPPER):
        assert f"`{file.distribution}` {file.version}" in told


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tools_in_python_and_javascript_work_as_printed(made_engines: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    [block] = of_section("Tools in Python and JavaScript", "sh")
    install, *lines = block.text.splitlines()
    assert "python,javascript" in install
    printed = {}
    for line in lines:
        ended = run_here(line, tmp_path, made_engines)
        assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
        printed[line] = ended.stdout
    reports = [text for line, text in printed.items() if " call " in line]
    assert reports[0] == reports[1]
    assert "requests: 317, clients: 8" in reports[0]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_program_with_a_tool_in_python_runs_as_printed(made_engines: Mapping[str, str], tmp_path: Path) -> None:
    [program] = of_section("Tools in Python and JavaScript", "python")
    (tmp_path / "program.py").write_text(program.text)
    ended = run_here(".venv/bin/python program.py", tmp_path, made_engines)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "ok AL\n"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_mcp_client_goes_the_whole_way_as_printed(made_engines: Mapping[str, str], tmp_path: Path) -> None:
    """By the line of its configuration, and what is printed for HTTP serves what was written then, on a free port."""
    section = "With an MCP client"
    (install, engines), (serve,) = (block.text.splitlines() for block in of_section(section, "sh"))
    assert "mcp,python" in install
    lay_files(tmp_path)
    [program] = of_section(section, "python")
    (tmp_path / "program.py").write_text(program.text, encoding="utf-8")
    # The SDK hands only some variables on, so the program that is there as printed is one with this user's engines.
    own = tmp_path / ".venv" / "bin" / "rho-wasm"
    own.parent.mkdir(parents=True)
    variables = " ".join(shlex.quote(f"{name}={value}") for name, value in made_engines.items())
    own.write_text(f'#!/bin/sh\nexec env {variables} {shlex.join(command_here(".venv/bin/rho-wasm"))} "$@"\n')
    own.chmod(0o755)
    assert run_here(engines, tmp_path, made_engines).returncode == 0
    ended = run_here(".venv/bin/python program.py", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    *tested, answer = ended.stdout.splitlines()
    (wrong,), (right,) = (json.loads(line)["cases"] for line in tested)
    [said] = re.findall(r"  # first: ([\w :]+), and the line$", program.text, re.MULTILINE)
    assert said == wrong["message"]
    assert any('name.split(" ")' in line for line in wrong["backtrace"])
    assert right["passed"] is True
    assert f"  # {answer}\n" in program.text
    with subprocess.Popen(
        [*command_here(serve), "--port", "0", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        try:
            assert "initials" in anyio.run(tools_at, json.loads(serving.stdout.readline())["url"])
        finally:
            serving.terminate()


async def tools_at(url: str) -> Sequence[str]:
    from mcp import Client

    async with Client(url) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


def test_what_is_said_of_serving_mcp_is_what_holds(capsys: pytest.CaptureFixture[str]) -> None:
    from rho_wasm import WorkshopLimits
    from rho_wasm.names import WORKSHOP

    [said] = re.findall(r"^## With an MCP client\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    assert run(["serve", "mcp", "--help"]) == 0
    told = capsys.readouterr().out
    flags = set(re.findall(r"--[a-z][a-z-]+", said))
    assert len(flags) > 5
    assert [flag for flag in flags if flag not in told] == []
    assert [name for name in WORKSHOP if name not in said] == []
    limits = WorkshopLimits()
    rates = (
        f"{limits.builds_per_hour} builds, {limits.stages_per_hour} candidates and {limits.switches_per_hour} switches"
    )
    assert rates in " ".join(said.split())


@pytest.mark.slow
def test_what_is_said_of_serving_http_is_what_holds() -> None:
    from mcp_types.version import LATEST_MODERN_VERSION

    from rho_wasm.cli.serve import DEFAULT_HOST, DEFAULT_PORT, TOKEN_VARIABLE
    from rho_wasm.server import McpServer
    from rho_wasm.server.door import MIN_TOKEN_CHARS
    from rho_wasm.server.http import PATH, serve_http
    from rho_wasm.server.stdio import serve_stdio

    for named in (McpServer, serve_http, serve_stdio):
        assert f"`{named.__name__}" in README

    for said in (
        f"http://{DEFAULT_HOST}:{DEFAULT_PORT}{PATH}",
        f"`{TOKEN_VARIABLE}`",
        f"**Protocols:** {LATEST_MODERN_VERSION}",
    ):
        assert said in README
    assert f"a token of at least {MIN_TOKEN_CHARS} characters" in README


def test_the_loop_with_a_client_is_the_example_that_is_run() -> None:
    """By ``test_the_examples_run``, against a server that speaks the API."""
    [printed] = of_section("A loop with the client you have", "python")
    assert printed.text == (ROOT / "tests" / "adapters" / "examples" / printed.file).read_text(encoding="utf-8")


def test_the_tools_in_the_shape_of_an_api_are_printed_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rho_wasm.cli.offered_tools import ToolFormat

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RHO_WASM_STORE", raising=False)
    [block] = of_section("A loop with the client you have", "sh")
    assert run(shlex.split(block.text)[1:]) == 0
    assert json.loads(capsys.readouterr().out)["tools"][0]["type"] == "function"
    assert "(`openai`, `anthropic`, `mcp`)" in " ".join(README.split())
    assert set(ToolFormat) == {"openai", "anthropic", "mcp"}


@pytest.mark.slow
def test_the_names_of_adapters_are_those_that_there_are() -> None:
    from rho_wasm.adapters import anthropic, langchain, openai_responses, pydantic_ai

    for adapter, name in (
        (anthropic, "anthropic_model"),
        (openai_responses, "responses_model"),
        (pydantic_ai, "RhoToolset"),
        (langchain, "langchain_tools"),
    ):
        assert name in adapter.__all__
        assert name in README


def test_the_set_up_is_two_commands_each_of_one_line() -> None:
    for section in ("See it work", "Run the tests"):
        [block] = of_section(section, "sh")
        assert len(block.text.splitlines()) == 1


def test_ci_runs_the_readmes_own_test_command() -> None:
    [block] = of_section("Run the tests", "sh")
    script = (ROOT / ".ci" / "run").read_text()
    [extraction] = re.findall(r"^test_command=\$\((.*)\)$", script, re.MULTILINE)
    ended = subprocess.run(["bash", "-c", extraction], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == block.text


def test_every_test_that_the_threat_model_names_is_there() -> None:
    named = re.findall(r"\| `(test_\w+)` \|$", README, re.MULTILINE)
    assert len(named) > 30
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
    }
    assert [name for name in named if name not in defined] == []


def test_every_link_to_a_file_leads_to_one() -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", README):
        assert (ROOT / target).exists(), target


def test_the_reasons_in_the_readme_are_the_reasons_that_there_are() -> None:
    from rho_wasm.results import KINDS

    for kind in ("failed", "refused", "crashed", "host"):
        [row] = [line for line in README.splitlines() if line.startswith(f"| `{kind}`")]
        told = set(re.findall(r"`(\w+)`", row.split("|")[2]))
        assert told == {reason for reason, found in KINDS.items() if found == kind}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_benchmarks_run_as_printed() -> None:
    """Peers that are not installed here are named as absent."""
    [block] = of_section("In your own program", "sh")
    install, measure = block.text.splitlines()
    assert "bench" in install
    ended = run_here(measure, ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "rho_wasm" in ended.stdout
    assert "median/ours" in ended.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_commands_work_on_a_fresh_checkout(made_engines: Mapping[str, str], tmp_path: Path) -> None:
    """The first one, and those that install the extras; the test command is what ``.ci/run`` itself begins with."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
    printed = []
    sections = ("See it work", "Tools in Python and JavaScript", "With an MCP client")
    scripts = [of_section(section, "sh")[0].text for section in sections]
    scripts[-1] += ".venv/bin/rho-wasm serve mcp </dev/null\n"  # With nobody to serve it ends at once.
    for script in scripts:
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=checkout, capture_output=True, text=True, check=False, env={**os.environ, **made_engines},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "Traceback" not in ended.stderr
        printed.append(ended.stdout)
    demo, tools, _ = printed
    assert "strike 3 of 3" in demo
    assert "pip install 'rho-wasm[python]'" in demo
    assert tools.count("requests: 317, clients: 8") == 2
