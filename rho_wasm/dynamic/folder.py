"""The folder of a store: made for its owner alone, and refused where somebody else could have written in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rho_wasm.dynamic.database import disk_error
from rho_wasm.dynamic.files import sync_folder
from rho_wasm.errors import StoreError

__all__ = ["DATABASE_NAME", "is_writable", "prepare_folder"]

DATABASE_NAME = "store.sqlite"
"""The file that makes a folder a store."""


def prepare_folder(folder: Path, *, read_only: bool) -> None:
    """Makes ``folder`` with mode 0700 if there is none, else checks that it is a store, or empty, and nobody else's.

    Raises :class:`StoreError`: ``not_a_store`` for a file, a folder of other things, or (``read_only``) for nothing;
    ``unsafe`` if another user owns it or may write in it, since whoever can write here chooses what tools a model is
    offered; ``read_only`` or ``disk_full`` where it cannot be made.
    """
    where = str(folder)
    try:
        if not folder.exists() and not read_only:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(folder.parent)
        found, named = folder.stat(), folder.lstat()
    except FileNotFoundError:
        raise StoreError("there is no store", path=where, reason="not_a_store") from None
    except NotADirectoryError:
        raise StoreError("a file is in the way", path=where, reason="not_a_store") from None
    except OSError as error:
        raise disk_error(error, folder) from None
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError("it is no folder: a store is one", path=where, reason="not_a_store")
    # In this order: another process that makes the store puts the database there before anything else.
    occupied = any(folder.iterdir())
    if not (folder / DATABASE_NAME).exists() and (read_only or occupied):
        raise StoreError(
            f"the folder has no {DATABASE_NAME} and is not empty: name a new or empty folder",
            path=where,
            reason="not_a_store",
        )
    for owner in (found.st_uid, named.st_uid):
        # A link counts as well: whoever owns it chooses which folder it leads to.
        if owner not in (os.geteuid(), 0):
            raise StoreError(f"another user ({owner}) owns it", path=where, reason="unsafe")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        raise StoreError(
            f"others may write in it (mode {mode:04o}): look at what is there, then chmod 700",
            path=where,
            reason="unsafe",
        )
    if found.st_mode & 0o077 and not read_only and found.st_uid == os.geteuid():
        # Sources and questions of a session are nobody else's to read. A read-only mount stays as it is.
        try:
            folder.chmod(0o700)
        except OSError:
            return


def is_writable(folder: Path) -> bool:
    """Whether this process may write in ``folder``: permissions and a read-only mount alike."""
    return os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
