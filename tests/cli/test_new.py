"""``new`` makes a tool that works as it stands, in each language, and never overwrites anything."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rho_wasm.cli.app import run
from rho_wasm.cli.extras import needed
from rho_wasm.toolchains import languages, tinycc
from tests.cli.conftest import Command


def run_as_printed(commands: list[str], environment: Mapping[str, str]) -> None:
    """The first two commands: the test, and the call of the example."""
    test, call = (
        subprocess.run(
            shlex.split(line), capture_output=True, text=True, check=False, env={**os.environ, **environment}
        )
        for line in commands[:2]
    )
    assert test.returncode == 0, test.stdout + test.stderr
    assert "Ran 2 tests" in test.stderr
    assert call.returncode == 0, call.stdout + call.stderr
    assert call.stdout == '{"lines":2,"words":3,"characters":14}\n'


@pytest.mark.parametrize(("language", "suffix"), languages().items())
def test_the_files_are_those_of_a_tool_of_that_name(
    command: Command, own_folder: Path, language: str, suffix: str
) -> None:
    code, told = command("new", "deep/my-tool", "--language", language)
    assert (code, told["tool"], told["folder"]) == (0, "my_tool", "deep/my-tool")
    expected = {f"my_tool{suffix}", "test_my_tool.py", "arguments.json"}
    expected |= {"my_tool.manifest.json"} if language == "wat" else set()
    assert {path.name for path in (own_folder / "deep" / "my-tool").iterdir()} == expected == set(told["files"])
    written = "".join(path.read_text() for path in (own_folder / "deep" / "my-tool").iterdir())
    assert "my_tool" in written
    assert "class MyTool(" in written
    assert "text_figures" not in written


@pytest.mark.slow
def test_a_tool_in_webassembly_text_works_as_it_stands(command: Command) -> None:
    steps = command("new", "well-counted", "--language", "wat")[1]["next"]
    run_as_printed(steps, {})
    for step in steps[2:4]:
        assert run(shlex.split(step)[1:]) == 0, step
    assert steps[4].endswith(
        " dev well-counted/well_counted.wat --call well_counted --arguments @well-counted/arguments.json"
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", [language for language in languages() if language != "wat"])
def test_a_tool_works_once_its_extra_is_there(command: Command, made_engines: Mapping[str, str], language: str) -> None:
    need = needed(language)
    if need.problem is not None:
        pytest.skip(f"{need.problem}: {need.hint}")
    run_as_printed(command("new", "counted", "--language", language)[1]["next"], made_engines)


def test_python_is_what_a_person_gets_who_says_nothing(command: Command, told: Callable[..., tuple[int, str]]) -> None:
    assert command("new", "one")[1]["files"] == ["arguments.json", "one.py", "test_one.py"]
    code, text = told("new", "two")
    assert code == 0
    steps = [line.partition(":")[0] for line in text.splitlines() if ": " in line]
    assert steps[-5:] == ["test", "call", "build", "conform", "dev"]


def test_nothing_is_overwritten(command: Command, own_folder: Path) -> None:
    (own_folder / "mine").mkdir()
    (own_folder / "file").write_text("kept")
    for name in ("mine", "file"):
        code, answer = command("new", name)
        assert (code, answer["error"]["reason"]) == (2, "usage")
    assert list((own_folder / "mine").iterdir()) == []
    assert (own_folder / "file").read_text() == "kept"


@pytest.mark.parametrize(
    ("name", "language", "why"),
    [
        ("Upper", "python", "is no name for a tool"),
        ("a.b", "python", "'-' becomes '_'"),
        ("a__b", "wat", "is no name for a tool"),
        ("a--b", "c", "is no name for a tool"),
        ("1st", "c", "is no name for a tool"),
        ("x" * 65, "c", "is no name for a tool"),
        ("..", "c", "is no name for a tool"),
        ("todo", "c", "is the name of a core tool"),
        ("lambda", "python", "is a word of Python's"),
        ("json", "python", "is the name of a Python module"),
        ("rho_wasm", "python", "is the name of a Python module"),
        ("class", "javascript", "is a word of JavaScript's"),
        ("tool", "typescript", "is a word of JavaScript's"),
        ("match", "rust", "is a word of Rust's"),
        ("unit-test", "go", "is the name of a file that Go would leave out"),
    ],
)
def test_a_name_that_no_tool_can_have_is_refused(
    command: Command, own_folder: Path, name: str, language: str, why: str
) -> None:
    code, answer = command("new", name, "--language", language)
    assert (code, answer["error"]["reason"]) == (2, "usage")
    assert why in answer["error"]["message"]
    assert list(own_folder.iterdir()) == []


def test_what_is_a_word_of_one_language_is_none_of_another(command: Command) -> None:
    for name, language in (("function", "python"), ("lambda", "javascript"), ("json", "javascript"), ("class", "wat")):
        assert command("new", name, "--language", language)[0] == 0


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("js", "javascript"),
        (".ts", "typescript"),
        ("py", "python"),
        ("c++", "cpp"),
        ("rs", "rust"),
        ("as", "assemblyscript"),
        ("as.ts", "assemblyscript"),
        ("Go", "go"),
    ],
)
def test_a_language_may_be_called_as_its_files_end(command: Command, said: str, meant: str) -> None:
    code, answer = command("new", "one", "-l", said)
    assert (code, answer["language"]) == (0, meant)


def test_a_language_without_a_template_names_those_that_have_one(
    told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    code, text = told("new", "one", "--language", "ruby")
    assert code == 2
    assert text.startswith("rho-wasm: there is no template in 'ruby'; there is one in assemblyscript, c, ")
    assert list(own_folder.iterdir()) == []


def test_a_missing_extra_is_said_first(
    command: Command, told: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    found: Any = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ziglang" else found(name))
    monkeypatch.setattr(tinycc, "is_installed", lambda: False)
    assert command("new", "one", "--language", "c")[1]["needs"] == "pip install 'rho-wasm[c]'"
    assert "first:   pip install 'rho-wasm[c]'" in told("new", "two", "--language", "c")[1]


def test_a_program_that_the_shell_finds_is_named_shortly(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setattr(sys, "executable", str(programs / "python3"))
    test, call, *_ = command("new", "one")[1]["next"]
    assert test == "python3 one/test_one.py"
    assert call == "rho-wasm call one/one.py one --arguments @one/arguments.json"
