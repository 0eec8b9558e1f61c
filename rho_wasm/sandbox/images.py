"""Engines and the images of tools over them: what an interpreter is to the host, and how a tool's memory is laid.

An engine is an interpreter that was booted once and kept. A tool of it is an image: what loading its source changed in
the engine's memory. A call makes an instance of the engine, grows its memory to the image's, copies the image over it,
and calls. The host reads the image itself: nothing of it is compiled, and wasmtime never sees it.
"""

from __future__ import annotations

import ctypes
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

COPIED_AT_ONCE: Final = 1024 * 1024
"""Bytes of an image that is copied on the event loop's thread. A larger one goes to a thread from the start."""

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_ADDRESS: Any = ctypes.cast(ctypes.memmove, _P).value
# One that keeps the interpreter lock, since letting go of it may cost 5 ms each time, and one that does not.
_copy: Any = ctypes.PYFUNCTYPE(None, _SIZE, _SIZE, _SIZE)(_ADDRESS)
_copy_long: Any = ctypes.CFUNCTYPE(None, _SIZE, _SIZE, _SIZE)(_ADDRESS)


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

    __slots__ = ("_runs", "data", "pages", "size")

    def __init__(self, data: bytes, segments: Sequence[DataSegment], *, pages: int) -> None:
        """``data`` is the whole file, which was admitted: every segment is inside ``pages``."""
        self.data = data
        """The file, which the runs point into."""
        address: Any = ctypes.cast(ctypes.c_char_p(data), _P).value
        self._runs = tuple((offset, address + start, length) for offset, start, length in segments if length)
        self.size = sum(length for _, _, length in self._runs)
        """Bytes that are copied."""
        self.pages = pages
        """How large the engine's memory is made, at least."""

    def prepare(self, instance: GuestInstance, limits: Limits) -> None:
        """Lays it over the memory of a fresh instance of its engine. Raises :class:`CallFailed` where that cannot grow.

        The bytes come from the host, not from the guest, so they cost no fuel: ``HostLimits.image_bytes`` bounds them.
        """
        base, size = instance.span()
        if (missing := self.pages - size // PAGE_BYTES) > 0:
            if not instance.grow(missing):
                raise out_of_memory("the tool needs more memory than its engine gets", limits=limits)
            base, _ = instance.span()
        copy = _copy if self.size <= COPIED_AT_ONCE else _copy_long
        for offset, source, length in self._runs:
            copy(base + offset, source, length)
