"""A compiler's messages as :class:`Diagnostic`: which file, line and column, what is wrong. Inert and bounded.

The text is a hostile author's as much as the compiler's (``#error``, ``#line``, names of functions), so it is parsed
line by line and what fits no known shape is left out. Of an absolute path, whoever wrote it, only the last name is
told: the host's would tell an author where it lives, and leaving out only those would answer a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rho_wasm.errors import Diagnostic
from rho_wasm.untrusted import inert

__all__ = ["from_clang", "from_go", "from_wat"]

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

_GO_LOCATED = re.compile(r"(?P<file>[^:\t]{1,4096}):(?P<line>\d{1,10})(?::(?P<column>\d{1,10}))?: (?P<message>.*)")
# What the command, the linker and the loader of packages say of no one place.
_GO_UNLOCATED = re.compile(r"(?:go: |\S{0,4096}/link: |(?=found packages |package |-buildmode=))(?P<message>.*)")
_GO_PACKAGE = re.compile(
    r"found packages (?P<name>\w+) \((?P<file>[^()]+)\) and (?P<other>\w+) \((?P<last>[^()]+)\) in "
)
_GO_MODULES = re.compile(r"(?:no required module provides|cannot find module providing) package (?P<name>[^;:\s]*)")

_RANK = {"error": 0, "warning": 1, "note": 2}


def _basename(path: str) -> str:
    return inert(path.replace("\\", "/").rpartition("/")[2], limit=_NAME_CHARS)


def _number(digits: str) -> int:
    return max(1, min(int(digits), _MAX_NUMBER))


def from_clang(text: str, *, folders: Sequence[str], names: Mapping[str, str], limit: int) -> tuple[Diagnostic, ...]:
    """The messages of clang and wasm-ld in ``text``, at most ``limit``: errors first, each kind in its order.

    ``folders`` are how the paths of files begin in the compiler's messages, that of the project first, which no author
    knows. So a line that only looks like a message (there may be line breaks in ``#pragma message``) is told as it is,
    a note without a place; and so is a message in a file that ``#line`` has renamed. Files are told by
    ``names``, others by their last name.
    """
    found: dict[Diagnostic, None] = {}
    for line in text.split("\n"):
        begins = next((folder for folder in folders if line.startswith(folder)), None)
        if (located := _LOCATED.fullmatch(line.removeprefix(begins or ""))) is not None:
            if begins is None:
                found[Diagnostic(_explained(line), severity="note")] = None
            else:
                found[_located(located, folders[0], names)] = None
        elif (unlocated := _UNLOCATED.fullmatch(line)) is not None:
            found[Diagnostic(_explained(unlocated["message"]))] = None
    return tuple(sorted(found, key=lambda diagnostic: _RANK[diagnostic.severity])[:limit])


def _located(match: re.Match[str], folder: str, names: Mapping[str, str]) -> Diagnostic:
    file = match["file"]
    severity = match["severity"].removeprefix("fatal ")
    return Diagnostic(
        _explained(match["message"].replace(folder, "")),
        file=inert(names[file], limit=_NAME_CHARS) if file in names else _basename(file),
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


def from_go(text: str, *, start: str, limit: int) -> tuple[Diagnostic, ...]:
    """The messages of ``go build`` in ``text``, at most ``limit``, in their order.

    ``start`` is the file that the toolchain adds, which no author has seen.
    """
    found: list[Diagnostic] = []
    for line in text.split("\n"):
        if line.startswith("\t") and found:
            # What was found and what was wanted, say, stands on lines of its own.
            message = inert(f"{found[-1].message}; {_FOLDERS.sub('', line.strip())}", limit=_MESSAGE_CHARS)
            found[-1] = replace(found[-1], message=message)
        elif (located := _GO_LOCATED.fullmatch(line)) is not None:
            found.append(_in_go(located, start))
        elif (unlocated := _GO_UNLOCATED.fullmatch(line)) is not None:
            found.append(_of_another_package(line, start) or Diagnostic(_said_by_go(unlocated["message"])))
    return tuple(dict.fromkeys(found))[:limit]


def _in_go(match: re.Match[str], start: str) -> Diagnostic:
    # A file of a folder in the project is told with its folders.
    file = match["file"].removeprefix("./")
    shown = inert(file, limit=_NAME_CHARS) if not file.startswith("/") else _basename(file)
    if shown == start and "undefined: main" in match["message"]:
        return Diagnostic("main is not defined: declare the tools in func main()")
    column = _number(match["column"]) if match["column"] is not None else None
    return Diagnostic(_said_by_go(match["message"]), file=shown, line=_number(match["line"]), column=column)


def _of_another_package(line: str, start: str) -> Diagnostic | None:
    """Of a file whose package is not that of ``start``; None where the line tells no such thing."""
    if (match := _GO_PACKAGE.match(line)) is None or start not in (match["file"], match["last"]):
        return None
    name, file = (match["name"], match["file"]) if match["last"] == start else (match["other"], match["last"])
    told = f"it is of package {inert(name, limit=_NAME_CHARS)}, where tools are declared in package main"
    return Diagnostic(told, file=inert(file, limit=_NAME_CHARS))


def _said_by_go(message: str) -> str:
    if (missing := _GO_MODULES.match(message)) is not None:
        name = inert(missing["name"], limit=_NAME_CHARS)
        return f"the module of {name} is not here: a guest has the standard library, rho, and its own folders"
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
