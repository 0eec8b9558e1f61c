from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rho_wasm.host_key import KEY_BYTES, host_key
from tests.dynamic.processes import answer_of_process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "host.key"


def test_a_key_is_made_once_and_read_again(path: Path) -> None:
    key = host_key(path)
    assert len(key) == KEY_BYTES
    assert host_key(path) == key
    assert answer_of_process(host_key, path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["readable", "link", "pipe", "short", "long", "folder"])
def test_a_key_that_is_damaged_or_not_this_users_alone_is_none(path: Path, damage: str) -> None:
    key = host_key(path)
    match damage:
        case "readable":
            path.chmod(0o644)
        case "link":
            path.symlink_to(path.rename(path.with_name("other")))
        case "pipe":
            path.unlink()
            os.mkfifo(path, 0o600)
        case "short":
            os.truncate(path, 5)
        case "long":
            path.write_bytes(key + key)
        case _:
            path.unlink()
            path.mkdir()
    with pytest.raises(OSError):  # noqa: PT011 - which one is the file system's affair
        host_key(path)


def test_no_key_is_made_where_others_may_write(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o777)
    with pytest.raises(PermissionError):
        host_key(path)
    assert list(path.parent.iterdir()) == []


def test_a_key_that_cannot_be_kept_is_none(path: Path) -> None:
    path.parent.write_text("a file is in the way")
    with pytest.raises(OSError):  # noqa: PT011 - which one is the file system's affair
        host_key(path)
