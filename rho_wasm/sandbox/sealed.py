"""A file in memory that nobody can change any more, not even who made it: native code that is mapped, not copied.

An engine's native code has tens of megabytes. Mapped from a file it is there at once, and every process that maps it
shares its pages; but a file on disk could be changed between the check of its content and its use. So the bytes are
checked while they are copied into a memfd, which is then sealed (``memfd_create(2)``): what was checked is what is
mapped. Linux only.
"""

from __future__ import annotations

import fcntl
import os
from typing import Any, Final, Self

__all__ = ["SealedFile", "can_seal"]

_SEALS: Final = ("F_SEAL_WRITE", "F_SEAL_GROW", "F_SEAL_SHRINK", "F_SEAL_SEAL")


def can_seal() -> bool:
    """Whether this system has such files."""
    return hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")  # noqa: PTH112 - one call, at a load


class SealedFile:
    """Filled with :meth:`write`, then sealed; only then it has a ``path``. Close it once what it holds is mapped.

    Raises OSError where there is no memory for it.
    """

    __slots__ = ("_sealed", "descriptor")

    def __init__(self, descriptor: int | None = None) -> None:
        """A new one, or the sealed one of another process of this host by its ``descriptor``, which is owned here."""
        self._sealed = descriptor is not None
        self.descriptor = -1
        if descriptor is None:
            descriptor = os.memfd_create("rho_wasm", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.descriptor = descriptor

    @classmethod
    def of(cls, data: bytes) -> Self:
        """One that holds ``data``, sealed."""
        file = cls()
        try:
            file.write(data)
            file.seal()
        except BaseException:
            file.close()
            raise
        return file

    def write(self, data: bytes | memoryview) -> None:
        """Appends ``data``."""
        left = memoryview(data)
        while left:
            left = left[os.write(self.descriptor, left) :]

    def seal(self) -> None:
        """From now on nobody can change it."""
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _seals())
        self._sealed = True

    @property
    def path(self) -> str:
        """Where it can be opened, in this process and while it is not closed."""
        assert self._sealed, "what is not sealed could still be changed"
        return f"/proc/self/fd/{self.descriptor}"

    def close(self) -> None:
        """Idempotent. What was mapped of it stays."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _seals() -> int:
    of_system: Any = fcntl  # Only those of Linux have them.
    seals = 0
    for name in _SEALS:
        seals |= int(getattr(of_system, name))
    return seals
