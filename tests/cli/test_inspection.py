"""``inspect`` of an image: the engine that it is over, and what it is of that one's memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rho_wasm.limits import KIB
from rho_wasm.toolchains.engines import cpython
from tests.cli.conftest import Command
from tests.toolchains.engines.toy import install_toy, toy_spec


@pytest.fixture
def image(own_folder: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> str:
    """An image over a toy engine, which is installed by building it."""
    monkeypatch.setattr(cpython, "SPEC", toy_spec(languages=("python",)))
    monkeypatch.setenv("XDG_STATE_HOME", str(own_folder / "state"))
    monkeypatch.setenv("RHO_WASM_CACHE", str(own_folder / "native"))
    (own_folder / "site").mkdir()
    monkeypatch.syspath_prepend(own_folder / "site")
    install_toy(own_folder / "site")
    (own_folder / "t").write_text("--hi")
    assert command("build", "t", "--language", "python", "-o", "t.wasm")[0] == 0
    return "t.wasm"


def test_an_image_is_told_with_its_engine_and_its_sizes(
    command: Command, told: Callable[..., tuple[int, str]], image: str
) -> None:
    code, answer = command("inspect", image)
    assert (code, answer["accepted"], answer["language"]) == (0, True, "python")
    about = answer["image"]
    assert about["engine_name"] == toy_spec().title
    assert len(bytes.fromhex(about["engine"])) == 32
    assert about["segments"] >= 1
    assert 0 < about["bytes"] <= about["pages_4k"] * 4 * KIB
    assert answer["memory_min_bytes"] == about["memory_pages"] * 64 * KIB
    code, text = told("inspect", image)
    assert code == 0
    for word in (toy_spec().title, f"{about['segments']} segments", "would take it"):
        assert word in text


def test_an_image_whose_engine_is_not_here_says_how_to_get_it(
    command: Command, told: Callable[..., tuple[int, str]], image: str
) -> None:
    assert command("engines", "remove", "toy")[0] == 0
    assert command("inspect", image)[1]["image"]["engine_name"] is None
    assert "rho-wasm engines install" in told("inspect", image)[1]


def test_what_is_no_image_has_no_engine(command: Command) -> None:
    from rho_wasm.resources import fixture

    assert command("inspect", str(fixture("echo.wasm")))[1]["image"] is None
