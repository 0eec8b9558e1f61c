"""Memories that a hostile tool could leave behind, in which an interpreter's frames are looked for."""

from __future__ import annotations

import ctypes
import struct

from rho_wasm.sandbox.interpreter_frames import FrameReader, InterpreterMemory, Stopped

__all__ = ["Forged"]


class Forged:
    """Two pages, all zeros but for what is put there."""

    SIZE = 2 * 65_536

    def __init__(self) -> None:
        self._bytes = bytearray(self.SIZE)
        self._free = 1_024

    def word(self, address: int, *values: int) -> None:
        struct.pack_into(f"<{len(values)}I", self._bytes, address, *values)

    def put(self, data: bytes) -> int:
        """Where ``data`` is put, where nothing else is."""
        address = self._free
        self._bytes[address : address + len(data)] = data
        self._free += -(-len(data) // 16) * 16 + 16
        return address

    def read(self, reader: FrameReader) -> Stopped:
        base = (ctypes.c_char * self.SIZE).from_buffer(self._bytes)
        try:
            return reader.read(InterpreterMemory(ctypes.addressof(base), self.SIZE))
        finally:
            del base
