"""Functions that a raising signal handler cannot keep from running: what must happen, happens.

Python runs signal handlers on the main thread, between two instructions of whatever runs there: at the first of each
function, after each call, and where a loop goes back. A handler that raises (Ctrl-C, an alarm) does so there. Of these
places the first instruction is the one that no ``try`` of the function itself covers. Where C calls a Python function,
and where something has to be closed, that one is taken away; the others can be seen in the source.
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

__all__ = ["enters_surely", "sure_entry", "traced"]

_F = TypeVar("_F", bound=Callable[..., Any])

_AT_START, _AFTER_YIELD_FROM = 0, 2
"""What RESUME is told of where it stands. Only before the latter does it look for signals (CPython 3.11 to 3.13)."""
_TOOLS = range(6)
"""Of ``sys.monitoring``, from Python 3.12 on."""


def sure_entry(function: _F) -> _F:
    """``function``, which runs at least to its first call or loop. Unchanged where Python is not one that is known."""
    code = cast(FunctionType, function).__code__
    if _known() and code.co_code[:2] == _resume(_AT_START):
        code = code.replace(co_code=_resume(_AFTER_YIELD_FROM) + code.co_code[2:])
        cast(FunctionType, function).__code__ = code
    return function


def enters_surely(function: Callable[..., Any]) -> bool:
    """Whether :func:`sure_entry` did its work on ``function``."""
    return _known() and cast(FunctionType, function).__code__.co_code[:2] == _resume(_AFTER_YIELD_FROM)


def traced() -> bool:
    """Whether somebody's code runs between our lines now: a debugger, a profiler, coverage. It may raise anywhere."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    return sys.version_info >= (3, 12) and any(map(sys.monitoring.get_tool, _TOOLS))


def _known() -> bool:
    return sys.implementation.name == "cpython" and (3, 11) <= sys.version_info < (3, 14)


def _resume(place: int) -> bytes:
    return bytes((opcode.opmap["RESUME"], place))
