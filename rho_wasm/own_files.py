"""Files that are this user's alone: what stands in them was written by this user's processes, and by nobody else's."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["TEMPORARY", "NotOwn", "open_own", "own_folder", "write_own"]

TEMPORARY = ".part"
"""How the names of files end that are not whole yet."""


class NotOwn(Exception):
    """A file that must not be believed, and why in one line."""


def own_folder(folder: Path) -> None:
    """Makes ``folder`` (0700) unless it is there. Raises PermissionError if others may write to it, and OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.stat()
    if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(0, "the folder belongs to another user, or others may write to it")


@contextmanager
def open_own(path: Path) -> Iterator[BinaryIO]:
    """A file, to be read. Raises FileNotFoundError, and :class:`NotOwn` for no plain file of this user's alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NotOwn(error.strerror) from None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) & 0o077:
        os.close(descriptor)
        raise NotOwn("it is not a file of this user's alone")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def write_own(path: Path, data: bytes) -> None:
    """Writes ``data`` (mode 0600). Under its name the file appears only whole: it is synced before it is renamed."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
