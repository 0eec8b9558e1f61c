"""A compiler's messages as :class:`Diagnostic`: which file, line and column, what is wrong. Inert and bounded.

The text is a hostile author's as much as the compiler's (``#error``, ``#line``, names of functions), so it is parsed
line by line and what fits no known shape is left out. Of an absolute path, whoever wrote it, only the last name is
told: the host's would tell an author where it lives, and leaving out only those would answer a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rho_wasm.errors import Diagnostic
from rho_wasm.untrusted import inert

__all__ = ["from_clang", "from_wat"]

_MESSAGE_CHARS = 500
_NAME_CHARS = 128
_MAX_NUMBER = 10**9

_LOCATED = re.compile(
    r"(?P<file>[^:]{1,4096}):(?P<line>\d{1,10}):(?P<column>\d{1,10}): "
    r"(?P<severity>fatal error|error|warning|note): (?P<message>.*)"
)
_UNLOCATED = re.compile(r"(?:wasm-ld|zig|LLVM)(?:: error| ERROR): (?:[^:/\s]{1,64}\.o: )?(?P<message>.*)")
_UNDEFINED = re.compile(r"undefined symbol: (?P<name>.*)")
_NO_ASSEMBLY = "GNU-style inline assembly is disabled"
# In quotes a path may have spaces. Outside, a slash after a word or a dot divides, or is of a relative path.
_FOLDERS = re.compile(r"""(?<=['"])/[^'"]*/|(?<![\w./])/\w[^\s'"]*/""")
_WAT_PLACE = re.compile(r"^\s*--> <anon>:(?P<line>\d{1,10}):(?P<column>\d{1,10})$", re.MULTILINE)

_RANK = {"error": 0, "warning": 1, "note": 2}


def _basename(path: str, names: Mapping[str, str]) -> str:
    base = path.replace("\\", "/").rpartition("/")[2]
    return inert(names.get(base, base), limit=_NAME_CHARS)


def _number(digits: str) -> int:
    return max(1, min(int(digits), _MAX_NUMBER))


def from_clang(text: str, *, names: Mapping[str, str], limit: int) -> tuple[Diagnostic, ...]:
    """The messages of clang and wasm-ld in ``text``, at most ``limit``: errors first, each kind in its order.

    Of a file only its last name is told, by ``names`` where the author knows it by another.
    """
    found: dict[Diagnostic, None] = {}
    for line in text.splitlines():
        if (located := _LOCATED.fullmatch(line)) is not None:
            found[_located(located, names)] = None
        elif (unlocated := _UNLOCATED.fullmatch(line)) is not None:
            found[Diagnostic(_explained(unlocated["message"]))] = None
    return tuple(sorted(found, key=lambda diagnostic: _RANK[diagnostic.severity])[:limit])


def _located(match: re.Match[str], names: Mapping[str, str]) -> Diagnostic:
    severity = match["severity"].removeprefix("fatal ")
    return Diagnostic(
        _explained(match["message"]),
        file=_basename(match["file"], names),
        line=_number(match["line"]),
        column=_number(match["column"]),
        severity=severity,
    )


def _explained(message: str) -> str:
    if (undefined := _UNDEFINED.fullmatch(message)) is not None:
        name = inert(_FOLDERS.sub("", undefined["name"]), limit=_NAME_CHARS)
        return f"{name} is not defined anywhere: there is no C library, only what rho.h and this source have"
    if message == _NO_ASSEMBLY:
        return "inline assembly is refused: say it in C, or with a __builtin_ function of the compiler"
    return inert(_FOLDERS.sub("", message), limit=_MESSAGE_CHARS)


def from_wat(text: str, *, name: str) -> Diagnostic:
    """The one message of wasmtime's text parser: ``what`` and below it ``--> <anon>:LINE:COLUMN``."""
    message = inert(text.partition("\n")[0], limit=_MESSAGE_CHARS) or "not WebAssembly text"
    if (place := _WAT_PLACE.search(text)) is None:
        return Diagnostic(message, file=inert(name, limit=_NAME_CHARS))
    return Diagnostic(
        message,
        file=inert(name, limit=_NAME_CHARS),
        line=_number(place["line"]),
        column=_number(place["column"]),
    )
