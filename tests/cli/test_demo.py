"""The demo shows what it says, on the README and on files that a person names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rho_wasm.resources import fixture
from rho_wasm.toolchains.engines import cpython, quickjs
from tests.cli.conftest import Command
from tests.toolchains.engines.toy import toy_spec


@pytest.fixture(autouse=True)
def no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process there is no package of an engine, so none is made."""
    for module, language in ((cpython, "python"), (quickjs, "javascript")):
        monkeypatch.setattr(module, "SPEC", toy_spec(languages=(language,), distribution="not-there"))


@pytest.mark.timeout(300)
def test_the_demo_plays_every_step_on_a_real_file(command: Command, own_folder: Path) -> None:
    code, told = command("demo", str(fixture("data/gettysburg.txt")), "--store", "kept")
    assert code == 0
    assert told["worked"] is True
    text = fixture("data/gettysburg.txt").read_text()
    assert told["first"]["result"]["value"]["lines"] == text.count("\n")
    assert told["spinning"]["ends"] == ["out_of_fuel"] * 3
    assert told["reverted"]["result"]["value"] == told["first"]["result"]["value"]
    assert told["shadowed"][0]["tool"] == "read_artifact"
    assert told["foreign_import"]["reason"] == "gate_rejected"
    assert told["csv"]["status"] == "ok"
    assert told["rolled_back"]["reason"] == "not_found"
    assert told["killed_by"] == signal.SIGKILL
    assert told["reopened"]["result"]["value"] == told["first"]["result"]["value"]
    assert told["reopened"]["strikes"] == 3
    assert told["python"] == told["javascript"] == {"missing": "pip install 'rho-wasm[toy]'"}
    assert command("generations", "--store", "kept")[1]["generations"][-1]["state"] == "live"


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_the_demo_reads_the_readme_by_default_and_can_be_read_by_a_person(
    told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    (own_folder / "README.md").write_text("# A title\n\n" + " ".join(f"word{n}" for n in range(200)))
    code, text = told("demo")
    assert code == 0
    words = ("README.md", "strike 3 of 3", "out_of_fuel", "shadowed: read_artifact", "SIGKILL", "superseded")
    for word in (*words, "pip install"):
        assert word in text, word


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "text", [*(pytest.param(text, marks=pytest.mark.slow) for text in (b"", b"three short words")), bytes(range(256))]
)
@pytest.mark.slow
def test_on_a_file_too_small_for_the_fault_the_demo_says_so_and_is_still_true(
    command: Command, own_folder: Path, text: bytes
) -> None:
    (own_folder / "small.txt").write_bytes(text)
    code, told = command("demo", "small.txt")
    assert (code, told["worked"], told["spinning"]["ends"]) == (0, True, ["out_of_fuel"] * 3)


def test_the_demo_wants_a_store_of_its_own(command: Command, own_folder: Path) -> None:
    (own_folder / "store").mkdir()
    (own_folder / "store" / "something").write_text("x")
    code, answer = command("demo", "--store", "store")
    assert (code, answer["error"]["reason"]) == (2, "usage")


def test_a_file_that_is_not_there_is_wrong_usage(command: Command) -> None:
    code, answer = command("demo", "nothing.txt")
    assert (code, answer["error"]["reason"]) == (2, "usage")


def test_a_file_that_is_too_large_is_wrong_usage(command: Command, own_folder: Path) -> None:
    (own_folder / "large.txt").write_bytes(b"x" * (2**19 + 1))
    code, answer = command("demo", "large.txt")
    assert (code, answer["error"]["reason"]) == (2, "usage")


def played(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The demo of somebody who has both extras and both engines."""
    command = [sys.executable, "-m", "rho_wasm.cli", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("file", [fixture("data/gettysburg.txt"), None])
def test_where_the_extras_are_tools_in_python_and_javascript_are_played_too(
    made_engines: Mapping[str, str], own_folder: Path, file: Path | None
) -> None:
    (own_folder / "tiny.txt").write_text("1 2 3")
    ended = played(made_engines, str(file or "tiny.txt"), "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads(ended.stdout)
    assert told["worked"] is True
    for language, reason in (("python", "handler_raised"), ("javascript", "out_of_fuel")):
        assert told[language]["result"]["value"] == ["1. that 13", "2. the 11", "3. we 10", "4. to 8", "5. here 8"]
        assert told[language]["ends"] == [reason] * 3
        assert told[language]["again"]["value"] == told[language]["result"]["value"]
    assert told["python"]["trace"].startswith("top_words_v2.py:18 in top_words: found.append(")
    assert told["same_report"] is True


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_person_sees_the_source_its_fault_and_the_strikes(made_engines: Mapping[str, str]) -> None:
    ended = played(made_engines)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for word in (
        "| def top_words(text: str, top: int = 5) -> list[str]:",
        '+        found.append(f"{MEDALS[place]} {word} {count}")',
        "strike 1 of 3 against top_words: handler_raised, in top_words_v2.py:18",
        "strike 3 of 3 against top_words_js: out_of_fuel",
        "requests: 317, clients: 8, lines that are none: 3",
        "Python and JavaScript say the same of access.log",
    ):
        assert word in ended.stdout, word
