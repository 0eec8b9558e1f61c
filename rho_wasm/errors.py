"""Every error that rho_wasm raises on purpose.

::

    RhoError
     ├─ ToolError(reason, tool, generation, cause)     a call that crashed, was refused, or met a fault of the host
     ├─ PlainError                                     NotPlain (a value), Malformed (bytes), TooLarge
     ├─ SchemaInvalid                                  a JSON Schema that arguments cannot be checked against
     ├─ ModuleRejected(reason, detail, limit, value)   admission, compilation
     ├─ BuildError(language, diagnostics)              a toolchain said no: file, line, column, message
     ├─ PolicyError                                    unreadable or unknown: the host does not start
     ├─ RegistryError                                  NameReserved, NameInvalid, NotATool
     ├─ GenerationError                                GenerationConflict, GateRejected, UnknownGeneration
     ├─ CapabilityError(kind)                          denied, undeclared, invalid_arguments, quota, unavailable
     ├─ StoreError                                     Corrupt, Locked, VersionMismatch
     └─ Closed                                         used after close

Errors differ by who must act. Each carries a machine ``reason`` and builds its own message from typed fields, so that
a message names the tool, the limit and the value, and no text of a guest enters it unbounded: whoever fills a field
with a guest's text passes it through :func:`rho_wasm.untrusted.inert` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "BuildError",
    "CapabilityError",
    "Closed",
    "Corrupt",
    "Diagnostic",
    "GateRejected",
    "GenerationConflict",
    "GenerationError",
    "Locked",
    "Malformed",
    "ModuleRejected",
    "NameInvalid",
    "NameReserved",
    "NotATool",
    "NotPlain",
    "PlainError",
    "PolicyError",
    "PolicyProblem",
    "RegistryError",
    "RhoError",
    "SchemaInvalid",
    "StoreError",
    "TooLarge",
    "ToolError",
    "UnknownGeneration",
    "VersionMismatch",
]


class RhoError(Exception):
    """Base of all errors of rho_wasm. ``reason`` is a short machine word that scripts may rely on."""

    reason: str = "error"

    def as_json(self) -> dict[str, Any]:
        """``type``, ``reason`` and ``message``: what ``--json`` prints under ``error``."""
        return {"type": type(self).__name__, "reason": self.reason, "message": str(self)}


class ToolError(RhoError):
    """One call that did not end in a handler's answer.

    ``reason`` is one of the reasons in :data:`rho_wasm.results.KINDS`; the kind (crashed, refused, host) follows from
    it. ``detail`` is one line for the model: what happened and what to do. ``limit`` and ``value`` name the bound that
    was met. ``backtrace`` is a bounded list of inert lines, innermost first (of what was raised
    in Python last). ``cause`` is the exception behind it, kept only for handlers that the host trusts.
    """

    def __init__(
        self,
        reason: str,
        *,
        tool: str,
        detail: str = "",
        generation: int | None = None,
        cause: BaseException | None = None,
        limit: str | None = None,
        value: int | str | None = None,
        backtrace: Sequence[str] = (),
    ) -> None:
        self.reason = reason
        self.tool = tool
        self.detail = detail
        self.generation = generation
        self.cause = cause
        self.limit = limit
        self.value = value
        self.backtrace = tuple(backtrace)
        text = f"{tool}: {reason}"
        if limit is not None:
            text += f" ({limit}={value})" if value is not None else f" ({limit})"
        if detail:
            text += f": {detail}"
        super().__init__(text)


class PlainError(RhoError):
    """A value or some bytes are not plain data (RFC 8949 without tags, see guest_sdk/ABI.md)."""


class NotPlain(PlainError):
    """A Python value that plain data cannot hold. ``path`` says where, ``type_name`` what stood there."""

    reason = "not_plain"

    def __init__(self, path: str, type_name: str, detail: str = "") -> None:
        self.path = path
        self.type_name = type_name
        self.detail = detail
        why = detail or "plain data is null, bool, int, float, text, bytes, list, map with text keys"
        super().__init__(f"{path}: {type_name} is not plain data: {why}")


class Malformed(PlainError):
    """Bytes that are not one item of plain CBOR. ``offset`` is the byte where that showed, if it is known."""

    reason = "malformed"

    def __init__(self, detail: str, offset: int | None = None) -> None:
        self.detail = detail
        self.offset = offset
        super().__init__(f"not plain CBOR: {detail}" + (f" (at byte {offset})" if offset is not None else ""))


class TooLarge(PlainError):
    """Plain data over a bound. ``what`` is the bound's name (``bytes``, ``depth``, ``items``), ``excess`` says
    what there is too much of: "more than 100,000 items" (each key and each value is one)."""

    reason = "too_large"

    def __init__(self, what: str, limit: int, value: int | None = None) -> None:
        self.what = what
        self.limit = limit
        self.value = value
        self.excess = f"a depth of more than {limit:,}" if what == "depth" else f"more than {limit:,} {what}"
        super().__init__(f"too large: {self.excess}" + (f" ({value:,})" if value is not None else ""))


class SchemaInvalid(RhoError, ValueError):
    """A JSON Schema that is wrong, too large, or refers to something outside itself. ``detail`` is for its author."""

    reason = "schema_invalid"

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(f"not a usable JSON Schema: {detail}")


class ModuleRejected(RhoError):
    """A module that is not let in. Nothing of it ran.

    ``reason`` names the check, ``detail`` says what was wrong in one line, ``name`` is the offending import, export or
    function (inert), ``limit`` and ``value`` the bound and what was found, ``hint`` what its author should change.
    """

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        limit: int | str | None = None,
        value: int | str | None = None,
        name: str | None = None,
        hint: str = "",
    ) -> None:
        self.reason = reason
        self.detail = detail
        self.limit = limit
        self.value = value
        self.name = name
        self.hint = hint
        text = f"module rejected, {reason}: {detail}"
        if limit is not None:
            text += f" (limit {limit}" + (f", found {value})" if value is not None else ")")
        if hint:
            text += f". {hint}"
        super().__init__(text)

    def as_json(self) -> dict[str, Any]:
        fields = {"name": self.name, "limit": self.limit, "value": self.value, "hint": self.hint or None}
        return super().as_json() | {key: value for key, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of a toolchain. ``line`` and ``column`` count from 1; None where the tool gave none.

    ``text`` is the line of the source, where a toolchain tells it.
    """

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    severity: str = "error"
    text: str | None = None

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        told = f"{where}: {self.severity}: {self.message}" if where else f"{self.severity}: {self.message}"
        return f"{told}\n    {self.text}" if self.text else told


