"""What was found of each clause, and the report that it becomes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rho_wasm.conform.clauses import CLAUSES, Level
from rho_wasm.untrusted import inert

__all__ = ["ClauseResult", "ClauseStatus", "ConformReport", "Findings"]

ClauseStatus: TypeAlias = Literal["pass", "fail", "warning", "not_applicable"]
"""``warning``: the module does not do what it should. ``not_applicable``: there was nothing to look at, or no way."""

_REASON_CHARS = 600


@dataclass(frozen=True, slots=True)
class ClauseResult:
    """One clause of one module. ``reason`` is one inert line, and empty where a clause that passed needs none."""

    id: str
    section: str
    """The heading of guest_sdk/ABI.md."""
    text: str
    level: Level
    status: ClauseStatus
    reason: str

    def as_json(self) -> dict[str, str]:
        return {
            "id": self.id,
            "section": self.section,
            "text": self.text,
            "level": self.level,
            "status": self.status,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformReport:
    """What :func:`rho_wasm.conform.conform` found: every clause once, in the order of the page."""

    sha256: str
    """Of the whole file, in hex."""
    clauses: tuple[ClauseResult, ...]
    engine: str | None = None
    """The SHA-256, in hex, of the engine that the module needs; None where it needs none."""
    calls: int = 0
    """How often the module was called."""

    @property
    def called(self) -> bool:
        """It was run at all: a host would take it, its engine, if it needs one, is installed, and there are arguments
        to call one of its first tools with."""
        return self.calls > 0

    @property
    def ok(self) -> bool:
        """No clause fails. Warnings do not count."""
        return not self.of("fail")

    def of(self, status: ClauseStatus) -> tuple[ClauseResult, ...]:
        """The clauses that ended so."""
        return tuple(clause for clause in self.clauses if clause.status == status)

    def as_json(self) -> dict[str, Any]:
        return {
            "sha256": self.sha256,
            "ok": self.ok,
            "engine": self.engine,
            "calls": self.calls,
            "clauses": [clause.as_json() for clause in self.clauses],
        }


class Findings:
    """Collects what each clause came to. A failure outweighs a pass, and a pass what was not looked at; the first
    reason of each is kept."""

    def __init__(self) -> None:
        self._failed: dict[str, str] = {}
        self._passed: dict[str, str] = {}
        self._skipped: dict[str, str] = {}

    def passed(self, clause: str, reason: str = "") -> None:
        self._passed.setdefault(clause, reason)

    def failed(self, clause: str, reason: str) -> None:
        """``reason`` says what was seen and what to do. It may hold text of the guest: it is made inert here."""
        self._failed.setdefault(clause, reason)

    def skipped(self, clauses: Iterable[str], reason: str) -> None:
        """Nothing of these could be looked at."""
        for clause in clauses:
            self._skipped.setdefault(clause, reason)

    def first_failure(self, clauses: Iterable[str]) -> str | None:
        """The clause that failed first of these; None where they all hold so far. What only should hold is none."""
        among = {clause for clause in clauses if CLAUSES[clause].level == "must"}
        return next((clause for clause in self._failed if clause in among), None)

    @property
    def failures(self) -> int:
        """How many clauses failed so far."""
        return len(self._failed)

    def results(self) -> tuple[ClauseResult, ...]:
        return tuple(self._result(clause) for clause in CLAUSES)

    def _result(self, identifier: str) -> ClauseResult:
        clause = CLAUSES[identifier]
        status: ClauseStatus = "not_applicable"
        reason = self._skipped.get(identifier, "the module gives no occasion for it")
        if identifier in self._failed:
            status = "fail" if clause.level == "must" else "warning"
            reason = self._failed[identifier]
        elif identifier in self._passed:
            status, reason = "pass", self._passed[identifier]
        shown = inert(reason, limit=_REASON_CHARS)
        return ClauseResult(clause.id, clause.section, clause.text, clause.level, status, shown)
