"""Reads a file that somebody else may have put there: a regular one, no link, no more than so many bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["read_bounded"]


def read_bounded(path: Path, limit: int) -> bytes:
    """The bytes of ``path``. Raises OSError: it is a link, a folder, a pipe or a device, or has over ``limit`` bytes.

    A pipe or a device is never waited for.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no regular file")
        # Read one byte more than allowed: a file may grow after it was measured.
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(f"it has more than {limit} bytes")
    return data
