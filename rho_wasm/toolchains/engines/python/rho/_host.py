"""What a tool says to its host while it runs: log, progress, and what it asks for."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from ._cbor import decode, encode

__all__ = ["Host", "HostError", "Log", "LogHandler", "host", "log", "progress"]

_CAPABILITIES = 3
"""The descriptor that takes a request in one write and gives the reply to reads, part by part."""
_PART = 65_536
_LOG = 2
_REPORT = "progress.report"
_CONTENT = bytes.__basicsize__ - 1
"""Where the content of a bytes object begins."""


class HostError(Exception):
    """The host did not do what it was asked for. Its text is ``capability: kind: message``.

    ``kind`` is denied, undeclared, invalid_arguments, quota or unavailable.
    """

    def __init__(self, kind: str, message: str, capability: str) -> None:
        # "kv.get is not granted" would name it twice.
        super().__init__(f"{capability}: {kind}: {message.removeprefix(f'{capability} is ')}")
        self.kind = kind
        self.message = message
        self.capability = capability


class Host:
    """What lies outside of the sandbox. ``declared`` is what the tools of the source may ask for."""

    def __init__(self) -> None:
        self.declared: frozenset[str] = frozenset()

    def call(self, capability: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """Asks for ``capability``; answers what the host answered. Raises :class:`HostError`.

        The tool declares it (``@tool(capabilities=[...])``), and the operator grants it, or there is no answer.
        """
        if not isinstance(capability, str):
            raise TypeError(f"a capability's name is text, not {type(capability).__name__}")
        if type(arguments) is not dict and arguments is not None and not isinstance(arguments, Mapping):
            raise TypeError(f"the arguments of {capability} are a dict, not {type(arguments).__name__}")
        request = encode({"capability": capability, "arguments": {**(arguments or {}), **named}})
        try:
            os.write(_CAPABILITIES, request)
        except OSError:
            raise _undeclared(capability) from None
        parts = []
        while part := os.read(_CAPABILITIES, _PART):
            parts.append(part)
        reply = decode(b"".join(parts))
        match reply:
            case {"ok": value, **rest} if not rest:
                return value
            case {"error": {"kind": str(kind), "message": str(message)}, **rest} if not rest:
                raise _undeclared(capability) if kind == "undeclared" else HostError(kind, message, capability)
        raise ValueError("rho: a malformed reply of the host")


def _undeclared(capability: str) -> HostError:
    return HostError("undeclared", f'say @tool(capabilities=["{capability}"])', capability)


class Log:
    """Lines of the call's log, as with :mod:`logging`: ``%`` formats apply where there are arguments."""

    def debug(self, message: object, *arguments: object) -> None:
        _write(logging.DEBUG, message, arguments)

    def info(self, message: object, *arguments: object) -> None:
        _write(logging.INFO, message, arguments)

    def warning(self, message: object, *arguments: object) -> None:
        _write(logging.WARNING, message, arguments)

    def error(self, message: object, *arguments: object) -> None:
        _write(logging.ERROR, message, arguments)


class LogHandler(logging.Handler):
    """Sends what goes through :mod:`logging` to the call's log, at its level."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            _line(record.levelno, self.format(record))
        except Exception:
            self.handleError(record)


def progress(done: float, total: float | None = None, text: str = "") -> None:
    """Says how far the call is: to who watches the call (``progress.report``), else in its log."""
    if _REPORT in host.declared:
        try:
            host.call(_REPORT, done=done, total=total, text=text)
        except HostError:
            pass
        else:
            return
    far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    _line(logging.INFO, f"progress: {far} {text}".rstrip())


def _write(level: int, message: object, arguments: tuple[object, ...]) -> None:
    text = str(message)
    _line(level, text % arguments if arguments else text)


def _line(level: int, text: str) -> None:
    """To module ``rho``'s log: the engine gives ``posix_fadvise`` of that descriptor this meaning."""
    for line in text.splitlines() or [""]:
        data = line.encode("utf-8", "backslashreplace")
        os.posix_fadvise(_LOG, id(data) + _CONTENT, len(data), level)


host = Host()
log = Log()
