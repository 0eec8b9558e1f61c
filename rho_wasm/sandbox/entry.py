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
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

__all__ = ["enters_surely", "sure_entry", "traced"]

_F = TypeVar("_F", bound=Callable[..., Any])

_AT_START, _AFTER_YIELD_FROM = 0, 2
"""What RESUME is told of where it stands. Only before the latter does it look for signals (CPython 3.11 to 3.13)."""
_OF_COROUTINE = (("RETURN_GENERATOR", 0), ("POP_TOP", 0))
"""What is before RESUME there."""
_TOOLS = range(6)
"""Of ``sys.monitoring``, from Python 3.12 on."""


def sure_entry(function: _F) -> _F:
    """``function``, which runs at least to its first call or loop. Unchanged where Python is not one that is known.

    It may be a coroutine function, but none that has cells (that makes or is a closure).
    """
    if (found := _entry(function)) is not None:
        code, at = found
        altered = bytearray(code.co_code)
        altered[at + 1] = _AFTER_YIELD_FROM
        cast(FunctionType, function).__code__ = code.replace(co_code=bytes(altered))
    return function


def enters_surely(function: Callable[..., Any]) -> bool:
    """Whether :func:`sure_entry` did its work on ``function``."""
    found = _entry(function)
    return found is not None and found[0].co_code[found[1] + 1] == _AFTER_YIELD_FROM


def traced() -> bool:
    """Whether somebody's code runs between our lines now: a debugger, a profiler, coverage. It may raise anywhere."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    return sys.version_info >= (3, 12) and any(map(sys.monitoring.get_tool, _TOOLS))


def _entry(function: Callable[..., Any]) -> tuple[CodeType, int] | None:
    """A function's code, and where its RESUME is in it. None where that is not as it is known."""
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info < (3, 14):
        return None
    code = cast(FunctionType, function).__code__
    of_coroutine = bytes(byte for name, argument in _OF_COROUTINE for byte in (opcode.opmap[name], argument))
    at = len(of_coroutine) if code.co_code.startswith(of_coroutine) else 0
    known = (_AT_START, _AFTER_YIELD_FROM)
    return (code, at) if code.co_code[at] == opcode.opmap["RESUME"] and code.co_code[at + 1] in known else None
