"""Where a tool over an engine was when it was stopped: read in the interpreter's memory, without running any of it.

WebAssembly's own backtrace names functions of the interpreter, which tell an author nothing. What the interpreter knows
of its own calls stands in its memory, at places that follow from the engine's bytes. All of it may be forged, by the
tool whose backtrace it is: so every read is bounded, and what comes of it is text like any other that a guest says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from rho_wasm.sandbox.memory import OutOfBounds, bytes_at, span
from rho_wasm.untrusted import inert

__all__ = [
    "FILE_CHARS",
    "NAME_CHARS",
    "TABLE_BYTES",
    "FrameReader",
    "Function",
    "InterpreterMemory",
    "Place",
    "Stopped",
    "number",
    "walked",
]

FILE_CHARS: Final = 128
NAME_CHARS: Final = 128
_LINE_CHARS: Final = 200
_STRANGE_CHARS: Final = 40
"""Of a name that is not of printable ASCII alone: making it inert holds the interpreter lock for 1 µs a character."""
_MAX_FRAMES: Final = 256
"""So many are looked at, from the innermost on."""
_MAX_FUNCTIONS: Final = 48
"""Of which frames may be. Looking at one takes ten times as long as at a frame."""
_SHOWN, _SHOWN_OUTERMOST = 24, 8
TABLE_BYTES: Final = 16 * 1024
"""Of all tables of lines of one call. What is in a function beyond them has no line."""
_SHORT: Final = 1_024
"""Bytes of tables, and characters: to tell so much takes no longer than may be on the event loop's thread."""
_MAX_LINE: Final = 1_000_000


class Function(NamedTuple):
    """One of the author's."""

    file: str
    name: str
    """Empty for one that has none."""
    first_line: int
    """0 where it is not known."""
    table: bytes
    """Of lines, in the interpreter's own format."""
    start: int
    """The address of its bytecode."""


class Place(NamedTuple):
    """Where one of the author's functions was."""

    function: Function
    position: int
    """The address in its bytecode that the frame names."""

    @property
    def weight(self) -> int:
        """How much there is to tell, in bytes and characters."""
        function = self.function
        return len(function.table) + len(function.file) + len(function.name)


@dataclass(frozen=True, slots=True)
class Stopped:
    """A tool's frames, the innermost first. What takes longer than finding them is done when :meth:`lines` is asked."""

    places: tuple[Place, ...] = ()
    more: bool = False
    """There are others around these."""
    line_of: Callable[[Place], int | None] = lambda place: place.function.first_line
    near: bool = False
    """Lines are the nearest that are known."""

    @property
    def long(self) -> bool:
        """Whether :meth:`lines` takes too long for the event loop's thread."""
        inner, outer = self._shown()
        return sum(each.weight for each in inner + outer) > _SHORT

    def lines(self) -> tuple[str, ...]:
        """``file:line in name`` of each, inert; ``near`` before it where that is all that is known."""
        inner, outer = self._shown()
        left = TABLE_BYTES
        texts: dict[Place, str] = {}
        for place in inner + outer:
            if place in texts:
                continue  # A function that calls itself.
            function = place.function
            left -= len(function.table)
            texts[place] = self._told(place if left >= 0 else Place(function._replace(first_line=0, table=b""), 0))
        told = [texts[place] for place in inner + outer]
        if (over := len(self.places) - len(told)) > 0:
            told.insert(len(inner), f"... {over} more ...")
        return (*told, "... more ...") if self.more else tuple(told)

    def _shown(self) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Of many, the innermost and the outermost ones."""
        outermost = _SHOWN_OUTERMOST - self.more
        innermost = _SHOWN - _SHOWN_OUTERMOST
        if len(self.places) <= innermost + outermost:
            return self.places, ()
        return self.places[:innermost], self.places[-outermost:]

    def _told(self, place: Place) -> str:
        file, name = _short(place.function.file), _short(place.function.name)
        line = self.line_of(place)
        where = file
        if line is not None and 0 < line <= _MAX_LINE:
            where = f"{'near ' if self.near else ''}{file}:{line}"
        return inert(f"{where} in {name}" if name else where, limit=_LINE_CHARS)


def _short(name: str) -> str:
    plain = name.isascii() and name.isprintable()
    return name if plain or len(name) <= _STRANGE_CHARS else f"{name[: _STRANGE_CHARS - 1]}…"


class FrameReader(Protocol):
    """Knows the layouts of one interpreter. ``current`` is the address that its innermost frame is found by."""

    current: int

    def read(self, memory: InterpreterMemory) -> Stopped:
        """The tool's frames, of a memory that stands still."""


class InterpreterMemory:
    """The ``size`` bytes of a guest's memory at the address ``base``."""

    def __init__(self, base: int, size: int) -> None:
        self._base, self._size = base, size

    def read(self, address: int, length: int) -> bytes:
        """A copy. ``length`` is bounded by who asks. Raises :class:`OutOfBounds`."""
        start, count = span(address, length, self._size)
        data: bytes = bytes_at(self._base + start, count)
        return data

    def word(self, address: int) -> int:
        """Of 32 bits, little-endian. Raises :class:`OutOfBounds`."""
        return int.from_bytes(self.read(address, 4), "little")


def walked(
    first: Callable[[], int], step: Callable[[int], tuple[int, int, int]], look: Callable[[int], Function | None]
) -> tuple[tuple[Place, ...], bool]:
    """The places of a chain of frames, and whether there are more of them.

    ``step`` takes a frame's address and answers the next one's, outwards, which is 0 at the end; the address of its
    function, 0 for none; and its position in that. ``look`` answers the function if it is one of the author's. What
    was found before an address that leaves the memory is as good as ever.
    """
    frame, calls = 0, list[list[int]]()
    try:
        frame = first()
        while frame and len(calls) < _MAX_FRAMES:
            frame, *call = step(frame)
            calls.append(call)
    except OutOfBounds:
        frame = 0
    functions: dict[int, Function | None] = {0: None}
    found: list[Place] = []
    for address, position in calls:
        if address not in functions:
            if len(functions) > _MAX_FUNCTIONS:
                return tuple(found), True
            functions[address] = _looked(look, address)
        function = functions[address]
        if function is not None:
            found.append(Place(function, position))
    return tuple(found), frame != 0


def number(table: Iterator[int], *, bits: int) -> int:
    """The next number of a table: so many bits of it in each byte, the lowest first, above them whether more follow.

    It is cut at 36 bits, and where the table ends.
    """
    follows = 1 << bits
    value = shift = 0
    for byte in table:
        value |= (byte & follows - 1) << shift
        shift += bits
        if not byte & follows or shift > 30:
            break
    return value


def _looked(look: Callable[[int], Function | None], address: int) -> Function | None:
    try:
        return look(address)
    except OutOfBounds:
        return None
