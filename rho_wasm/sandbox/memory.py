"""A guest's linear memory as host functions see it, and the one function that validates a guest's pointers."""

from __future__ import annotations

import ctypes
from typing import Any

from rho_wasm.sandbox.state import GuestTrap

__all__ = ["GuestMemory", "OutOfBounds", "bytes_at", "span"]

_MASK = 0xFFFF_FFFF

bytes_at: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
"""A copy of so many bytes at an address: ``ctypes.string_at``, without what that does in Python."""


class OutOfBounds(ValueError):
    """A pointer and a length of a guest that leave its memory."""


def span(pointer: int, length: int, size: int) -> tuple[int, int]:
    """``(pointer, length)`` as the unsigned 32-bit numbers that a guest means, inside a memory of ``size`` bytes.

    wasmtime hands i32 over signed. The sum is taken without wrapping, so a length that would wrap at 4 GiB is out.
    Zero bytes at the very end are in. Raises :class:`OutOfBounds`.
    """
    pointer &= _MASK
    length &= _MASK
    if pointer + length > size:
        raise OutOfBounds(f"{length} bytes at {pointer} leave a memory of {size} bytes")
    return pointer, length


class GuestMemory:
    """The memory of a guest for as long as it stands still: during one host call, or between two calls into it.

    ``base`` and ``size`` are read from wasmtime when the host call begins; the guest cannot grow its memory before
    the host call ends. ``touched`` counts the bytes read and written: they are what a host call costs.
    """

    __slots__ = ("_base", "size", "touched")

    def __init__(self, base: int, size: int) -> None:
        self._base = base
        self.size = size
        self.touched = 0

    def read(self, pointer: int, length: int) -> bytes:
        """A copy of ``length`` bytes at ``pointer``. Raises :class:`GuestTrap` (``trapped``) out of bounds.

        The caller bounds ``length``: what a guest asks to be read may be its whole memory.
        """
        start, count = self._inside(pointer, length)
        return ctypes.string_at(self._base + start, count)

    def write(self, pointer: int, data: bytes) -> None:
        """Copies ``data`` to ``pointer``. Out of bounds: :class:`GuestTrap` (``trapped``), and nothing is written."""
        start, count = self._inside(pointer, len(data))
        ctypes.memmove(self._base + start, data, count)

    def read_u32(self, pointer: int) -> int:
        """A little-endian unsigned 32-bit number."""
        return int.from_bytes(self.read(pointer, 4), "little")

    def write_u32(self, pointer: int, value: int) -> None:
        self.write(pointer, (value & _MASK).to_bytes(4, "little"))

    def write_u64(self, pointer: int, value: int) -> None:
        self.write(pointer, (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little"))

    def _inside(self, pointer: int, length: int) -> tuple[int, int]:
        try:
            start, count = span(pointer, length, self.size)
        except OutOfBounds as error:
            raise GuestTrap("trapped", f"a host function was given {error}") from None
        self.touched += count
        return start, count
