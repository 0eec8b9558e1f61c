"""Waits until a file, or something in a folder, is another than before.

It looks, a few times a second: a few hundred files take a millisecond, and so it works on every file system, also on
those (of networks, of containers) where the kernel tells nobody of a change.

In a folder it sees what a build would read, by the same walk: no link is followed, so nothing outside starts a build.
What changes because of the build itself, whatever that is, starts the next ones ever more rarely.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import anyio
import anyio.to_thread

from rho_wasm.errors import BuildError
from rho_wasm.toolchains.files import FOLDER
from rho_wasm.toolchains.project import ENTRIES, walk

__all__ = ["changes", "pause_s"]

_LOOK_S = 0.15
_SETTLE_S = 2
_PAUSE_S = 30

_Entry: TypeAlias = tuple[str, int, int, int]
_State: TypeAlias = tuple[tuple[_Entry, ...], ...]
"""Of each path, in their order."""


async def changes(
    paths: Sequence[Path], *, suffixes: tuple[str, ...], apart_from: Sequence[Path] = ()
) -> AsyncGenerator[frozenset[Path], None]:
    """Once at the beginning, then once after each change of ``paths``: those of them that changed, at first all.
    A change counts when it is over for an instant, or has gone on for two seconds.

    In a folder count the regular files that end in one of ``suffixes``. Not gone into are hidden folders, those of
    tools, and those of ``apart_from``, by whatever name they are reached. A path that is missing is waited for.

    What changes while the caller works is a change too. Where that happens again and again, :func:`pause_s` is between.
    """
    watch = _Watch(paths, suffixes, apart_from)
    known: _State | None = None
    worked = False
    in_a_row = 0
    while True:
        now = await anyio.to_thread.run_sync(watch.state)
        if now == known:
            worked, in_a_row = False, 0
            await anyio.sleep(_LOOK_S)
            continue
        if worked:
            in_a_row += 1
            await anyio.sleep(pause_s(in_a_row))
        before, known = known, await _settled(watch, now)
        worked = True
        yield frozenset(path for place, path in enumerate(paths) if before is None or before[place] != known[place])


def pause_s(in_a_row: int) -> float:
    """Seconds that are waited where something changed during each of the last ``in_a_row`` builds: 0, 1, 2, 4 .. 30.

    The first is at once: it is a person who saves while a build goes on.
    """
    return min(2.0 ** (min(in_a_row, 10) - 2), _PAUSE_S) if in_a_row > 1 else 0


async def _settled(watch: _Watch, now: _State) -> _State:
    with anyio.move_on_after(_SETTLE_S):
        while True:
            await anyio.sleep(_LOOK_S / 3)
            before, now = now, await anyio.to_thread.run_sync(watch.state)
            if now == before:
                break
    return now


@dataclass(frozen=True, slots=True)
class _Watch:
    paths: Sequence[Path]
    suffixes: tuple[str, ...]
    apart_from: Sequence[Path]

    def state(self) -> _State:
        skipped = frozenset(self._skipped())
        return tuple(tuple(self._entries(path, skipped)) for path in self.paths)

    def _skipped(self) -> Iterator[tuple[int, int]]:
        # Asked each time: the store is made after the first look.
        for path in self.apart_from:
            try:
                status = path.stat()
            except OSError:
                continue
            yield status.st_dev, status.st_ino

    def _entries(self, path: Path, skipped: frozenset[tuple[int, int]]) -> Iterator[_Entry]:
        try:
            folder = os.open(path, FOLDER)
        except NotADirectoryError:
            yield from self._named(path)
            return
        except OSError:
            return
        try:
            with closing(walk(folder, language="build", apart_from=skipped)) as found:
                for name, parent, is_folder in islice(found, ENTRIES):
                    if not is_folder and name.endswith(self.suffixes):
                        status = os.stat(PurePosixPath(name).name, dir_fd=parent, follow_symlinks=False)
                        yield _entry(f"{path}/{name}", status)
        except (OSError, BuildError):
            # Something is gone, which is a change by itself, or a build gets no further either.
            return
        finally:
            os.close(folder)

    def _named(self, path: Path) -> Iterator[_Entry]:
        try:
            yield _entry(str(path), path.stat())
        except OSError:
            return


def _entry(name: str, status: os.stat_result) -> _Entry:
    if not stat.S_ISREG(status.st_mode):
        # A link, a pipe: that it is there makes a build fail, what it holds changes nothing.
        return name, -1, -1, status.st_ino
    return name, status.st_mtime_ns, status.st_size, status.st_ino
