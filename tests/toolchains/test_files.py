"""A file that somebody else may have put there is read only if it is a plain one, and only so far."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rho_wasm.toolchains.files import read_bounded


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_bounded(path, 4)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    with pytest.raises(OSError):  # noqa: PT011 - its text is the system's
        read_bounded(tmp_path / "link", 100)


def test_a_pipe_and_a_device_are_neither_waited_for_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError):  # noqa: PT011 - its text is the system's
            read_bounded(path, 100)
