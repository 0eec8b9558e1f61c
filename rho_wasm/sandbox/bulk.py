"""Makes large ``memory.fill`` and ``memory.copy`` go in steps of 64 KiB, between which a guest can be stopped or left.

wasmtime runs one such instruction to its end before it looks at fuel or epoch: 64 MiB that were not touched before take
50 ms. So each becomes a call of an added function of the same three operands (rewrite.py). What does not lie inside the
memory is left to the instruction itself, which traps before it writes. ``memory.init`` stays as it is: its source is
the module, which is bounded, and so is a table.
"""

from __future__ import annotations

__all__ = ["COPY_BODY", "FILL_BODY", "STEP_BYTES"]

STEP_BYTES = 65_536

# Both are what the text beside them assembles to; a test holds them to it.
FILL_BODY = bytes.fromhex(
    "00"  # no locals but the operands: 0 to, 1 value, 2 size
    "2000ad2002ad7c3f00ad4210865804400340"  # to + size <= memory.size * 65536: loop
    "2002418080044b0440"  # while size > 65536:
    "2000200141808004fc0b00"  # memory.fill(to, value, 65536)
    "2000418080046a2100"  # to += 65536
    "2002418080046b2102"  # size -= 65536
    "0c010b0b0b"
    "200020012002fc0b000b"  # memory.fill(to, value, size)
)
"""``(i32, i32, i32) -> ()``"""
COPY_BODY = bytes.fromhex(
    "00"  # 0 to, 1 from, 2 size
    "20002001200020014b1bad2002ad7c3f00ad4210865804400340"  # max(to, from) + size <= memory.size * 65536: loop
    "2002418080044b0440"  # while size > 65536:
    "2002418080046b2102"  # size -= 65536
    "200020014d0440"  # to <= from: from the front, so that an overlap is read before it is written
    "2000200141808004fc0a0000"  # memory.copy(to, from, 65536)
    "2000418080046a21002001418080046a2101"  # to += 65536; from += 65536
    "05200020026a200120026a41808004fc0a00000b"  # else from the end: memory.copy(to + size, from + size, 65536)
    "0c010b0b0b"
    "200020012002fc0a00000b"  # memory.copy(to, from, size)
)
"""``(i32, i32, i32) -> ()``"""