class BuildError(RhoError):
    """A toolchain said no. ``diagnostics`` are its messages, ``hint`` what to do (say which extra is missing)."""

    def __init__(
        self, language: str, diagnostics: Sequence[Diagnostic], *, reason: str = "build_failed", hint: str = ""
    ) -> None:
        self.language = language
        self.diagnostics = tuple(diagnostics)
        self.reason = reason
        self.hint = hint
        text = f"{language}: " + "\n".join(str(diagnostic) for diagnostic in self.diagnostics)
        super().__init__(text + (f"\n{hint}" if hint else ""))

    def as_json(self) -> dict[str, Any]:
        rows = [
            {
                "file": d.file,
                "line": d.line,
                "column": d.column,
                "severity": d.severity,
                "message": d.message,
                "text": d.text,
            }
            for d in self.diagnostics
        ]
        return super().as_json() | {"language": self.language, "diagnostics": rows, "hint": self.hint or None}


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """One thing that is wrong in a policy: ``key`` is the way to it, ``line`` counts from 1 (None without a file)."""

    reason: str
    key: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.key}: {self.message}"


class PolicyError(RhoError):
    """A policy that cannot be read or says something unknown. The host does not start; it never means "no policy".

    ``detail`` and ``reason`` are those of the first thing wrong. ``problems`` are the first ten where a file was read
    as a whole, ``more`` is how many there are beside them.
    """

    def __init__(
        self,
        detail: str,
        *,
        reason: str = "policy_invalid",
        source: str | None = None,
        problems: Sequence[PolicyProblem] = (),
        more: int = 0,
    ) -> None:
        self.detail = detail
        self.reason = reason
        self.source = source
        self.problems = tuple(problems)
        self.more = more
        text = f"policy{f' {source}' if source else ''}: {detail}"
        for problem in self.problems[1:]:
            text += f"\n{'' if problem.line is None else f'line {problem.line}: '}{problem}"
        super().__init__(text + (f"\n(and {more} more)" if more else ""))

    def as_json(self) -> dict[str, Any]:
        rows = [
            {"reason": each.reason, "line": each.line, "key": each.key, "message": each.message}
            for each in self.problems
        ]
        return super().as_json() | ({"problems": rows} if rows else {})


class RegistryError(RhoError):
    """A name or a value that the registry does not take."""


class NameReserved(RegistryError):
    """``name`` is, or looks like, ``reserved``, which is a core tool's or one that the host keeps for itself."""

    reason = "name_reserved"

    def __init__(self, name: str, reserved: str, why: str) -> None:
        self.name = name
        self.reserved = reserved
        self.why = why
        likeness = "" if name == reserved else f" looks like {reserved!r}, which"
        super().__init__(f"the name {name!r}{likeness} is reserved: {why}. Choose another name")


