"""``files.read`` and ``files.list``: what lies in the folders that were granted, by the grant's names of them.

Reading waits for a disk, so it happens in a thread of the host's; where its call ends first, the thread is left behind
and counted, and too many of those make the capabilities ``unavailable`` until they end.
"""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import Field

from rho_wasm.capabilities.capability import Arguments, Capability, CapabilityContext
from rho_wasm.capabilities.files_open import MAX_PATH_BYTES, fault, is_part, opened_file, opened_folder, parts_of
from rho_wasm.errors import CapabilityError
from rho_wasm.grants import FilesBounds
from rho_wasm.host_threads import HostThreads, NoThread
from rho_wasm.limits import Limits

__all__ = ["PAGE_BYTES", "PAGE_ENTRIES", "ListArguments", "ReadArguments", "files_capabilities"]

PAGE_BYTES: Final = Limits().request_bytes - 1_024
"""Bytes of a file that one reply may hold, within what a guest may be sent at once."""
PAGE_ENTRIES: Final = 3_000
"""Entries of one reply, for the same reason: a name may take 255 bytes."""
_SCANNED: Final = 100_000
"""Entries of a folder that are looked through for one reply. No thread is held up by a folder without end."""
_KINDS: Final[Mapping[int, str]] = MappingProxyType(
    {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
)

Folder = Annotated[str, Field(max_length=64)]
Path = Annotated[str, Field(max_length=MAX_PATH_BYTES)]
Count = Annotated[int, Field(ge=0, lt=2**63)]


class ReadArguments(Arguments):
    """Of ``files.read``."""

    folder: Folder
    """The name that the grant gave to a folder."""
    path: Path
    """Relative to the folder, names with slashes between them."""
    offset: Count = 0
    """The first byte."""
    length: Count | None = None
    """How many bytes at most. None: all that follow, which have to fit in one reply."""


class ListArguments(Arguments):
    """Of ``files.list``."""

    folder: Folder
    path: Path = ""
    """A folder inside the folder; empty is the folder itself."""
    after: Path = ""
    """Only names that sort after this one: the last name of the page before."""


def files_capabilities(*, threads: HostThreads | None = None) -> tuple[Capability, ...]:
    """``files.read`` and ``files.list``. ``threads`` is where they read; None makes some of their own.

    ``files.read`` answers ``{"data": bytes, "size": int}``: the bytes from ``offset`` on, fewer than ``length`` only
    where the file ends, and how many the whole file had when it was opened. ``files.list`` answers ``{"entries":
    [{"name": str, "kind": str, "size": int}, ...], "more": bool, "unnamed": int}``, sorted by name: ``kind`` is
    ``file``, ``folder``, ``link`` (never followed) or ``other``, ``size`` a file's (else 0), ``more`` whether another
    page follows, and ``unnamed`` how many entries have a name that no path of a guest can have (no UTF-8, a
    backslash).

    Raised as :class:`CapabilityError`: ``denied`` for a folder that is not granted, a path that leads out of it, a
    link or what is no regular file; ``invalid_arguments`` for what is not there; ``quota`` beyond ``file_bytes``,
    beyond what fits in one reply, and for a folder of over 100,000 entries; ``unavailable`` for a fault of the file
    system.
    """
    pool = HostThreads() if threads is None else threads

    async def read(arguments: ReadArguments, context: CapabilityContext) -> Any:
        bounds: FilesBounds = context.bounds
        folder, parts = _granted(arguments.folder, bounds), parts_of(arguments.path)
        return await _in_thread(pool, lambda: _read(arguments, folder, parts, bounds.file_bytes))

    async def list_(arguments: ListArguments, context: CapabilityContext) -> Any:
        bounds: FilesBounds = context.bounds
        folder, parts = _granted(arguments.folder, bounds), parts_of(arguments.path)
        most = min(bounds.entries, PAGE_ENTRIES)
        return await _in_thread(pool, lambda: _list(arguments, folder, parts, most))

    return (
        Capability(name="files.read", arguments=ReadArguments, bounds=FilesBounds, later=read),
        Capability(name="files.list", arguments=ListArguments, bounds=FilesBounds, later=list_),
    )


async def _in_thread(threads: HostThreads, function: Callable[[], Any]) -> Any:
    try:
        outcome = await threads.run(function)
    except NoThread as error:
        raise CapabilityError("unavailable", f"the host has no thread to read files in: {error}", fault=True) from None
    if outcome.error is None:
        return outcome.value
    try:
        raise outcome.error
    finally:
        del outcome  # its error's traceback holds this frame: together they would wait for a garbage collection


def _granted(name: str, bounds: FilesBounds) -> str:
    folder = bounds.folders.get(name)
    if folder is None:
        names = ", ".join(sorted(bounds.folders)) or "none"
        raise CapabilityError("denied", f"no folder of that name is granted (granted: {names})")
    return folder


def _read(arguments: ReadArguments, folder: str, parts: tuple[str, ...], file_bytes: int) -> dict[str, Any]:
    offset, length = arguments.offset, arguments.length
    if length is not None and length > PAGE_BYTES:
        raise CapabilityError("quota", f"one reply holds at most {PAGE_BYTES} bytes of a file: ask for less at once")
    with opened_file(folder, parts, name=arguments.folder) as (descriptor, size):
        if size > file_bytes:
            raise CapabilityError("quota", f"the file has {size} bytes, more than the grant's file_bytes={file_bytes}")
        if length is None and size - offset > PAGE_BYTES:
            raise CapabilityError(
                "quota", f"the file has {size} bytes: read at most {PAGE_BYTES} at once, with offset and length"
            )
        # It may grow meanwhile, and what the system makes up as it is read has a size of 0.
        room = min(PAGE_BYTES if length is None else length, max(0, file_bytes - offset))
        return {"data": _bytes(descriptor, offset, room), "size": size}


def _bytes(descriptor: int, offset: int, room: int) -> bytes:
    pieces: list[bytes] = []
    while room > 0:
        try:
            piece = os.pread(descriptor, room, offset)
        except OSError as error:
            raise fault("read the file", error) from None
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        room -= len(piece)
    return b"".join(pieces)


def _list(arguments: ListArguments, folder: str, parts: tuple[str, ...], most: int) -> dict[str, Any]:
    if not most:
        raise CapabilityError("quota", "the grant's entries=0 lets it see none")
    with opened_folder(folder, parts, name=arguments.folder) as descriptor:
        names, unnamed = _names(descriptor, arguments.after)
        page = heapq.nsmallest(most, names)
        return {
            "entries": [_entry(name, descriptor) for name in page],
            "more": len(names) > len(page),
            "unnamed": unnamed,
        }


def _names(descriptor: int, after: str) -> tuple[list[str], int]:
    """The names that sort after ``after``, in no order, and how many entries have none."""
    names: list[str] = []
    unnamed = 0
    try:
        with os.scandir(descriptor) as found:
            for count, entry in enumerate(found):
                if count >= _SCANNED:
                    raise CapabilityError("quota", f"the folder has more than {_SCANNED} entries")
                if not is_part(entry.name):
                    unnamed += 1
                elif entry.name > after:
                    names.append(entry.name)
    except OSError as error:
        raise fault("list the folder", error) from None
    return names, unnamed


def _entry(name: str, descriptor: int) -> dict[str, Any]:
    try:
        about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return {"name": name, "kind": "other", "size": 0}  # gone meanwhile, or the host may not look at it
    kind = _KINDS.get(stat.S_IFMT(about.st_mode), "other")
    return {"name": name, "kind": kind, "size": about.st_size if kind == "file" else 0}
