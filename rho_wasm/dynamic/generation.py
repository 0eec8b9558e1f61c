"""A generation: an immutable, numbered set of tool versions. Exactly one is live."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from rho_wasm.errors import Corrupt
from rho_wasm.frozen import FrozenMap
from rho_wasm.grants import Grant

__all__ = ["Candidate", "Changes", "Generation", "State", "Switch", "ToolVersion", "Verdict", "VersionKey", "from_row"]

State: TypeAlias = Literal["candidate", "live", "superseded", "rejected", "rolled_back"]


class VersionKey(NamedTuple):
    """What strikes count against: one tool of one artifact (SHA-256, hex)."""

    tool: str
    artifact: str


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """What a generation says of one tool. The manifest is the artifact's, and so named by its hash.

    ``grants`` and ``limits`` are what was given at staging; today's policy can only narrow both.
    """

    artifact: str
    grants: tuple[Grant, ...] = ()
    limits: Mapping[str, int] = field(default_factory=FrozenMap)

    def as_json(self) -> dict[str, Any]:
        return {
            "artifact": self.artifact,
            "grants": [grant.model_dump(mode="json") for grant in self.grants],
            "limits": dict(self.limits),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> ToolVersion:
        grants = tuple(Grant.model_validate(grant) for grant in given["grants"])
        return cls(given["artifact"], grants, FrozenMap(given["limits"]))


@dataclass(frozen=True, slots=True)
class Changes:
    """How a set of tools differs from another. Names, sorted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*self.added, *self.changed, *self.removed))

    @classmethod
    def between(cls, before: Mapping[str, ToolVersion], after: Mapping[str, ToolVersion]) -> Changes:
        return cls(
            tuple(sorted(after.keys() - before.keys())),
            tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name])),
            tuple(sorted(before.keys() - after.keys())),
        )

    def applied(self, base: Mapping[str, ToolVersion], tools: Mapping[str, ToolVersion]) -> dict[str, ToolVersion]:
        """``base`` with these changes, the versions taken from ``tools``."""
        kept = {name: version for name, version in base.items() if name not in self.names}
        return kept | {name: tools[name] for name in (*self.added, *self.changed)}

    def as_json(self) -> dict[str, Any]:
        return {"added": list(self.added), "changed": list(self.changed), "removed": list(self.removed)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one switch gate said of a candidate. ``problems`` are lines to act on; where it passed, what there is to
    know all the same. Those of ``replay`` are an operator's: no model reads them (:class:`GateRejected` says why)."""

    gate: str
    passed: bool
    problems: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"gate": self.gate, "passed": self.passed, "problems": list(self.problems)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A numbered set of tool versions. All but ``state``, ``floor`` and ``why`` was fixed when it was staged.

    ``parent`` is the generation that it was staged on (None for the first), ``changes`` how it differs from it.
    ``floor`` says that an automatic return never goes below the versions that it brought. ``why`` says how it came to
    its state where that is not plain (the gate that rejected it, the number that it was rebased as).
    ``created_at`` is a POSIX timestamp in seconds.
    """

    number: int
    parent: int | None
    author: str
    note: str
    created_at: float
    tools: Mapping[str, ToolVersion] = field(repr=False)
    changes: Changes
    state: State = "candidate"
    floor: bool = False
    why: str = ""

    def key(self, tool: str) -> VersionKey:
        """The version of ``tool`` here. KeyError if there is none."""
        return VersionKey(tool, self.tools[tool].artifact)

    def as_json(self) -> dict[str, Any]:
        return {"state": self.state, "floor": self.floor, "why": self.why or None} | self._fixed()

    def _fixed(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "parent": self.parent,
            "author": self.author,
            "note": self.note,
            "created_at": self.created_at,
            "changes": self.changes.as_json(),
            "tools": {name: version.as_json() for name, version in self.tools.items()},
        }

    def body(self) -> tuple[str, str]:
        """The part that never changes as canonical JSON, and its SHA-256."""
        text = json.dumps(self._fixed(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return text, hashlib.sha256(text.encode()).hexdigest()


class Candidate(Generation):
    """A generation that is staged and not live: nothing of it is offered until every switch gate said yes."""

    __slots__ = ()


def from_row(number: int, state: State, floor: int, why: str, body: str, digest: str) -> Generation:
    """A generation out of the store. Raises :class:`Corrupt`, naming it, if it is not what was written there."""
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise Corrupt(f"generation {number} is not what was written: roll back to another one")
    try:
        given = json.loads(body)
        kind = Candidate if state == "candidate" else Generation
        return kind(
            number=given["number"],
            parent=given["parent"],
            author=given["author"],
            note=given["note"],
            created_at=given["created_at"],
            tools=FrozenMap({name: ToolVersion.from_json(version) for name, version in given["tools"].items()}),
            changes=Changes(*(tuple(given["changes"][part]) for part in ("added", "changed", "removed"))),
            state=state,
            floor=bool(floor),
            why=why,
        )
    except (ValueError, KeyError, TypeError):
        raise Corrupt(f"generation {number} cannot be read: roll back to another one") from None


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch in the history: ``number`` became live in place of ``previous`` at ``at`` (POSIX seconds)."""

    id: int
    number: int
    previous: int
    author: str
    note: str
    at: float

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "previous": self.previous,
            "author": self.author,
            "note": self.note,
            "at": self.at,
        }
