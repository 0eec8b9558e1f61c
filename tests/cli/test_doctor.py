"""``doctor`` runs a guest and says what it saw, whatever is missing."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import pytest

from rho_wasm.sandbox.ways import why_not_native
from rho_wasm.toolchains import languages
from rho_wasm.toolchains.engines import cpython, quickjs
from tests.cli.conftest import Command
from tests.toolchains.engines.toy import toy_spec


@pytest.fixture(autouse=True)
def own_cache(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHO_WASM_CACHE", str(own_folder / "native"))
    monkeypatch.setenv("XDG_STATE_HOME", str(own_folder / "state"))
    monkeypatch.delenv("RHO_WASM_ENGINES", raising=False)


def test_it_says_how_guests_run_here_and_what_is_kept_where(command: Command, own_folder: Path) -> None:
    code, told = command("doctor")
    assert code == 0
    assert told["guests"]["problem"] is None
    assert told["guests"]["way"] in ("native", "public")
    assert told["not_native"] == why_not_native()
    assert told["wasmtime"] == importlib.metadata.version("wasmtime")
    assert told["cache"]["folder"] == str(own_folder / "native")
    assert (told["cache"]["files"], told["shelf"]["files"]) == (1, 0)
    assert told["cache"]["bytes"] > 0
    assert [engine["installed"] for engine in told["engines"]] == [False, False]
    assert [extra["name"] for extra in told["extras"]] == ["python", "javascript", "c", "tinycc"]
    assert [each["language"] for each in told["languages"]] == list(languages())
    assert all(each["problem"] is None or each["hint"] for each in told["languages"])


@pytest.mark.slow
def test_the_way_that_is_asked_for_is_the_way_that_it_names(
    command: Command, told: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHO_WASM_WAY", "public")
    assert command("doctor")[1]["guests"]["way"] == "public"
    if why_not_native() is None:
        assert "because RHO_WASM_WAY=public" in told("doctor")[1]
        monkeypatch.setenv("RHO_WASM_WAY", "native")
        assert command("doctor")[1]["guests"]["way"] == "native"


def test_what_is_missing_comes_with_the_pip_command(
    command: Command, told: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpython, "SPEC", toy_spec(languages=("python",), distribution="not-there"))
    monkeypatch.setattr(quickjs, "SPEC", toy_spec(languages=("javascript",), distribution="not-there"))
    code, text = told("doctor")
    assert code == 0
    # TypeScript needs what JavaScript does.
    assert text.count("pip install 'rho-wasm[toy]'") == 3
    assert "rho-wasm engines install toy" in text


@pytest.mark.slow
def test_where_no_guest_can_run_the_exit_code_says_so(
    command: Command, told: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHO_WASM_WAY", "sideways")
    code, answer = command("doctor")
    assert (code, answer["guests"]["way"]) == (4, None)
    assert "sideways" in answer["guests"]["problem"]
    assert "cannot run here" in told("doctor")[1]
