"""The messages of Zig's and Rust's compilers as :class:`Diagnostic`: which file, line and column, what is wrong.

A hostile author has a say in the text (``@compileError``, ``compile_error!``, names, strings), so what fits no known
shape is left out, and all is inert and bounded. Files of the project are told by their names in it; of any other file,
and of any absolute path, only the last name.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rho_wasm.errors import Diagnostic
from rho_wasm.untrusted import inert

__all__ = ["from_rustc", "from_zig", "not_of_project"]

_MESSAGE_CHARS = 500
_NAME_CHARS = 128
_MAX_NUMBER = 10**9
_EXPANSIONS = 16
"""How many macros inside each other are followed to the line that its author wrote."""

_LOCATED = re.compile(
    r"(?P<file>(?! )[^:]{1,4096}):(?P<line>\d{1,10}):(?P<column>\d{1,10}): (?P<severity>error|note): (?P<message>.*)"
)
# Zig's, below a line of the source.
_CARET = re.compile(r" *~*\^~*")
_LOGGED = "Compile Log Output:"
_UNLOCATED = re.compile(r"(?:wasm-ld: |rust-lld: )?error: (?:[^:/\s]{1,64}\.r?o: )?(?P<message>.*)")
# In quotes a path may have spaces. Outside, a slash after a word or a dot divides, or is of a relative path.
_FOLDERS = re.compile(r"""(?<=['"`])/[^'"`]*/|(?<![\w./])/\w[^\s'"`]*/""")
_LEVELS = {
    "error": "error",
    "error: internal compiler error": "error",
    "warning": "warning",
    "note": "note",
    "help": "note",
}
_RANK = {"error": 0, "warning": 1, "note": 2}
# Whether a file of the host is not there or may not be read is not told.
_UNREADABLE = re.compile(r"couldn't read (?P<file>.*): .* \(os error \d+\)", re.DOTALL)
_NO_TEXT = "it is no text of this project"
_NOT_LINKED = "linking with "
_LINKER = re.compile(
    r"^ *(?:rust-lld|wasm-ld|lld)(?:-\d+)?: error: (?:[^:\n]{1,4096}\.o: )?(?P<message>.*)$", re.MULTILINE
)
_SUMMARY = re.compile(r"aborting due to|\d+ warnings? emitted")


def from_zig(text: str, *, folder: str, limit: int) -> tuple[Diagnostic, ...]:
    """The messages of zig and its linker in ``text``, at most ``limit``, errors first. The project is in ``folder``.

    An author's text may look like a message of its own: the further lines of one message are indented, the line of the
    source that is shown has carets below it, and what ``@compileLog`` shows comes last.
    """
    found: list[Diagnostic] = []
    lines = text.split("\n")
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if _CARET.fullmatch(below) is not None:
            continue
        if line == _LOGGED:
            break
        if (located := _LOCATED.fullmatch(line)) is not None:
            found.append(
                Diagnostic(
                    _cleaned(located["message"]),
                    file=_told(located["file"], folder),
                    line=_number(int(located["line"])),
                    column=_number(int(located["column"])),
                    severity=located["severity"],
                )
            )
        elif (unlocated := _UNLOCATED.fullmatch(line)) is not None:
            found.append(Diagnostic(_cleaned(unlocated["message"])))
    return _first(found, limit)


def from_rustc(text: str, *, folder: str, limit: int) -> tuple[Diagnostic, ...]:
    """The messages of ``rustc --error-format=json`` in ``text``, at most ``limit``, errors first.

    What is wrong inside a macro is told at the line of ``folder`` that used it. Advice follows its message.
    """
    found: list[Diagnostic] = []
    for line in text.split("\n"):
        message = _parsed(line)
        said = _text(message, "message")
        level = _LEVELS.get(_text(message, "level"))
        if not said or level is None or _SUMMARY.match(said):
            continue
        advice = [_text(each, "message") for each in _maps(message.get("children"))]
        if said.startswith(_NOT_LINKED):
            # It goes on with the whole command.
            lines = [each["message"] for text in advice for each in _LINKER.finditer(text)]
            found += [Diagnostic(_cleaned(each)) for each in lines or ["the module could not be linked"]]
            continue
        told = said + "".join(f"; {each}" for each in advice[:2] if each and "`#[warn(" not in each)
        spans = _maps(message.get("spans"))
        span = _written(next((each for each in spans if each.get("is_primary") is True), {}), folder)
        file = _text(span, "file_name")
        found.append(
            Diagnostic(
                _cleaned(told),
                file=_told(file, folder) if file else None,
                line=_number(span.get("line_start")) if file else None,
                column=_number(span.get("column_start")) if file else None,
                severity=level,
            )
        )
    return _first(found, limit)


def not_of_project(listed: str, *, folder: str, limit: int) -> tuple[Diagnostic, ...]:
    """The files in ``rustc --emit=dep-info`` that are not in ``folder``, each told as one that is not there."""
    found: list[Diagnostic] = []
    for line in listed.split("\n"):
        # The first lines are the outputs with all that they rest on; then each file that was read has a line.
        name = line.removesuffix(":").replace("\\ ", " ")
        if not line.endswith(":") or line.startswith("#"):
            continue
        if not posixpath.normpath(name).startswith(f"{folder}/"):
            found.append(Diagnostic(_cleaned(f"couldn't read {name}: {_NO_TEXT}")))
    return _first(found, limit)


def _written(span: Mapping[str, Any], folder: str) -> Mapping[str, Any]:
    """The place in the author's own text that a place inside a macro comes from."""
    here = span
    for _ in range(_EXPANSIONS):
        if _text(here, "file_name").startswith(f"{folder}/"):
            return here
        expansion = here.get("expansion")
        outer = expansion.get("span") if isinstance(expansion, dict) else None
        if not isinstance(outer, dict):
            break
        here = outer
    return span


def _parsed(line: str) -> Mapping[str, Any]:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _maps(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(of: Mapping[str, Any], key: str) -> str:
    found = of.get(key)
    return found if isinstance(found, str) else ""


def _first(found: Iterable[Diagnostic], limit: int) -> tuple[Diagnostic, ...]:
    return tuple(sorted(dict.fromkeys(found), key=lambda diagnostic: _RANK[diagnostic.severity])[:limit])


def _told(path: str, folder: str) -> str:
    inside = path.removeprefix(f"{folder}/")
    own = inside != path and ".." not in inside.split("/")
    return inert(inside if own else path.replace("\\", "/").rpartition("/")[2], limit=_NAME_CHARS)


def _cleaned(message: str) -> str:
    if (unreadable := _UNREADABLE.match(message)) is not None:
        message = f"couldn't read {unreadable['file'].strip('`')}: {_NO_TEXT}"
    return inert(_FOLDERS.sub("", message), limit=_MESSAGE_CHARS)


def _number(value: object) -> int:
    return max(1, min(value, _MAX_NUMBER)) if isinstance(value, int) else 1
