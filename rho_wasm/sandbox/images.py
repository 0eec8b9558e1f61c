"""Engines and the images of tools over them: what an interpreter is to the host, and how a tool's memory is laid.

An engine is an interpreter that was booted once and kept. A tool of it is an image: what loading its source changed in
the engine's memory. A call makes an instance of the engine, grows its memory to the image's, copies the image over it,
and calls. The host reads the image itself: nothing of it is compiled, and wasmtime never sees it.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rho_wasm.limits import Limits
from rho_wasm.sandbox.abi import PAGE_BYTES
from rho_wasm.sandbox.data_segments import DataSegment
from rho_wasm.sandbox.faults import out_of_memory

if TYPE_CHECKING:
    from rho_wasm.sandbox.instance import GuestInstance

__all__ = ["COPIED_AT_ONCE", "EngineBinary", "EngineFinder", "Image", "LoadedSource"]

COPIED_AT_ONCE: Final = 256
"""Pages of 4 KiB that an image may touch which is copied on the event loop's thread: about 0.5 ms, since each is a page
fault. A larger one goes to a thread from the start."""

_PAGE: Final = 4_096
_MAX_VECTORS: Final = 1_024
"""Of one system call (IOV_MAX)."""
_VECTOR: Final = struct.Struct("<QQ")
"""``struct iovec``: an address and a length."""

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t


def _functions(library: Any, call: Any) -> tuple[Any, Any]:
    """memmove, and process_vm_writev where there is one."""
    copy = call(None, _SIZE, _SIZE, _SIZE)(ctypes.cast(ctypes.memmove, _P).value)
    plain = sys.byteorder == "little" and ctypes.sizeof(_P) == _VECTOR.size // 2
    if not plain or not hasattr(library, "process_vm_writev"):
        return copy, None
    write = call(ctypes.c_ssize_t, ctypes.c_int, _P, ctypes.c_ulong, _P, ctypes.c_ulong, ctypes.c_ulong)
    return copy, write(("process_vm_writev", library))


# Those that keep the interpreter lock, since letting go of it may cost 5 ms each time, and those that do not.
_SHORT = _functions(ctypes.CDLL(None), ctypes.PYFUNCTYPE)
_LONG = _functions(ctypes.CDLL(None), ctypes.CFUNCTYPE)


@dataclass(frozen=True, slots=True)
class EngineBinary:
    """An interpreter, booted and kept as a module of its own (``toolchains/engines``)."""

    sha256: bytes
    """Of ``wasm``: 32 bytes."""
    wasm: bytes = field(repr=False)
    name: str
    """What messages call it: one line."""


EngineFinder: TypeAlias = Callable[[bytes], EngineBinary | None]
"""``(sha256) -> engine``, None where it is not installed. Sync; it is called in a thread."""


@dataclass(frozen=True, slots=True)
class LoadedSource:
    """What ``rho_load`` came to: its reply, which is a guest's word, and the memory that it left behind."""

    reply: bytes
    """Plain CBOR, not looked at yet."""
    pages: int
    """How large the memory is now, in pages of 64 KiB."""
    changes: tuple[tuple[int, bytes], ...] = field(repr=False)
    """Where the memory differs from the engine's own: offset and content, ascending, not overlapping."""


class Image:
    """A tool's memory, ready to be laid over an engine's. Immutable, and used from any thread."""

    __slots__ = ("_count", "_here", "_ones", "_there", "data", "pages", "size", "touched")

    def __init__(self, data: bytes, segments: Sequence[DataSegment], *, pages: int) -> None:
        """``data`` is the whole file, which was admitted: every segment is inside ``pages``."""
        self.data = data
        """The file, which the runs point into."""
        address: Any = ctypes.cast(ctypes.c_char_p(data), _P).value
        runs = [each for each in segments if each.length]
        self.size = sum(run.length for run in runs)
        """Bytes that are copied."""
        self.pages = pages
        """How large the engine's memory is made, at least."""
        self.touched = sum((run.end - 1) // _PAGE - run.offset // _PAGE + 1 for run in runs)
        """Pages of 4 KiB that are written to."""
        self._count = len(runs)
        # What process_vm_writev is given: where each run is, and where it goes to in a memory at 0. That is one number,
        # so that adding the memory's own address to each is one addition. No more is kept: tools may be thousands.
        self._here = b"".join(_VECTOR.pack(address + run.start, run.length) for run in runs)
        self._there = int.from_bytes(b"".join(_VECTOR.pack(run.offset, run.length) for run in runs), "little")
        self._ones = int.from_bytes(_VECTOR.pack(1, 0) * len(runs), "little")

    def prepare(self, instance: GuestInstance, limits: Limits) -> None:
        """Lays it over the memory of a fresh instance of its engine. Raises :class:`CallFailed` where that cannot grow.

        The bytes come from the host, not from the guest, so they cost no fuel: ``HostLimits.image_bytes`` bounds them.
        """
        base, size = instance.span()
        if (missing := self.pages - size // PAGE_BYTES) > 0:
            if not instance.grow(missing):
                raise out_of_memory("the tool needs more memory than its engine gets", limits=limits)
            base, _ = instance.span()
        copy, write = _SHORT if self.touched <= COPIED_AT_ONCE else _LONG
        count = self._count
        there = (self._there + base * self._ones).to_bytes(count * _VECTOR.size, "little")
        if (
            write is not None
            and count <= _MAX_VECTORS
            # The kernel writes to pages that are not there yet without a fault for each: that takes half the time.
            and write(os.getpid(), self._here, count, there, count, 0) == self.size
        ):
            return
        for (source, length), (target, _) in zip(
            _VECTOR.iter_unpack(self._here), _VECTOR.iter_unpack(there), strict=True
        ):
            copy(target, source, length)
