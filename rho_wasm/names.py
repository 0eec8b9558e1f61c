"""Which names a tool may have, and which names are too much like one another."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from rho_wasm.errors import NameInvalid, NameReserved
from rho_wasm.tools import TOOL_NAME

__all__ = ["MAX_NAME_CHARS", "RESERVED", "WORKSHOP", "Reservations", "folded", "problem_of"]

MAX_NAME_CHARS = 64
"""Of a tool's name, as in ``tools.TOOL_NAME``."""

_ALIKE = str.maketrans(
    {"_": None, "-": None, "0": "o", "1": "l", "i": "l", "5": "s", "2": "z", "6": "b", "8": "b", "9": "g"}
)
_PAIRS = (("rn", "m"), ("vv", "w"))
"""Two letters that read as one."""

_BUILTIN = "it is a built-in tool's"
_WORKSHOP = "it is a workshop tool's"
_CALL_TOOL = "the host calls tools through it"

WORKSHOP = ("write_tool", "test_tool", "read_tool", "switch_tools", "roll_back_tools", "tool_status")
"""The tools with which a model makes tools."""

RESERVED = MappingProxyType(
    dict.fromkeys(("read_artifact", "todo"), _BUILTIN) | dict.fromkeys(WORKSHOP, _WORKSHOP) | {"call_tool": _CALL_TOOL}
)
"""Names that the host keeps for itself, even while the tools behind them are off, and why."""


def folded(name: str) -> str:
    """What is left of ``name`` where look-alikes are one.

    Case folded, without ``_`` and ``-``; 0/o, 1/l/i, 5/s, 2/z, 6/8/b, 9/g, rn/m and vv/w alike.
    """
    text = name.casefold().translate(_ALIKE)
    for pair, letter in _PAIRS:
        text = text.replace(pair, letter)
    return text


def problem_of(name: object) -> str | None:
    """Why ``name`` can be no tool's name, or None."""
    if type(name) is not str or TOOL_NAME.fullmatch(name) is None:
        return "a name is 1 to 64 of A-Z a-z 0-9 _ -"
    if "__" in name:
        return "clients use two underscores in a row as a server's prefix"
    return None


class Reservations:
    """Names that nobody but the host may use, together with everything that looks like them."""

    __slots__ = ("_by_fold",)

    def __init__(self, *, core: Iterable[str] = (), reserved: Iterable[str] = ()) -> None:
        self._by_fold = {folded(name): (name, why) for name, why in RESERVED.items()}
        self._by_fold |= {folded(name): (name, "the host reserved it") for name in reserved}
        self._by_fold |= {folded(name): (name, "it is a core tool's") for name in core}

    def holds(self, name: str) -> NameReserved | None:
        """The error that says which name ``name`` is or looks like, or None where it is free."""
        found = self._by_fold.get(folded(name))
        return None if found is None else NameReserved(name, *found)

    def leave_free(self, name: str) -> bool:
        """Whether a source may offer a tool under ``name``."""
        return problem_of(name) is None and self.holds(name) is None

    def check(self, name: str) -> None:
        """Raises :class:`NameInvalid` or :class:`NameReserved` unless a tool may be registered under ``name``."""
        if (why := problem_of(name)) is not None:
            raise NameInvalid(name, why)
        if (error := self.holds(name)) is not None:
            raise error