class NameInvalid(RegistryError):
    """``name`` is no name that every model API and client accepts."""

    reason = "name_invalid"

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why
        super().__init__(f"{name!r} is not a tool name: {why}")


class NotATool(RegistryError):
    """Something else than a :class:`rho_wasm.Tool` was given."""

    reason = "not_a_tool"

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name
        super().__init__(f"a {type_name} is not a Tool: make one with Tool(...) or @tool")


class GenerationError(RhoError):
    """A generation that cannot be staged or switched to."""


class GenerationConflict(GenerationError):
    """Another switch of the same tools came first: stage again on the generation that is live now."""

    reason = "generation_conflict"

    def __init__(self, candidate: int, *, based_on: int, live: int, tools: Sequence[str] = ()) -> None:
        self.candidate = candidate
        self.based_on = based_on
        self.live = live
        self.tools = tuple(tools)
        what = f" ({', '.join(self.tools)})" if self.tools else ""
        super().__init__(
            f"generation {candidate} was staged on {based_on}, but {live} is live and changed the same tools{what}: "
            f"stage it again on generation {live}"
        )


class GateRejected(GenerationError):
    """A switch gate did not say yes. ``gate`` is its name, ``problems`` its reasons, each a line to act on.

    ``told`` is what of them a model may read: of a replay only numbers, as who wrote the candidate chooses where and
    how it crashes on what other people asked. The message, ``problems`` and the JSON have it all, for an operator.

    The candidate is rejected for good, unless it is ``waiting``: for a person's yes, or for a host that has room. Then
    it stays a candidate and can be activated again.
    """

    reason = "gate_rejected"

    def __init__(
        self,
        candidate: int,
        gate: str,
        problems: Sequence[str],
        *,
        told: Sequence[str] | None = None,
        waiting: bool = False,
    ) -> None:
        self.candidate = candidate
        self.gate = gate
        self.problems = tuple(problems)
        self.told = self.problems if told is None else tuple(told)
        self.waiting = waiting
        verb = "waits at" if waiting else "was rejected by"
        super().__init__(f"generation {candidate} {verb} the gate {gate!r}: " + "; ".join(self.problems))

    def as_json(self) -> dict[str, Any]:
        return super().as_json() | {"gate": self.gate, "problems": list(self.problems), "waiting": self.waiting}


class UnknownGeneration(GenerationError):
    """No generation of that number, or it is in a state in which this cannot be done (``why``)."""

    reason = "unknown_generation"

    def __init__(self, number: int, why: str = "there is none of that number") -> None:
        self.number = number
        self.why = why
        super().__init__(f"generation {number}: {why}")


class CapabilityError(RhoError):
    """A capability said no. ``reason`` is ``kind``: denied, undeclared, invalid_arguments, quota or unavailable.

    ``fault``: it is a fault of this host's own (its disk, its threads), so its operator is told too.
    """

    def __init__(self, kind: str, message: str, *, capability: str | None = None, fault: bool = False) -> None:
        self.kind = self.reason = kind
        self.message = message
        self.capability = capability
        self.fault = fault
        super().__init__(f"{capability}: {kind}: {message}" if capability else f"{kind}: {message}")

    @classmethod
    def not_granted(cls, capability: str) -> CapabilityError:
        """What is there and not granted, what is not there, and what a replay has no answer to: one and the same."""
        return cls("denied", f"{capability} is not granted", capability=capability)


class StoreError(RhoError):
    """The store cannot do what was asked. ``path`` names the file or folder, ``detail`` says what to do."""

    reason = "store_error"

    def __init__(self, detail: str, *, path: str | None = None, reason: str | None = None) -> None:
        self.detail = detail
        self.path = path
        if reason is not None:
            self.reason = reason
        super().__init__(f"store{f' {path}' if path else ''}: {detail}")


class Corrupt(StoreError):
    """Something in the store is not what was written there: a hash, a row or a file is wrong."""

    reason = "corrupt"


class Locked(StoreError):
    """Another process held the store for longer than this one waits."""

    reason = "locked"


class VersionMismatch(StoreError):
    """The store was written by a newer version. It is left as it is."""

    reason = "version_mismatch"

    def __init__(self, *, found: int, known: int, path: str | None = None) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"it has schema version {found}, this rho_wasm knows up to {known}: use the newer rho_wasm", path=path
        )


class Closed(RhoError):
    """``what`` was used after it had been closed."""

    reason = "closed"

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} is closed")
