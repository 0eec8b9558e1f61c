"""Waits until a file, or something in a folder, is another than before.

It looks, a few times a second: a few hundred files take a millisecond, and so it works on every file system, also on
those (of networks, of containers) where the kernel tells nobody of a change.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.to_thread

from rho_wasm.toolchains.project import _NOT_FOLDERS as NOT_FOLDERS

__all__ = ["changes"]

_LOOK_S = 0.15
_ENTRIES = 10_000
_MADE = (".wasm", ".pyc", ".o", ".a")
"""What builds leave beside their sources."""

_State: TypeAlias = tuple[tuple[str, int, int, int], ...]


async def changes(paths: Sequence[Path], *, apart_from: Sequence[Path] = ()) -> AsyncGenerator[None, None]:
    """Once at the beginning, then once after each change of ``paths``. A change counts when it is over for an instant.

    Not looked at are hidden files and folders, what builds leave, and what lies in ``apart_from``. What changes while
    the caller works is a change too. A path that is missing is waited for.
    """
    skipped = frozenset(map(_absolute, apart_from))
    known: _State | None = None
    while True:
        now = await anyio.to_thread.run_sync(_state, paths, skipped)
        if now != known:
            while (settled := await _next(paths, skipped)) != now:
                now = settled
            known = now
            yield
        else:
            await anyio.sleep(_LOOK_S)


async def _next(paths: Sequence[Path], skipped: frozenset[str]) -> _State:
    await anyio.sleep(_LOOK_S / 3)
    return await anyio.to_thread.run_sync(_state, paths, skipped)


def _absolute(path: str | Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - links stay what they are


def _state(paths: Sequence[Path], skipped: frozenset[str]) -> _State:
    found = []
    for path in paths:
        for file in _files(path, skipped):
            try:
                status = os.stat(file)  # noqa: PTH116 - called for each file, many times
            except OSError:
                continue  # It is gone, which is a change by itself.
            found.append((file, status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


def _files(path: Path, skipped: frozenset[str]) -> Iterator[str]:
    if not path.is_dir():
        yield str(path)
        return
    count = 0
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in NOT_FOLDERS and _absolute(f"{folder}/{name}") not in skipped
        )
        for name in sorted(files):
            if name.startswith(".") or name.endswith(_MADE):
                continue
            yield f"{folder}/{name}"
            if (count := count + 1) >= _ENTRIES:
                return
