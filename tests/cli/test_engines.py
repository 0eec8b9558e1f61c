"""``engines``, and ``build`` of what is interpreted: with a toy engine, whose package these tests install."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rho_wasm.cli import engines as verbs
from rho_wasm.toolchains.engines import EngineSpec, cpython, quickjs
from tests.cli.conftest import Command
from tests.toolchains.engines.toy import TOY_WASM, install_toy, toy_spec

Told = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def toy(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> EngineSpec:
    """The only engine that there is makes tools in Python. Its package is installed."""
    spec = toy_spec(languages=("python",))
    monkeypatch.setattr(cpython, "SPEC", spec, raising=False)
    monkeypatch.setattr(quickjs, "SPEC", toy_spec(name="other", languages=("javascript",), distribution="not-there"))
    monkeypatch.setenv("XDG_STATE_HOME", str(own_folder / "state"))
    monkeypatch.setenv("RHO_WASM_CACHE", str(own_folder / "native"))
    (own_folder / "site").mkdir()
    monkeypatch.syspath_prepend(own_folder / "site")
    install_toy(own_folder / "site")
    return spec


def test_engines_are_listed_with_where_their_bytes_come_from(command: Command, told: Told) -> None:
    code, answer = command("engines", "list")
    assert code == 0
    mine, other = answer["engines"]
    assert (mine["name"], mine["state"], mine["hint"]) == ("toy", "not installed", "rho-wasm engines install toy")
    assert (mine["distribution"], mine["version"], mine["licence"]) == ("toy-engine", "1.0", "Apache-2.0")
    assert mine["file_sha256"] == toy_spec().sha256
    assert (other["state"], other["hint"]) == ("missing_extra", "pip install 'rho-wasm[toy]'")
    assert command("engines", "install")[0] == 0
    code, text = told("engines", "list")
    assert code == 0
    for word in ("toy", "installed", "toy-engine 1.0", "Apache-2.0", toy_spec().sha256, "pip install"):
        assert word in text


def test_an_engine_is_installed_verified_and_removed(command: Command, own_folder: Path) -> None:
    code, answer = command("engines", "install", "python")
    assert (code, [each["name"] for each in answer["installed"]]) == (0, ["toy"])
    assert answer["installed"][0]["bytes"] == len(TOY_WASM)
    assert command("engines", "verify") == (
        0,
        {"engines": [{"file": f"{answer['installed'][0]['sha256']}.engine", "name": "toy", "problem": None}]},
    )
    [path] = (own_folder / "native-engines").glob("*.engine")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    code, answer = command("engines", "verify")
    assert code == 3
    assert answer["engines"][0]["problem"]
    assert command("engines", "install", "toy")[0] == 0
    assert command("engines", "remove", "toy")[0] == 0
    assert command("engines", "verify") == (0, {"engines": []})
    code, answer = command("engines", "remove", "toy")
    assert (code, answer["error"]["reason"]) == (3, "engine_unknown")


def test_a_missing_package_says_the_pip_command_and_an_unknown_engine_is_wrong_usage(command: Command) -> None:
    code, answer = command("engines", "install", "javascript")
    assert (code, answer["error"]["reason"]) == (2, "missing_extra")
    assert answer["error"]["hint"] == "pip install 'rho-wasm[toy]'"
    code, answer = command("engines", "install", "cobol")
    assert (code, answer["error"]["reason"]) == (2, "usage")
    assert "toy (python)" in answer["error"]["message"]


def test_a_source_is_built_staged_and_called_and_its_engine_then_stays(command: Command, own_folder: Path) -> None:
    # The toy engine knows file names of one letter.
    (own_folder / "t").write_text("--hi")
    code, answer = command("build", "t", "--language", "python", "-o", "tool.wasm")
    assert (code, answer["file"], answer["tools"], answer["language"]) == (0, "tool.wasm", ["t"], "python")
    (own_folder / "policy.toml").write_text("[gates]\non = []\n")
    assert command("stage", "tool.wasm")[0] == 0
    assert command("activate", "1", "--policy", "policy.toml")[0] == 0
    code, answer = command("engines", "remove", "toy")
    assert (code, answer["error"]["reason"]) == (3, "engine_in_use")
    code, answer = command("engines", "remove", "toy", "--store", "nowhere")
    assert (code, answer["error"]["reason"]) == (2, "usage")


def test_engines_without_any_package_say_the_pip_command(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "engine_specs", lambda: (toy_spec(distribution="not-there"),))
    code, answer = command("engines", "install")
    assert (code, answer["error"]["reason"]) == (2, "missing_extra")


def test_a_standalone_module_is_built_and_inspected(command: Command, own_folder: Path) -> None:
    (own_folder / "t").write_text("--hi")
    assert command("build", "t", "--language", "python", "--standalone", "-o", "alone.wasm")[0] == 0
    code, answer = command("inspect", "alone.wasm")
    assert (code, answer["accepted"]) == (0, True)
    assert answer["exports"] == ["memory", "rho_alloc", "rho_call"]
    code, answer = command("build", "t", "--language", "python", "-o", "image.wasm")
    code, answer = command("inspect", "image.wasm")
    assert (code, answer["imports"]) == (0, ["rho_engine.memory"])
