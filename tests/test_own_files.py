"""A file is believed only if it is this user's alone, and appears only whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from rho_wasm.own_files import NotOwn, open_own, own_folder, write_own


def test_what_is_written_is_read_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_own(tmp_path / "file", b"first")
    write_own(tmp_path / "file", b"second")
    with open_own(tmp_path / "file") as file:
        assert file.read() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_own(tmp_path / "taken", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_what_others_may_read_and_what_is_no_plain_file_is_not_believed(tmp_path: Path) -> None:
    write_own(tmp_path / "file", b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder"):
        with pytest.raises(NotOwn), open_own(tmp_path / name):
            pass
    (tmp_path / "file").chmod(0o640)
    with pytest.raises(NotOwn, match="alone"), open_own(tmp_path / "file"):
        pass
    with pytest.raises(FileNotFoundError), open_own(tmp_path / "nothing"):
        pass


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    own_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    (tmp_path / "a" / "b").chmod(0o770)
    with pytest.raises(PermissionError):
        own_folder(tmp_path / "a" / "b")
