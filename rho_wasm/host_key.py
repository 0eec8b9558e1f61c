"""A key of this host, in a file of its user's alone: what was sealed with it was sealed here."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["KEY_BYTES", "host_key"]

KEY_BYTES = 32


def host_key(path: Path) -> bytes:
    """The key in ``path``, made at the first use (mode 0600, its folder 0700).

    Of processes that start together one makes it and all read it. Raises OSError where it can be neither read nor made,
    and PermissionError if it is damaged, no plain file, or not this user's alone: then it is no key.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        _make(path)
        return _read(path)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) & 0o077:
            raise PermissionError(0, "the host key is not a file of this user's alone")
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise PermissionError(0, "the host key is damaged: delete it")
    return key


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = path.parent.stat()
    if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(0, "the host key's folder belongs to another user, or others may write in it")
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # A link and not a rename: whoever comes second takes the key of whoever came first.
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
