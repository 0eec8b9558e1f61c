"""Reads a file that somebody else may have put there: a regular one, no link, no more than so many bytes."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

__all__ = ["FOLDER", "TooLong", "read_bounded", "read_inside"]

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""How a folder is opened, to open by its descriptor what lies in it. It may be a link; with ``O_NOFOLLOW`` not."""


class TooLong(OSError):
    """The file has more bytes than were to be read."""


def read_bounded(path: Path, limit: int, *, folder: int | None = None) -> bytes:
    """The bytes of ``path``. Raises :class:`TooLong`, and OSError for a link, a folder, a pipe or a device.

    A pipe or a device is never waited for. ``folder`` is a descriptor of the folder that a relative path is in.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # Read one byte more than allowed: a file may grow after it was measured.
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise TooLong(f"it has more than {limit} bytes")
    return data


def read_inside(folder: Path, name: str, limit: int) -> bytes:
    """The bytes of the file ``name`` (relative, POSIX) under ``folder``, which may itself be a link: its user named it.

    No part of ``name`` is followed where it is a link, or becomes one meanwhile. Raises as :func:`read_bounded` does.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise OSError("it lies outside of its folder")
    *folders, file = parts
    with ExitStack() as opened:
        inner = os.open(folder, FOLDER)
        opened.callback(os.close, inner)
        for part in folders:
            inner = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=inner)
            opened.callback(os.close, inner)
        return read_bounded(Path(file), limit, folder=inner)
