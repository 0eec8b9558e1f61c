"""CPython's frames are read as they are, and forged ones do no harm."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rho_wasm.sandbox.python_frames import PythonFrames
from tests.sandbox.forged_memory import Forged

CURRENT = 512
ASCII, LATIN, WIDE, WIDEST = 0x64, 0x24, 0x28, 0x30


def text(memory: Forged, said: str, *, state: int = ASCII, length: int | None = None) -> int:
    encoding = {ASCII: "latin-1", LATIN: "latin-1", WIDE: "utf-16-le", WIDEST: "utf-32-le"}.get(state, "latin-1")
    head = struct.pack("<IIIII", 1, 0, len(said) if length is None else length, 0, state)
    return memory.put(head + (b"" if state == ASCII else bytes(8)) + said.encode(encoding))


def code(
    memory: Forged, *, file: int, name: int, first: int = 7, table: bytes = b"", table_length: int | None = None
) -> int:
    lines = memory.put(struct.pack("<IIII", 1, 0, len(table) if table_length is None else table_length, 0) + table)
    fields = bytearray(124)
    struct.pack_into("<I", fields, 44, first)
    struct.pack_into("<IIII", fields, 80, file, 0, name, lines)
    return memory.put(bytes(fields))


def frame(memory: Forged, function: int, *, outer: int = 0, unit: int = 0) -> int:
    return memory.put(struct.pack("<IIIIIIII", function, outer, 0, 0, 0, 0, 0, (function + 124 + 2 * unit) % 2**32))


def begins(memory: Forged, innermost: int) -> None:
    memory.word(CURRENT, memory.put(struct.pack("<I", innermost)))


def lines(memory: Forged) -> tuple[str, ...]:
    return memory.read(PythonFrames(CURRENT)).lines()


def test_the_innermost_frame_comes_first_and_foreign_ones_are_left_out() -> None:
    memory = Forged()
    name, file = text(memory, "t"), text(memory, "tool.py")
    engine = frame(memory, code(memory, file=text(memory, "<rho._tools>"), name=name))
    outer = frame(memory, code(memory, file=file, name=text(memory, "outer"), table=b"\x80\x00"), outer=engine)
    library = code(memory, file=text(memory, "/wlr/build-staging/Lib/json/__init__.py"), name=name)
    inner = frame(memory, code(memory, file=file, name=text(memory, "A.m"), table=b"\x80\x00"), outer=outer)
    begins(memory, frame(memory, library, outer=inner))
    assert lines(memory) == ("tool.py:7 in A.m", "tool.py:7 in outer")


@pytest.mark.parametrize(
    ("unit", "line"), [(0, 7), (1, 8), (2, 8), (3, 5), (4, 5), (5, None), (6, 6), (7, 105), (8, None), (2**30, None)]
)
def test_the_line_is_that_of_the_table(unit: int, line: int | None) -> None:
    table = bytes(
        [
            *(0x80 | 0 << 3 | 0, 0),  # One unit, the same line.
            *(0x80 | 11 << 3 | 1, 0, 0),  # Two units, the next line.
            *(0x80 | 14 << 3 | 1, 0b111, 0, 0x41, 0, 0),  # Two units, three lines up.
            0x80 | 15 << 3 | 0,  # One unit that has no line.
            *(0x80 | 13 << 3 | 0, 0b10),  # One unit, one line down.
            *(0x80 | 13 << 3 | 0, 0x46, 0x03),  # One unit, 99 lines down.
        ]
    )
    memory = Forged()
    function = code(memory, file=text(memory, "tool.py"), name=text(memory, "t"), table=table)
    begins(memory, frame(memory, function, unit=unit))
    assert lines(memory) == ("tool.py in t" if line is None else f"tool.py:{line} in t",)


@pytest.mark.parametrize(
    ("state", "said"),
    [(ASCII, "plain"), (LATIN, "ä"), (WIDE, "日本"), (WIDEST, "\U0001f600"), (WIDE, "\ud800"), (0, "?"), (0x04, "?")],
)
def test_names_of_every_width_are_read(state: int, said: str) -> None:
    memory = Forged()
    try:
        name = text(memory, said, state=state)
    except UnicodeEncodeError:
        name, said = memory.put(struct.pack("<IIIII8xH", 1, 0, 1, 0, state, 0xD800)), "\ufffd"
    begins(memory, frame(memory, code(memory, file=text(memory, "tool.py"), name=name, table=b"\x80\x00")))
    assert lines(memory) == (f"tool.py:7 in {said}",)


def test_a_name_is_inert_and_cut() -> None:
    memory = Forged()
    hostile = text(memory, "\x1b[2J\n2026-01-01 forged " + "x" * 5_000)
    begins(memory, frame(memory, code(memory, file=hostile, name=hostile, table=b"\x80\x00")))
    (line,) = lines(memory)
    assert line.isprintable()
    assert len(line) <= 200


def test_of_a_long_name_that_is_not_plain_only_the_beginning_is_told() -> None:
    memory = Forged()
    name = text(memory, "ä" * 100, state=LATIN)
    begins(memory, frame(memory, code(memory, file=text(memory, "tool.py"), name=name, table=b"\x80\x00")))
    assert lines(memory) == (f"tool.py:7 in {'ä' * 39}…",)


def test_frames_in_a_circle_end() -> None:
    memory = Forged()
    function = code(memory, file=text(memory, "tool.py"), name=text(memory, "t"), table=b"\x80\x00")
    looped = frame(memory, function)
    memory.word(looped + 4, looped)
    begins(memory, looped)
    found = lines(memory)
    assert len(found) == 24 + 1
    assert found[16] == "... 233 more ..."
    assert found[24] == "... more ..."


@pytest.mark.parametrize("address", [Forged.SIZE - 4, Forged.SIZE, 2**31, 2**32 - 1])
def test_an_address_outside_of_the_memory_ends_the_list(address: int) -> None:
    memory = Forged()
    function = code(memory, file=text(memory, "tool.py"), name=text(memory, "t"), table=b"\x80\x00")
    begins(memory, frame(memory, function, outer=frame(memory, address)))
    assert lines(memory) == ("tool.py:7 in t",)
    begins(memory, address)
    assert lines(memory) == ()
    memory.word(CURRENT, address)
    assert lines(memory) == ()
    assert memory.read(PythonFrames(address)).lines() == ()


@pytest.mark.parametrize("length", [2**16 * 2, 2**31, 2**32 - 1])
def test_a_text_or_a_table_that_is_said_to_be_huge_is_not_read(length: int) -> None:
    memory = Forged()
    file, name = text(memory, "tool.py"), text(memory, "t")
    begins(memory, frame(memory, code(memory, file=file, name=name, table=b"\x80\x00", table_length=length)))
    assert lines(memory) == ("tool.py in t",)
    begins(memory, frame(memory, code(memory, file=text(memory, "f", length=length), name=name, table=b"\x80\x00")))
    (line,) = lines(memory)
    assert len(line) <= 200


def test_so_many_functions_are_looked_at_however_many_there_are() -> None:
    memory = Forged()
    file, name = text(memory, "tool.py"), text(memory, "\x9b" * 128, state=LATIN)
    outer = 0
    for _ in range(100):
        outer = frame(memory, code(memory, file=file, name=name, table=b"\x80\x00"), outer=outer)
    begins(memory, outer)
    found = memory.read(PythonFrames(CURRENT))
    assert (len(found.places), found.more) == (48, True)


def test_what_takes_long_to_tell_is_long() -> None:
    memory = Forged()
    file = text(memory, "tool.py")
    for name, long in ((text(memory, "t"), False), (text(memory, "\x9b" * 128, state=LATIN), True)):
        function, outer = code(memory, file=file, name=name, table=b"\x80\x00"), 0
        for _ in range(256):
            outer = frame(memory, function, outer=outer)
        begins(memory, outer)
        found = memory.read(PythonFrames(CURRENT))
        assert (len(found.places), found.more, found.long) == (256, False, long)
        assert len(found.lines()) == 25


def test_the_table_of_a_function_that_calls_itself_counts_once() -> None:
    memory = Forged()
    table = b"\x80\x00" * 4_000
    function = code(memory, file=text(memory, "tool.py"), name=text(memory, "t"), table=table)
    begins(memory, frame(memory, function, outer=frame(memory, function, outer=frame(memory, function))))
    assert lines(memory) == ("tool.py:7 in t",) * 3


def test_tables_are_read_up_to_a_bound_of_all_of_them() -> None:
    memory = Forged()
    file, name = text(memory, "tool.py"), text(memory, "t")
    table, outer = b"\xd0" * 9_000, 0
    for _ in range(3):
        outer = frame(memory, code(memory, file=file, name=name, table=table), outer=outer)
    begins(memory, outer)
    found = memory.read(PythonFrames(CURRENT))
    assert found.long
    assert found.lines() == ("tool.py:7 in t", "tool.py in t", "tool.py in t")


@given(st.binary(max_size=4_096), st.integers(0, 4_096))
def test_whatever_stands_there_is_read_without_an_error(garbage: bytes, place: int) -> None:
    memory = Forged()
    name = text(memory, "t")
    begins(memory, frame(memory, code(memory, file=name, name=name, table=garbage), unit=place))
    assert len(lines(memory)) == 1
    memory.put(garbage)
    memory.word(CURRENT, place & ~3)
    lines(memory)


def test_a_line_that_cannot_be_one_is_not_told() -> None:
    memory = Forged()
    function = code(memory, file=text(memory, "tool.py"), name=text(memory, "t"), first=2**31, table=b"\x80\x00")
    begins(memory, frame(memory, function))
    assert lines(memory) == ("tool.py in t",)
