"""Who wrote what: a workshop replaces, removes and rolls back only what was written in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from rho_wasm.dynamic.store import Store
from rho_wasm.names import folded
from rho_wasm.untrusted import inert

__all__ = ["Authors", "Foreign"]

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Authors:
    """The authors of one workshop: ``workshop:SESSION``, where the session stands as a part of its hash.

    A session's id is a key to what it keeps, so it is in no generation. ``shared``: what one session wrote is all
    sessions'; else each has its own.
    """

    workshop: str
    shared: bool = True

    def of(self, session_id: str | None) -> str:
        """The author of what a session stages."""
        if session_id is None:
            return self.workshop
        return f"{self.workshop}:{hashlib.sha256(session_id.encode('utf-8', 'replace')).hexdigest()[:_DIGITS]}"

    def own(self, author: str, session_id: str | None) -> bool:
        """Whether what ``author`` staged is this session's to change."""
        if self.shared:
            return author == self.workshop or author.startswith(f"{self.workshop}:")
        return author == self.of(session_id)

    def foreign(self, store: Store, session_id: str | None) -> Foreign:
        """The names that are somebody else's: who ever brought, changed or took away a tool, or is about to.

        Also where nothing of that name is live now: whoever may have ``weather`` has what the policy grants to it.
        """
        if self.shared:
            found = store.authorship.changed_by_others(self.workshop, prefix=f"{self.workshop}:")
        else:
            found = store.authorship.changed_by_others(self.of(session_id), prefix=None)
        return Foreign(found, {folded(name): name for name in found})


@dataclass(frozen=True, slots=True)
class Foreign:
    """Names of others, each with its author, and what they look like."""

    by_name: Mapping[str, str]
    _by_fold: Mapping[str, str]

    def problem(self, name: str) -> str | None:
        """Why the workshop must leave ``name`` alone; None where it need not."""
        if (author := self.by_name.get(name)) is not None:
            return f"{name} is a tool of {inert(author, limit=64)}: only what was written here can be changed here"
        if (other := self._by_fold.get(folded(name))) is not None:
            return f"{name} looks like {other}, a tool that was not written here: choose another name"
        return None
