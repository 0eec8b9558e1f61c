"""What a person sees before saying yes to a candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from rho_wasm.dynamic.artifact import Artifact, Provenance
from rho_wasm.dynamic.generation import Generation
from rho_wasm.dynamic.granting import GrantChange, grant_changes
from rho_wasm.dynamic.replay_report import ReplayReport
from rho_wasm.dynamic.store import Store
from rho_wasm.grants import Grant

__all__ = ["Change", "Review", "ToolReview", "review_of"]

Change: TypeAlias = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReview:
    """One tool that a candidate brings, replaces or takes away.

    All text was written by whoever wrote the tool: print it with :func:`rho_wasm.untrusted.inert`. ``source`` is what
    the bytes were made of if ``provenance`` is ``built here``; else it is merely what somebody said. ``capabilities``
    are what it may ask for at most, ``grants`` what it is given, ``grant_changes`` how that differs from what the
    version that it replaces has. ``quarantines`` counts versions of that name that are quarantined. ``replay`` is what
    became of recorded calls on it, where the policy has them replayed and there are some: it shows what users asked.
    For a removed tool only the ``previous_`` fields say something.
    """

    tool: str
    change: Change
    artifact: str | None = None
    description: str = ""
    capabilities: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    examples: int = 0
    language: str | None = None
    toolchain: str | None = None
    provenance: Provenance = "claimed"
    source: str | None = field(default=None, repr=False)
    previous_artifact: str | None = None
    previous_capabilities: tuple[str, ...] = ()
    previous_grants: tuple[Grant, ...] = ()
    previous_source: str | None = field(default=None, repr=False)
    quarantines: int = 0
    replay: ReplayReport | None = field(default=None, repr=False)

    @property
    def not_granted(self) -> tuple[str, ...]:
        """What it may ask for and is denied."""
        granted = {grant.capability for grant in self.grants}
        return tuple(name for name in self.capabilities if name not in granted)

    @property
    def grant_changes(self) -> tuple[GrantChange, ...]:
        return grant_changes(self.previous_grants, self.grants)

    def as_json(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "change": self.change,
            "artifact": self.artifact,
            "description": self.description,
            "capabilities": list(self.capabilities),
            "grants": [grant.model_dump(mode="json") for grant in self.grants],
            "not_granted": list(self.not_granted),
            "grant_changes": [change.as_json() for change in self.grant_changes],
            "examples": self.examples,
            "language": self.language,
            "toolchain": self.toolchain,
            "provenance": self.provenance if self.artifact is not None else None,
            "source": self.source,
            "previous_artifact": self.previous_artifact,
            "previous_capabilities": list(self.previous_capabilities),
            "previous_grants": [grant.model_dump(mode="json") for grant in self.previous_grants],
            "previous_source": self.previous_source,
            "quarantines": self.quarantines,
            "replay": None if self.replay is None else self.replay.as_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A candidate as a person is shown it: who staged it and why, and each tool that it changes."""

    candidate: int
    parent: int | None
    author: str
    note: str
    tools: tuple[ToolReview, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "candidate": self.candidate,
            "parent": self.parent,
            "author": self.author,
            "note": self.note,
            "tools": [tool.as_json() for tool in self.tools],
        }


def review_of(store: Store, candidate: Generation, replays: Mapping[str, ReplayReport]) -> Review:
    """Gathers a review from the store. Raises :class:`StoreError`, :class:`Corrupt` for a damaged new artifact."""
    base = candidate if candidate.parent is None else store.generation(candidate.parent)
    changes = candidate.changes
    kinds: Sequence[tuple[Change, tuple[str, ...]]] = (
        ("added", changes.added),
        ("changed", changes.changed),
        ("removed", changes.removed),
    )
    return Review(
        candidate=candidate.number,
        parent=candidate.parent,
        author=candidate.author,
        note=candidate.note,
        tools=tuple(
            replace(_tool(store, candidate, base, name, change), replay=replays.get(name))
            for change, names in kinds
            for name in names
        ),
    )


def _tool(store: Store, candidate: Generation, base: Generation, name: str, change: Change) -> ToolReview:
    new, old = candidate.tools.get(name), base.tools.get(name)
    # What is replaced or taken away must not keep a person from looking at what comes, so it may be damaged.
    before = None if old is None else store.artifact_if_whole(old.artifact)
    previous_artifact = None if old is None else old.artifact
    quarantines = sum(held.active for held in store.quarantines(name))
    if new is None:
        return ToolReview(
            tool=name,
            change=change,
            previous_artifact=previous_artifact,
            previous_capabilities=_capabilities(before),
            previous_grants=() if old is None else old.grants,
            previous_source=None if before is None else before.source,
            quarantines=quarantines,
        )
    artifact = store.artifact(new.artifact)
    declaration = artifact.manifest.tool(name)
    return ToolReview(
        tool=name,
        change=change,
        artifact=new.artifact,
        description="" if declaration is None else declaration.description,
        capabilities=_capabilities(artifact),
        grants=new.grants,
        examples=0 if declaration is None else len(declaration.examples),
        language=artifact.language or artifact.manifest.language,
        toolchain=artifact.toolchain,
        provenance=artifact.provenance,
        source=artifact.source,
        previous_artifact=previous_artifact,
        previous_capabilities=_capabilities(before),
        previous_grants=() if old is None else old.grants,
        previous_source=None if before is None else before.source,
        quarantines=quarantines,
    )


def _capabilities(artifact: Artifact | None) -> tuple[str, ...]:
    return () if artifact is None else artifact.manifest.capabilities
