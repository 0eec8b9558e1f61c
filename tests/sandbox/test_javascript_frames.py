"""QuickJS's frames are read as they are, and forged ones do no harm."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rho_wasm.sandbox.javascript_frames import JavaScriptFrames
from tests.sandbox.forged_memory import Forged

RUNTIME, ATOMS = 128, 512
OBJECT, CONTEXT, BYTECODE = 0xFFFF_FFFF, 5, 1


class Runtime:
    def __init__(self) -> None:
        self.memory = Forged()
        self.memory.word(RUNTIME + 60, ATOMS)
        self._atoms = 0

    def atom(self, said: str, *, length: int | None = None) -> int:
        self._atoms += 1
        wide = not said.isascii()
        characters = said.encode("utf-16-le" if wide else "latin-1")
        head = struct.pack("<IIIII", 1, (len(said) if length is None else length) | wide << 31, 0, 0, 0)
        self.memory.word(ATOMS + 4 * self._atoms, self.memory.put(head + characters))
        return self._atoms

    def function(
        self, file: int, name: int, *, line: int = 3, table: bytes = b"", size: int | None = None, kind: int = BYTECODE
    ) -> int:
        """The address of the function's object. Its bytecode are 100 bytes at 4,000."""
        fields = bytearray(92)
        fields[4] = kind
        struct.pack_into("<III", fields, 20, 4_000, 100, name)
        struct.pack_into("<II", fields, 64, file, line)
        struct.pack_into("<II", fields, 80, len(table) if size is None else size, self.memory.put(table))
        return self.memory.put(bytes(32) + struct.pack("<I", self.memory.put(bytes(fields))))

    def frame(self, function: int, *, outer: int = 0, at: int | None = None, tag: int = OBJECT) -> int:
        position = 0 if at is None else 4_001 + at
        return self.memory.put(struct.pack("<IIIIIIIII", outer, 0, function, tag, 0, 0, 0, position, 0))

    def lines(self, innermost: int) -> tuple[str, ...]:
        self.memory.word(RUNTIME + 148, innermost)
        return self.memory.read(JavaScriptFrames(RUNTIME)).lines()


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


def test_the_innermost_frame_comes_first_and_each_is_near_its_line(runtime: Runtime) -> None:
    file = runtime.atom("tool.js")
    engine = runtime.frame(runtime.function(runtime.atom("rho"), runtime.atom("call")))
    outer = runtime.frame(runtime.function(file, runtime.atom("outer")), outer=engine, at=5)
    native = runtime.frame(runtime.function(file, runtime.atom("map"), kind=CONTEXT), outer=outer)
    inner = runtime.frame(runtime.function(file, 0), outer=native)
    assert runtime.lines(inner) == ("near tool.js:3", "near tool.js:3 in outer")
    assert runtime.lines(runtime.frame(0, outer=outer, tag=3)) == ("near tool.js:3 in outer",)


@pytest.mark.parametrize(
    ("at", "line"), [(None, 3), (0, 3), (1, 3), (2, 4), (6, 4), (7, 2), (9, 2), (10, 99), (99, 99), (100, 99), (-1, 3)]
)
def test_the_line_is_that_of_the_table(runtime: Runtime, at: int | None, line: int) -> None:
    table = bytes(
        [
            *(1 + 2 * 5 + 2, 0),  # After two bytes the next line.
            *(0, 5, 3, 0x81, 0),  # After five more two lines up.
            *(0, 3, 0xC2, 1, 0),  # After three more 97 lines down.
        ]
    )
    innermost = runtime.frame(runtime.function(runtime.atom("a.js"), runtime.atom("f"), table=table), at=at)
    assert runtime.lines(innermost) == (f"near a.js:{line} in f",)


@pytest.mark.parametrize("said", ["plain", "日本", "\U0001f600"])
def test_names_of_both_widths_are_read(runtime: Runtime, said: str) -> None:
    atom = runtime.atom(said, length=len(said.encode("utf-16-le")) // 2)
    assert runtime.lines(runtime.frame(runtime.function(runtime.atom("a.js"), atom))) == (f"near a.js:3 in {said}",)


def test_a_name_is_inert_and_cut(runtime: Runtime) -> None:
    hostile = runtime.atom("\x1b[2J\n2026-01-01 forged " + "x" * 5_000)
    (line,) = runtime.lines(runtime.frame(runtime.function(hostile, hostile)))
    assert line.isprintable()
    assert len(line) <= 200


def test_frames_in_a_circle_end(runtime: Runtime) -> None:
    looped = runtime.frame(runtime.function(runtime.atom("a.js"), 0))
    runtime.memory.word(looped, looped)
    found = runtime.lines(looped)
    assert len(found) == 24 + 1
    assert found[16:] == ("... 233 more ...", *["near a.js:3"] * 7, "... more ...")


@pytest.mark.parametrize("address", [Forged.SIZE - 4, Forged.SIZE, 2**31, 2**32 - 1])
def test_an_address_outside_of_the_memory_does_no_harm(runtime: Runtime, address: int) -> None:
    good = runtime.function(runtime.atom("a.js"), 0)
    assert runtime.lines(runtime.frame(good, outer=address)) == ("near a.js:3",)
    assert runtime.lines(runtime.frame(address, outer=runtime.frame(good))) == ("near a.js:3",)
    assert runtime.lines(address) == ()
    broken = runtime.function(2**29, 2**29)
    assert runtime.lines(runtime.frame(broken, outer=runtime.frame(good))) == ("near a.js:3",)
    runtime.memory.word(RUNTIME + 60, address)
    assert runtime.lines(runtime.frame(good)) == ()
    assert runtime.memory.read(JavaScriptFrames(address)).lines() == ()


@pytest.mark.parametrize("size", [2**16 * 2, 2**31, 2**32 - 1])
def test_a_table_that_is_said_to_be_huge_is_not_read_and_no_line_told(runtime: Runtime, size: int) -> None:
    function = runtime.function(runtime.atom("a.js"), 0, table=b"\x0d\x00", size=size)
    assert runtime.lines(runtime.frame(function, at=50)) == ("a.js",)


@given(st.binary(max_size=4_096), st.integers(0, 4_096))
def test_whatever_stands_there_is_read_without_an_error(garbage: bytes, place: int) -> None:
    runtime = Runtime()
    function = runtime.function(runtime.atom("a.js"), 0, table=garbage)
    assert len(runtime.lines(runtime.frame(function, at=place % 100))) == 1
    runtime.memory.put(garbage)
    runtime.lines(place & ~3)
    runtime.memory.read(JavaScriptFrames(place & ~3)).lines()


def test_of_hostile_names_no_more_is_read_and_told_than_is_shown(runtime: Runtime) -> None:
    hostile, outer = runtime.atom("\x1b" * 128), 0
    for _ in range(100):
        outer = runtime.frame(runtime.function(hostile, hostile), outer=outer)
    runtime.memory.word(RUNTIME + 148, outer)
    found = runtime.memory.read(JavaScriptFrames(RUNTIME))
    assert (len(found.places), found.more, found.long) == (48, True, True)
    assert len(found.lines()) == 25


def test_an_atom_that_is_a_number_is_no_name(runtime: Runtime) -> None:
    assert runtime.lines(runtime.frame(runtime.function(runtime.atom("a.js"), 1 << 31 | 7))) == ("near a.js:3",)
