"""Runs one native program of a toolchain: in a fresh folder, bounded, and with nothing of the host in its reach.

The kernel (Landlock) lets it open the paths that its toolchain names and the fresh folder, whoever asks, and no TCP
socket. Its environment is exactly what the toolchain gives, and where the folder lies is in nothing that it says. Time,
memory, the size of a file and of all files are bounded.

What a source can make of what its compiler must read: C, C++ and Zig (by its assembler) can include the headers and the
standard library that come with the compiler, which are public; Rust, Go and AssemblyScript nothing but the project.

A compiler is nevertheless a large native program in which a crafted source may find a hole, so native compilers are
for authors whom the host trusts with that much.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.sandbox.child import ChildOutcome, Confinement, run_child
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains.limits import BuildLimits

__all__ = ["fresh_folder", "require_confinement", "run_confined", "without_folder"]

_LOOK_S = 0.1
"""How often the folder of a build is measured while it runs."""


def require_confinement(version: int, *, language: str, trusted: bool) -> None:
    """Raises :class:`BuildError` (``confinement_missing``) where the kernel has no Landlock, unless ``trusted``."""
    if version == 0 and not trusted:
        raise BuildError(
            language,
            [
                Diagnostic(
                    "this system has no Landlock (Linux 5.13 or later, enabled), "
                    "so the compiler could read the host's files for a hostile source"
                )
            ],
            reason="confinement_missing",
            hint="build on such a Linux, or say trusted=True (--trusted) for a source that you wrote or read",
        )


@asynccontextmanager
async def fresh_folder() -> AsyncIterator[Path]:
    """A new empty folder, which is removed with all that is in it, whatever happens."""
    folder = await anyio.to_thread.run_sync(_new_folder)
    try:
        yield folder
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_remove, folder)


def _new_folder() -> Path:
    # Resolved, because the kernel's rules and a compiler's overlay know real paths only.
    return Path(tempfile.mkdtemp(prefix="rho-build-")).resolve()


def _remove(folder: Path) -> None:
    """Removes all of it, however deep it is and whatever rights what ran there left behind."""
    token, made = os.urandom(8).hex(), 0
    with suppress(OSError):
        while folders := _without_files(folder):
            for each in folders:
                for inner in _without_files(each):
                    # Brought up to the top: a path that goes on growing would become too long to be named.
                    made += 1
                    inner.chmod(0o700)
                    inner.rename(folder / f"{token}-{made}")
                each.rmdir()
        folder.rmdir()


def _without_files(folder: Path) -> list[Path]:
    """Deletes what is in ``folder``, except for the folders, which it answers."""
    folder.chmod(0o700)
    with os.scandir(folder) as entries:
        found = [(Path(entry.path), entry.is_dir(follow_symlinks=False)) for entry in entries]
    for path, is_folder in found:
        if not is_folder:
            path.unlink()
    return [path for path, is_folder in found if is_folder]


async def run_confined(
    argv: Sequence[str],
    *,
    folder: Path,
    language: str,
    read: Sequence[str | Path],
    environment: Mapping[str, str],
    limits: BuildLimits,
    native: bool = True,
    trusted: bool = False,
    write: Sequence[str | Path] = (),
    file_bytes: int | None = None,
    tells_folder: bool = False,
) -> ChildOutcome:
    """Runs ``argv`` in ``folder`` and answers how it ended. Absolute paths in ``read`` may be read and executed.

    It may write in ``folder``, and in ``write``: the cache of a toolchain that no source of a tool has a say in.
    ``native`` takes the bounds of large compilers (``BuildLimits.native_...``). ``file_bytes`` bounds one file where a
    toolchain writes larger ones than a module is; None is ``BuildLimits.file_bytes``. An ``outcome`` whose reason is
    ``output`` wrote more in all than ``BuildLimits.folder_bytes`` or ``folder_files``, or more on standard output than
    ``message_bytes``. No number of processes is bounded, because the kernel counts all of a user's together; none can
    leave the program's session, so all of them end with it. What it says is :func:`without_folder`,
    unless ``tells_folder``.

    Raises :class:`BuildError` (``confinement_missing``), and OSError if it cannot be started.
    """
    require_confinement(landlock_version(), language=language, trusted=trusted)
    wall_seconds = limits.native_wall_seconds if native else limits.wall_seconds
    outcome: ChildOutcome | None = None
    not_started: OSError | None = None
    filled = False

    async def watch() -> None:
        nonlocal filled
        while True:
            await anyio.sleep(_LOOK_S)
            if await anyio.to_thread.run_sync(_is_over, folder, limits):
                filled = True
                group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        try:
            outcome = await run_child(
                argv,
                confinement=Confinement(
                    cpu_seconds=limits.native_cpu_seconds if native else limits.cpu_seconds,
                    memory_bytes=limits.native_memory_bytes if native else limits.memory_bytes,
                    file_bytes=limits.file_bytes if file_bytes is None else file_bytes,
                    read=tuple(str(path) for path in read),
                    write=(str(folder), *(str(path) for path in write)),
                    one_session=True,
                ),
                wall_seconds=wall_seconds,
                max_output_bytes=limits.message_bytes,
                max_error_bytes=limits.message_bytes,
                cwd=folder,
                env=environment,
            )
        except OSError as error:
            not_started = error
        group.cancel_scope.cancel()
    if not_started is not None:
        raise not_started
    if outcome is None or filled:
        return ChildOutcome(returncode=-9, signal=9, stdout=b"", stderr=b"", reason="output")
    if not tells_folder:
        stdout, stderr = (without_folder(said, folder) for said in (outcome.stdout, outcome.stderr))
        outcome = replace(outcome, stdout=stdout, stderr=stderr)
    if await anyio.to_thread.run_sync(_is_over, folder, limits):
        return replace(outcome, reason="output")
    return outcome


def without_folder(said: bytes, folder: Path) -> bytes:
    """What a program said, with the files of ``folder`` told as from within it. No author is to know where it lies."""
    path = os.fsencode(folder)
    return said.replace(path + b"/", b"").replace(path, b".")


def _is_over(folder: Path, limits: BuildLimits) -> bool:
    size = count = 0
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        # What is allocated: a sparse file is as long as it likes.
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if size > limits.folder_bytes or count > limits.folder_files:
                        return True
        except FileNotFoundError:
            continue  # It was removed meanwhile.
        except OSError:
            return True  # Nobody can say how much there is: the path is too long, or the folder was closed to us.
    return False
