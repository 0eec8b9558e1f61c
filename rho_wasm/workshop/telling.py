"""What went wrong, in words for a model to repair its source by: where, the line, what was wanted, one hint.

Texts of the source and of what it is made of come back in here. They are inert and bounded: a model that reads them, or
a person who reads over its shoulder, is shown no more than what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rho_wasm.errors import (
    BuildError,
    Diagnostic,
    GateRejected,
    GenerationError,
    ModuleRejected,
    PlainError,
    RhoError,
    StoreError,
    ToolError,
)
from rho_wasm.frozen import thaw
from rho_wasm.plain import json_text, jsonable
from rho_wasm.results import Failed
from rho_wasm.toolchains.pipeline import languages
from rho_wasm.untrusted import inert, inert_plain
from rho_wasm.workshop.building import DECLARES_NOTHING
from rho_wasm.workshop.hints import source_hint
from rho_wasm.workshop.idioms import IDIOMS

__all__ = ["refusal", "shown", "told_build_error"]

_ERRORS, _NOTES = 5, 6
_LINE_CHARS, _MESSAGE_CHARS, _HINT_CHARS = 200, 500, 500
_SHOWN_ITEMS, _SHOWN_CHARS = 500, 2_000

_UNDECLARED = (*DECLARES_NOTHING, "manifest is missing")
_HINTS = {
    "engine_missing": "this host has no interpreter for it, or is making it just now: wait a minute, or take another",
    "missing_extra": "this host cannot build that language: write it in another one",
    "confinement_missing": "this host builds that language for nobody: write it in another one",
    "build_unavailable": "the host could not build just now: write it again later",
    "build_timeout": "what a source does when it is loaded must be short: do the work in the tool's function",
    "build_memory": "make large things in the tool's function, not when the source is loaded",
    "image_too_large": "make large things in the tool's function, not when the source is loaded",
}


def told_build_error(error: BuildError, *, source: str, language: str, name: str) -> Failed:
    """Why a source was not built. At most five errors, and what led there."""
    faults = [each for each in error.diagnostics if each.severity == "error"] or list(error.diagnostics)
    notes = [each for each in error.diagnostics if each.severity == "note" and each not in faults]
    lines = [f"The {language} source of {name} does not build ({error.reason}). Mend this and write it again:"]
    # As compilers count them: str.splitlines ends lines at form feeds too.
    given = source.replace("\r\n", "\n").split("\n")
    for fault in faults[:_ERRORS]:
        lines += _fault(fault, given, language)
    if len(faults) > _ERRORS:
        lines.append(f"{len(faults) - _ERRORS} more; mend these first")
    lines += [f"  {inert(note.message, limit=_LINE_CHARS)}" for note in notes[:_NOTES]]
    known = next((hint for fault in faults if (hint := source_hint(fault.message, language)) is not None), None)
    if any(said in fault.message for fault in faults for said in _UNDECLARED) and language in IDIOMS:
        # Text of WebAssembly cannot declare itself, so the way beside it is the only one.
        both = "and" if language == "wat" else "or"
        lines.append(f"Hint: a tool in {language} looks like this, {both} give write_tool its description and schema:")
        lines.append(IDIOMS[language].replace("NAME", name).rstrip())
    elif known is not None:
        lines.append(f"Hint: {known.replace('NAME', name)}")
    elif hint := _HINTS.get(error.reason) or inert(error.hint, limit=_HINT_CHARS):
        lines.append(f"Hint: {hint}")
    return Failed("\n".join(lines), details={"reason": error.reason, "language": language})


def _fault(fault: Diagnostic, source: list[str], language: str) -> Iterator[str]:
    where = f"line {fault.line}" if fault.line is not None else "the source"
    if fault.column is not None:
        where += f", column {fault.column}"
    own = fault.file is None or fault.file in (f"source{languages()[language]}", f"tool{languages()[language]}")
    if not own:
        where = f"{inert(fault.file or '', limit=_LINE_CHARS)}, {where}"
    yield f"{where}: {inert(fault.message, limit=_MESSAGE_CHARS)}"
    text = fault.text
    if text is None and own and fault.line is not None and fault.line <= len(source):
        text = source[fault.line - 1]
    if text is not None and text.strip():
        yield f"    {inert(text.strip(), limit=_LINE_CHARS)}"


def refusal(error: RhoError, what: str) -> Failed:
    """Why the host did not do ``what`` (a clause), and what to do. Says nothing of where the host keeps things."""
    details: dict[str, Any] = {"reason": error.reason}
    if isinstance(error, GateRejected):
        details |= {"candidate": error.candidate, "gate": error.gate}
        problems = "\n".join(f"- {inert(each, limit=_MESSAGE_CHARS)}" for each in error.told[:10])
        todo = "It is rejected for good: mend the source, and write it again with write_tool."
        if error.gate == "approval":
            todo = "It is rejected for good. Do not write the same again: say what you would change, or leave it."
        return Failed(f"{what}: the gate {error.gate!r} said no to candidate {error.candidate}.\n{problems}\n{todo}",
                      details=details)  # fmt: skip
    if isinstance(error, ModuleRejected):
        bound = "" if error.limit is None else f" (limit {error.limit}, found {error.value})"
        hint = f" Hint: {inert(error.hint, limit=_HINT_CHARS)}" if error.hint else ""
        why = f"{inert(error.detail, limit=_MESSAGE_CHARS)}{bound}.{hint}"
        return Failed(f"{what}: no host takes what it becomes ({error.reason}): {why}", details=details)
    if isinstance(error, StoreError):
        known = error.reason == "too_many_candidates"
        why = error.detail if known else "the host's store did not take it; try again later"
        return Failed(f"{what} ({error.reason}): {inert(why, limit=_MESSAGE_CHARS)}", details=details)
    if isinstance(error, GenerationError):
        why = inert(str(error), limit=_MESSAGE_CHARS)
        return Failed(f"{what}: {why}. tool_status says how things stand.", details=details)
    if isinstance(error, ToolError):
        why = inert(error.detail, limit=_MESSAGE_CHARS)
        return Failed(f"{what} ({error.reason}): {why}; try again later", details=details)
    return Failed(f"{what}: {inert(str(error), limit=_MESSAGE_CHARS)}", details=details)


def shown(value: Any) -> Any:
    """Plain data of a guest or a manifest as a model is shown it: JSON whose texts are inert; a large one as the
    beginning of its text."""
    value = jsonable(thaw(value))
    try:
        made = inert_plain(value, items=_SHOWN_ITEMS, chars=_SHOWN_CHARS, newlines=True)
    except PlainError:
        return inert(json_text(value)[0], limit=_SHOWN_CHARS)
    if len(text := json_text(made)[0]) > 2 * _SHOWN_CHARS:
        return inert(text, limit=_SHOWN_CHARS)
    return made
