"""A file that somebody else may have put there is read only if it is a plain one, and only so far."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rho_wasm.toolchains.files import read_bounded, read_inside


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


def test_what_is_refused_leaves_no_descriptor_open(tmp_path: Path) -> None:
    lowest = os.dup(0)
    os.close(lowest)
    with pytest.raises(OSError, match="no regular file"):
        read_bounded(tmp_path, 100)
    again = os.dup(0)
    os.close(again)
    assert again == lowest


def test_a_file_in_a_folder_is_read_by_its_relative_name(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"12345")
    (tmp_path / "named").symlink_to(tmp_path / "a")
    assert read_inside(tmp_path, "a/b/file", 5) == b"12345"
    assert read_inside(tmp_path / "named", "b/file", 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_inside(tmp_path, "a/b/file", 4)


@pytest.mark.parametrize("name", ["link/file", "a/link/file", "a/file", "/etc/passwd", "../secret/file", "a/..", "."])
def test_nothing_outside_a_folder_is_read_from_it(tmp_path: Path, name: str) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    secret.mkdir()
    (secret / "file").write_text("secret")
    (folder / "a").mkdir(parents=True)
    for link, target in (("link", secret), ("a/link", secret), ("a/file", secret / "file")):
        (folder / link).symlink_to(target)
    with pytest.raises(OSError, match=r"outside|symbolic link|Not a directory"):
        read_inside(folder, name, 100)
