"""The demo shows what it says, on the README and on files that a person names."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rho_wasm.resources import fixture
from tests.cli.conftest import Command


@pytest.mark.timeout(120)
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
    assert command("generations", "--store", "kept")[1]["generations"][-1]["state"] == "live"


@pytest.mark.timeout(120)
def test_the_demo_reads_the_readme_by_default_and_can_be_read_by_a_person(
    told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    (own_folder / "README.md").write_text("# A title\n\n" + " ".join(f"word{n}" for n in range(200)))
    code, text = told("demo")
    assert code == 0
    for word in ("README.md", "strike 3 of 3", "out_of_fuel", "shadowed: read_artifact", "SIGKILL", "superseded"):
        assert word in text, word


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", [b"", b"three short words", bytes(range(256))])
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
