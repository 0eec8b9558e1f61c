"""Opens what lies inside one folder and nothing else, whatever links and devices are put in the way meanwhile.

A path is never resolved as a whole, for what was looked at and what is opened then need not be the same. It is walked
one part at a time, each opened relative to the folder before it (``dir_fd``) and never through a link
(``O_NOFOLLOW``), so a part that becomes a link during the call is refused by the system itself. (Linux's ``openat2``
promises no more here, is not in Python, and is missing elsewhere.)

No message names the path on this machine: the guest's own part of it, and the grant's name, say what is meant.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rho_wasm.errors import CapabilityError
from rho_wasm.untrusted import inert

__all__ = ["MAX_PATH_BYTES", "fault", "is_part", "opened_file", "opened_folder", "parts_of"]

MAX_PATH_BYTES: Final = 4_096
_PART_BYTES, _PARTS = 255, 64

_ANY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""A pipe, a device or a file under a lease must not make the host's thread wait."""
_GRANTED: Final = _ANY | os.O_DIRECTORY
_FOLDER: Final = _GRANTED | os.O_NOFOLLOW
_FILE: Final = _ANY | os.O_NOFOLLOW

_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENAMETOOLONG})
_LINK: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
_NOT_ALLOWED: Final = frozenset({errno.EACCES, errno.EPERM})
_NO_FILE: Final = frozenset({errno.ENXIO, errno.ENODEV, errno.EISDIR, errno.EOPNOTSUPP})


def is_part(name: str) -> bool:
    """Whether ``name`` can be one part of a path: UTF-8 of at most 255 bytes, no ``..``, no slash, no backslash."""
    if name in ("", ".", "..") or not {"/", "\\", "\0"}.isdisjoint(name):
        return False
    try:
        return len(name.encode()) <= _PART_BYTES
    except UnicodeEncodeError:
        return False


def parts_of(path: str) -> tuple[str, ...]:
    """The parts of a guest's path, which is relative and has single slashes between them; none for an empty path.

    Raises :class:`CapabilityError`: ``denied`` for what would lead out of the folder (``..``, an absolute path),
    ``invalid_arguments`` for what is no path.
    """
    if not path:
        return ()
    parts = tuple(path.split("/"))
    if path.startswith("/") or ".." in parts:
        raise CapabilityError("denied", f"{_shown(path)} leads out of the folder: paths are relative, without '..'")
    if len(path) > MAX_PATH_BYTES or len(parts) > _PARTS or not all(map(is_part, parts)):
        raise CapabilityError(
            "invalid_arguments",
            f"{_shown(path)} is no path: at most {_PARTS} names of at most {_PART_BYTES} bytes, with single slashes "
            "between them and no backslash",
        )
    return parts


def fault(what: str, error: OSError) -> CapabilityError:
    """``unavailable``: the host could not do ``what``. The text of ``error`` would name paths, its number does not."""
    return CapabilityError(
        "unavailable", f"the host cannot {what}: {os.strerror(error.errno or errno.EIO)}", fault=True
    )


@contextmanager
def opened_folder(folder: str, parts: Sequence[str], *, name: str) -> Iterator[int]:
    """A descriptor of the folder that ``parts`` lead to from ``folder``, an absolute path that an operator granted.

    ``folder`` is opened anew each time, through links where the operator put some, so that what he puts in its place
    is what guests see from then on; one call sees one folder. ``name`` is what the grant calls it.
    Raises :class:`CapabilityError`. Blocks on the file system.
    """
    try:
        descriptor = os.open(folder, _GRANTED)
    except OSError as error:
        raise fault(f"open the folder {name!r}", error) from None
    try:
        for part in parts:
            below = _opened(part, _FOLDER, descriptor)
            above, descriptor = descriptor, below
            os.close(above)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_file(folder: str, parts: Sequence[str], *, name: str) -> Iterator[tuple[int, int]]:
    """A descriptor of the regular file that ``parts`` lead to from ``folder``, and its size in bytes.

    As :func:`opened_folder`. Anything else than a regular file (a folder, a pipe, a device, a socket) is refused
    before it is opened, for opening alone may do something, and looked at again once it is open.
    """
    if not parts:
        raise CapabilityError("invalid_arguments", "a file's path is not empty")
    with opened_folder(folder, parts[:-1], name=name) as parent:
        _check_regular(parts[-1], _looked_at(parts[-1], parent))
        descriptor = _opened(parts[-1], _FILE, parent)
    try:
        about = os.fstat(descriptor)
        _check_regular(parts[-1], about)
        yield descriptor, about.st_size
    finally:
        os.close(descriptor)


def _looked_at(part: str, parent: int) -> os.stat_result:
    try:
        return os.stat(part, dir_fd=parent, follow_symlinks=False)
    except OSError as error:
        raise _refusal(part, error) from None


def _opened(part: str, flags: int, parent: int) -> int:
    try:
        return os.open(part, flags, dir_fd=parent)
    except OSError as error:
        raise _refusal(part, error) from None


def _check_regular(part: str, about: os.stat_result) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise _refusal(part, OSError(errno.ELOOP, ""))
    if not stat.S_ISREG(about.st_mode):
        raise _refusal(part, OSError(errno.ENXIO, ""))


def _refusal(part: str, error: OSError) -> CapabilityError:
    shown, number = _shown(part), error.errno
    if number in _NOT_THERE:
        return CapabilityError("invalid_arguments", f"there is no {shown} there")
    if number in _LINK:
        return CapabilityError("denied", f"{shown} is a link, or no folder: links are never followed")
    if number in _NOT_ALLOWED:
        return CapabilityError("denied", f"the host itself may not read {shown}")
    if number in _NO_FILE:
        return CapabilityError("denied", f"{shown} is no regular file")
    return fault(f"open {shown}", error)


def _shown(text: str) -> str:
    return f"'{inert(text, limit=100)}'"
