"""Reads a file that somebody else may have put there: a regular one, no link, no more than so many bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["TooLong", "read_bounded"]


class TooLong(OSError):
    """The file has more bytes than were to be read."""


def read_bounded(path: Path, limit: int, *, folder: int | None = None) -> bytes:
    """The bytes of ``path``. Raises :class:`TooLong`, and OSError for a link, a folder, a pipe or a device.

    A pipe or a device is never waited for. ``folder`` is a descriptor of the folder that a relative path is in.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no regular file")
        # Read one byte more than allowed: a file may grow after it was measured.
        data = file.read(limit + 1)
    if len(data) > limit:
        raise TooLong(f"it has more than {limit} bytes")
    return data
