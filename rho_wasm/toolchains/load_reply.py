"""What an engine says of a source that it loaded: the tools in it, or what is wrong with it. It is a guest's word.

::

    reply = {"ok": {"tools": [+ tool], ? "capabilities": [* tstr]}}
          / {"error": {fault, ? "trace": [* tstr], ? "hint": tstr, ? "others": [* {fault}]}}
    fault = ("message": tstr, ? "line": uint, ? "column": uint, ? "text": tstr)

``tool`` is as in a manifest (guest_sdk/ABI.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rho_wasm import plain
from rho_wasm.errors import BuildError, Diagnostic, PlainError
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.abi import ABI_VERSION
from rho_wasm.untrusted import inert

__all__ = ["manifest_of"]

_MESSAGE_CHARS = 2_000
_TEXT_CHARS = 300
_HINT_CHARS = 500
_TRACE_LINES, _TRACE_CHARS = 32, 300
_MAX_NUMBER = 10**9
_MAX_FAULTS = 16
_FAULT_KEYS = {"message": str, "line": int, "column": int, "text": str}
_ERROR_KEYS = {**_FAULT_KEYS, "trace": list, "hint": str, "others": list}


def manifest_of(
    reply: bytes,
    *,
    language: str,
    file: str,
    engine: bytes,
    limits: HostLimits,
    extensions: Mapping[str, str] = MappingProxyType({}),
) -> Manifest:
    """The manifest of a source over ``engine`` (the hash), by the engine's reply and the host's own ``extensions``.

    Raises :class:`BuildError` for a source that is wrong (``build_failed``, with file, line, column and text) and for
    a reply that is none (``bad_reply``), and :class:`rho_wasm.errors.ModuleRejected` (``manifest_*``) for tools that no
    host takes.
    """
    try:
        given = plain.decode(reply, max_bytes=4 * limits.manifest_bytes)
    except PlainError:
        raise _bad(language, file) from None
    if type(given) is not dict or len(given) != 1:
        raise _bad(language, file)
    if type(error := given.get("error")) is dict:
        raise _error(error, language=language, file=file)
    declared = given.get("ok")
    if type(declared) is not dict or not {"tools"} <= declared.keys() <= {"tools", "capabilities"}:
        raise _bad(language, file)
    written = {"abi": ABI_VERSION, "language": language, "engine": engine, **declared}
    if extensions:
        written["extensions"] = dict(extensions)
    return Manifest.decode(plain.encode(written, max_bytes=4 * limits.manifest_bytes), limits=limits)


def _error(error: dict[str, Any], *, language: str, file: str) -> BuildError:
    trace, others = error.get("trace", []), error.get("others", [])
    if not _has_keys(error, _ERROR_KEYS) or not all(type(line) is str for line in trace):
        return _bad(language, file)
    if not all(type(other) is dict and _has_keys(other, _FAULT_KEYS) for other in others):
        return _bad(language, file)
    faults = [_fault(fault, file) for fault in (error, *others[: _MAX_FAULTS - 1])]
    notes = [Diagnostic(inert(line, limit=_TRACE_CHARS), severity="note") for line in trace[:_TRACE_LINES]]
    return BuildError(language, [*faults, *notes], hint=inert(error.get("hint", ""), limit=_HINT_CHARS))


def _has_keys(error: dict[str, Any], known: Mapping[str, type]) -> bool:
    return "message" in error and all(type(value) is known.get(key) for key, value in error.items())


def _fault(error: dict[str, Any], file: str) -> Diagnostic:
    return Diagnostic(
        inert(error["message"].removesuffix(": "), limit=_MESSAGE_CHARS),
        file=inert(file, limit=128),
        line=_number(error.get("line")),
        column=_number(error.get("column")),
        text=inert(error["text"].strip(), limit=_TEXT_CHARS) if "text" in error else None,
    )


def _number(value: int | None) -> int | None:
    return None if value is None else max(1, min(value, _MAX_NUMBER))


def _bad(language: str, file: str) -> BuildError:
    why = "the engine did not say what is in it; perhaps the source altered the interpreter"
    return BuildError(language, [Diagnostic(why, file=inert(file, limit=128))], reason="bad_reply")
