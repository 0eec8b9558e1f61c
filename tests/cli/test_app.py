"""The entry point: help, usage, exit codes, and no traceback whatever happens."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rho_wasm import errors
from rho_wasm.cli.output import UsageProblem, exit_code
from tests.cli.conftest import Command

VERBS = (
    *("demo", "new", "build", "inspect", "call", "tools", "stage", "approve", "reject"),
    *("activate", "rollback", "generations", "strikes", "pardon", "prune", "doctor"),
)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_json(told: Callable[..., tuple[int, str]], verb: str) -> None:
    code, text = told(verb, "--help")
    assert code == 0
    assert "--json" in text


def test_help_lists_every_verb_and_the_exit_codes(told: Callable[..., tuple[int, str]]) -> None:
    code, text = told("--help")
    assert code == 0
    assert all(verb in text for verb in VERBS)
    assert "Exit codes" in text


@pytest.mark.parametrize(
    "arguments", [["conjure"], ["activate"], ["activate", "one"], ["rollback", "--to", "x"], ["build"], ["stage"]]
)
def test_wrong_usage_ends_with_two(command: Command, arguments: list[str]) -> None:
    code, answer = command(*arguments)
    assert (code, answer["error"]["reason"]) == (2, "usage")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageProblem("x"), 2),
        (errors.BuildError("c", [], reason="missing_extra"), 2),
        (errors.ToolError("trapped", tool="t"), 1),
        (errors.ModuleRejected("header", "x"), 3),
        (errors.BuildError("c", []), 3),
        (errors.PolicyError("x"), 3),
        (errors.NameInvalid("x", "y"), 3),
        (errors.GateRejected(1, "examples", ["x"]), 3),
        (errors.UnknownGeneration(1), 3),
        (errors.SchemaInvalid("x"), 3),
        (errors.Corrupt("x"), 4),
        (errors.Locked("x"), 4),
        (errors.Closed("x"), 4),
        (OSError("x"), 4),
        (ZeroDivisionError(), 4),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


def test_the_module_runs_as_a_program_and_prints_no_traceback(own_folder: Path) -> None:
    command = [sys.executable, "-m", "rho_wasm.cli", "call", "missing.wasm", "x"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=own_folder, env=_environment())
    assert ended.returncode == 2
    assert "missing.wasm" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_the_extra_it_names_the_extra_and_ends_with_two(own_folder: Path) -> None:
    (own_folder / "typer").mkdir()
    (own_folder / "typer" / "__init__.py").write_text("raise ImportError('not installed')")
    environment = _environment()
    environment["PYTHONPATH"] = f"{own_folder}{os.pathsep}{environment['PYTHONPATH']}"
    command = [sys.executable, "-m", "rho_wasm.cli", "tools"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=own_folder, env=environment)
    assert ended.returncode == 2
    assert "rho-wasm[cli]" in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.slow
def test_a_full_standard_output_is_a_fault_and_no_traceback(own_folder: Path) -> None:
    for arguments in ("--help", "call missing.wasm x --json"):
        ended = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m rho_wasm.cli {arguments} > /dev/full"],
            cwd=own_folder, capture_output=True, text=True, check=False, env=_environment(),
        )  # fmt: skip
        assert ended.returncode != 0
        assert "Traceback" not in ended.stderr, ended.stderr


def test_the_version_is_the_packages(told: Callable[..., tuple[int, str]]) -> None:
    code, text = told("--version")
    assert (code, text.strip()) == (0, importlib.metadata.version("rho-wasm"))


def test_a_reader_that_hangs_up_early_is_no_error(own_folder: Path) -> None:
    command = f"{sys.executable} -m rho_wasm.cli --help | head -c 1"
    ended = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False, env=_environment()
    )
    assert "Traceback" not in ended.stderr


def _environment() -> dict[str, str]:
    import rho_wasm

    return {**os.environ, "PYTHONPATH": str(Path(rho_wasm.__file__).parent.parent)}
