"""Where a tool over an engine was when it was stopped: read in the interpreter's memory, without running any of it.

WebAssembly's own backtrace names functions of the interpreter, which tell an author nothing. What the interpreter knows
of its own calls stands in its memory, at places that follow from the engine's bytes. All of it may be forged, by the
tool whose backtrace it is: so every read is bounded, and what comes of it is text like any other that a guest says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from rho_wasm.sandbox.memory import OutOfBounds, bytes_at, span
from rho_wasm.untrusted import inert

__all__ = ["FILE_CHARS", "NAME_CHARS", "FrameReader", "InterpreterMemory", "Place", "Stopped", "walked"]

FILE_CHARS: Final = 128
NAME_CHARS: Final = 128
_LINE_CHARS: Final = 200
_MAX_FRAMES: Final = 256
"""So many are looked at, from the innermost on."""
_SHOWN, _SHOWN_OUTERMOST = 40, 8
_TABLE_BYTES: Final = 16 * 1024
"""Of all tables of lines of one call. What is in a function beyond them has no line."""
_SHORT_TABLES: Final = 2 * 1024
"""To read so much of them takes no longer than may be on the event loop's thread."""
_MAX_LINE: Final = 1_000_000


class Place(NamedTuple):
    """Where one of the author's functions was."""

    file: str
    name: str
    """Empty for one that has none."""
    first_line: int
    table: bytes
    """Of lines, in the interpreter's own format."""
    at: int
    """How far into its bytecode the function was, as ``table`` counts it."""
    unsure: bool = False
    """It may have gone on since."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A tool's frames, the innermost first. What takes longer than finding them is done when :meth:`lines` is asked."""

    places: tuple[Place, ...] = ()
    more: bool = False
    """There are others around these."""
    line_of: Callable[[Place], int | None] = lambda place: place.first_line

    @property
    def long(self) -> bool:
        """Whether :meth:`lines` takes too long for the event loop's thread."""
        return sum(len(each.table) for each in self.places) > _SHORT_TABLES

    def lines(self) -> tuple[str, ...]:
        """``file:line in name`` of each, inert; ``near`` before one that is not sure."""
        left = _TABLE_BYTES
        told = []
        for place in self.places:
            left -= len(place.table)
            told.append(self._told(place if left >= 0 else place._replace(table=b"", at=0)))
        if self.more:
            told.append("... more ...")
        if (over := len(told) - _SHOWN) > 0:
            told[_SHOWN - _SHOWN_OUTERMOST : -_SHOWN_OUTERMOST] = [f"... {over} more ..."]
        return tuple(told)

    def _told(self, place: Place) -> str:
        line = self.line_of(place)
        where = place.file if line is None or not 0 < line <= _MAX_LINE else f"{place.file}:{line}"
        within = f" in {place.name}" if place.name else ""
        return inert(f"{'near ' if place.unsure else ''}{where}{within}", limit=_LINE_CHARS)


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


def walked(first: Callable[[], int], step: Callable[[int], tuple[int, Place | None]]) -> tuple[tuple[Place, ...], bool]:
    """The places of a chain of frames, and whether there are more of them.

    ``step`` takes a frame's address and answers the next one's, outwards, which is 0 at the end, and the place if it is
    one of the author's. What was found before an address that leaves the memory is as good as ever.
    """
    found: list[Place] = []
    try:
        frame = first()
        for _ in range(_MAX_FRAMES):
            if not frame:
                return tuple(found), False
            frame, place = step(frame)
            if place is not None:
                found.append(place)
    except OutOfBounds:
        return tuple(found), False
    return tuple(found), frame != 0
