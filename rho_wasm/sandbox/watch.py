"""Makes a module say whether ``memory.grow`` was ever refused, so that a lack of memory is told apart from a panic.

A guest that gets no memory ends in ``unreachable``, exactly as one that panics, and wasmtime's C API reports no refused
grow. So every ``memory.grow`` becomes a call of one added function, which grows and, if the answer was -1, sets an
added and exported global (rewrite.py adds both).
"""

from __future__ import annotations

__all__ = ["GROW_REFUSED", "watcher_body"]

GROW_REFUSED = "rho:grow_refused"
"""The exported i32 global: 1 once a grow was refused."""


def watcher_body(flag: bytes) -> bytes:
    """The body of ``(i32) -> (i32)`` that grows the memory. ``flag`` is the global's index in LEB128."""
    # local 1 = memory.grow(local 0); if it is -1 the flag becomes 1; the answer is local 1
    return b"\x01\x01\x7f\x20\x00\x40\x00\x22\x01\x41\x7f\x46\x04\x40\x41\x01\x24" + flag + b"\x0b\x20\x01\x0b"
