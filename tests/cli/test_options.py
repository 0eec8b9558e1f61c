"""Files that are named on a command line: plain ones, perhaps through a link, and never one that is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rho_wasm.cli.options import read_bytes
from rho_wasm.cli.output import UsageProblem
from rho_wasm.errors import PolicyError
from rho_wasm.policy import Policy
from rho_wasm.resources import fixture
from tests.cli.conftest import Command

ECHO = str(fixture("echo.wasm"))


@pytest.mark.parametrize(
    "line",
    [
        ["inspect", "pipe.wasm"],
        ["conform", "pipe.wasm"],
        ["call", "pipe.wasm", "echo"],
        ["stage", "pipe.wasm"],
        ["dev", "echo.wat", "--call", "echo", "--arguments", "@pipe.json"],
        ["build", "pipe.wat"],
        ["build", "echo.wat", "--manifest", "pipe.json"],
        ["call", ECHO, "echo", "--arguments", "@pipe.json"],
        ["call", ECHO, "echo", "--text", "text=pipe.json"],
    ],
    ids=" ".join,
)
def test_a_pipe_is_refused_and_not_waited_for(line: list[str], command: Command, own_folder: Path) -> None:
    (own_folder / "echo.wat").write_bytes(fixture("echo.wat").read_bytes())
    for name in ("pipe.wasm", "pipe.wat", "pipe.json"):
        os.mkfifo(own_folder / name)
    assert command(*line)[0] == 2


def test_a_device_is_not_read_and_a_policy_is_no_pipe(own_folder: Path) -> None:
    with pytest.raises(UsageProblem, match="no regular file"):
        read_bytes(Path("/dev/zero"), limit=10)
    with pytest.raises(UsageProblem, match="no regular file"):
        read_bytes(own_folder, limit=10)
    os.mkfifo(own_folder / "policy.toml")
    with pytest.raises(PolicyError, match="no regular file"):
        Policy.load(own_folder / "policy.toml")


def test_a_link_that_a_user_names_is_followed_and_a_large_file_is_not_read(own_folder: Path) -> None:
    (own_folder / "file").write_bytes(b"12345")
    (own_folder / "link").symlink_to("file")
    assert read_bytes(own_folder / "link", limit=5) == b"12345"
    with pytest.raises(UsageProblem, match="larger than 4 bytes"):
        read_bytes(own_folder / "link", limit=4)
    (own_folder / "loop").symlink_to("loop")
    for name in ("loop", "missing"):
        with pytest.raises(UsageProblem):
            read_bytes(own_folder / name, limit=4)
