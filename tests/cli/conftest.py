"""Command lines run in this process, as the entry point runs them, each test in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rho_wasm.cli.app import run

Command = Callable[..., tuple[int, Any]]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RHO_WASM_STORE", raising=False)
    monkeypatch.delenv("RHO_WASM_POLICY", raising=False)
    monkeypatch.delenv("RHO_WASM_CAPABILITIES", raising=False)
    monkeypatch.delenv("RHO_WASM_DEBUG", raising=False)
    return tmp_path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command line with ``--json`` and answers exit code and object."""

    def call(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run([*arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs a command line for a person and answers exit code and everything that was printed."""

    def call(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call
