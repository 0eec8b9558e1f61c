"""What went wrong, in the author's terms: own lines only, the engine's frames gone, everything bounded."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from ._host import HostError

__all__ = ["absent", "frames", "head", "message_of", "network", "raised", "type_of"]

_PACKAGE = __name__.rpartition(".")[0]
_MAX_FRAMES = 40
_SHOWN_FIRST = 8
_MAX_CAUSES = 4
_MAX_MEMBERS = 3
_MESSAGE_CHARS = 2_000
_LINE_CHARS = 200
_NETWORK = (
    'the network: `from rho import host`, host.call("http.fetch", url=...), declared by '
    '@tool(capabilities=["http.fetch"])'
)
_NO_FILES = " (there are no files here: take text as an argument, or ask the host)"

_NO_INPUT = "(nobody types here: take text as an argument, or return AskUser)"
_UNANSWERED = " (catch HostError, and return Failed(str(error)))"
_NETWORKS = frozenset({"aiohttp", "fetch", "http", "httpx", "requests", "urllib3", "urlopen"})


def network(name: str) -> str:
    """How to reach the network, for who looked for it under ``name``; nothing for any other name."""
    return f"; {_NETWORK}" if name in _NETWORKS else ""


def absent(module: str) -> str:
    """Why a module is not there, and what is."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names:
        # ``ssl`` is there, and what it is made of, ``_ssl``, is not.
        return f"{module.lstrip('_')} is not in this Python"
    return f"Python's standard library is there, and nothing else{network(package)}"


def raised(error: BaseException, file: str, lines: Sequence[str]) -> dict[str, Any]:
    """The ``raised`` of an answer: the exception's message, type and trace, its causes before it."""
    trace: list[str] = []
    for cause in _chain(error):
        trace += frames(cause.__traceback__, file, lines)
        if isinstance(cause, BaseExceptionGroup):
            trace += _members(cause, file, lines)
        if cause is not error:
            trace.append(f"{type_of(cause)}: {message_of(cause)}"[:_LINE_CHARS])
            trace.append("which led to:")
    return {"message": message_of(error), "type": type_of(error), "trace": trace}


def frames(traceback: TracebackType | None, file: str, lines: Sequence[str]) -> list[str]:
    """``file:line in name: text`` of each frame in ``file``, the last the innermost."""
    found = list(_own(traceback, file))
    if len(found) > _MAX_FRAMES:
        left = len(found) - _MAX_FRAMES
        found[_SHOWN_FIRST : -(_MAX_FRAMES - _SHOWN_FIRST)] = [(0, f"... {left} more ...")]
    return [
        name if not line else f"{file}:{line} in {name}: {_text(lines, line)}"[:_LINE_CHARS] for line, name in found
    ]


def head(function: Any, file: str, lines: Sequence[str]) -> list[str]:
    """The line of ``file`` that ``function`` begins with, below its decorators; none where it is from elsewhere."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename != file:
        return []
    first: int = code.co_firstlineno
    begins = ("def ", "async def ")
    line = next((at for at in range(first, len(lines) + 1) if _text(lines, at).startswith(begins)), first)
    return [f"{file}:{line} in {code.co_qualname}: {_text(lines, line)}"[:_LINE_CHARS]]


def type_of(error: BaseException) -> str:
    """The exception's type, with its module unless that is Python's own or the tool's."""
    kind = type(error)
    module = kind.__module__
    own = module in ("builtins", "tool", _PACKAGE) or module.startswith(f"{_PACKAGE}.")
    return kind.__qualname__ if own else f"{module}.{kind.__qualname__}"


def message_of(error: BaseException, *, hinted: bool = False) -> str:
    """What the exception says. Asking runs the author's code, which may fail too.

    ``hinted``: what to do about it is said elsewhere, if there is a hint for it.
    """
    try:
        text = str(error)[:_MESSAGE_CHARS].encode("utf-8", "backslashreplace").decode()
        return text if hinted and isinstance(error, ModuleNotFoundError) else text + _advice(error)
    except Exception:
        return "(its text cannot be had)"


def _advice(error: BaseException) -> str:
    """What to do about an error that says too little of where it happened."""
    if isinstance(error, FileNotFoundError) and error.errno == errno.ENOENT:
        return _NO_FILES
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f" ({absent(error.name)})"
    if isinstance(error, EOFError) and not error.args:
        return _NO_INPUT
    if isinstance(error, HostError) and error.kind != "undeclared":
        return _UNANSWERED
    return f" ({_NETWORK})" if type_of(error) == "urllib.error.URLError" else ""


def _members(group: BaseExceptionGroup[BaseException], file: str, lines: Sequence[str]) -> list[str]:
    """The first exceptions of a group: what each says, and the innermost of its lines."""
    found = []
    count = len(group.exceptions)
    for number, error in enumerate(group.exceptions[:_MAX_MEMBERS], 1):
        found.append(f"{number} of {count}: {type_of(error)}: {message_of(error)}"[:_LINE_CHARS])
        found += frames(error.__traceback__, file, lines)[-1:]
    if count > _MAX_MEMBERS:
        found.append(f"... {count - _MAX_MEMBERS} more ...")
    return found


def _own(traceback: TracebackType | None, file: str) -> Iterator[tuple[int, str]]:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == file:
            yield traceback.tb_lineno, code.co_qualname
        traceback = traceback.tb_next


def _text(lines: Sequence[str], line: int) -> str:
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def _chain(error: BaseException) -> list[BaseException]:
    """The exception and what led to it, the first cause first."""
    chain = [error]
    while len(chain) < _MAX_CAUSES:
        last = chain[-1]
        cause = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if cause is None or cause in chain:
            break
        chain.append(cause)
    return chain[::-1]
