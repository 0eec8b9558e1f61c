"""Who changed what, asked of the store without reading every generation whole: a model may ask often."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rho_wasm.dynamic.database import Database
from rho_wasm.dynamic.generation import Candidate, VersionKey, from_row
from rho_wasm.dynamic.history import STRIKES_AUTHOR
from rho_wasm.errors import Corrupt

__all__ = ["Authorship"]

_AUTHOR = "json_extract(body, '$.author')"


class Authorship:
    """Safe to use from any thread. Every method raises :class:`StoreError` as :class:`Database` does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def candidates(self) -> tuple[Candidate, ...]:
        """Those that are neither live nor rejected, the newest first. One whose row is damaged is left out."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT number, state, floor, why, body, digest FROM generations WHERE state = 'candidate' "
                "ORDER BY number DESC"
            ).fetchall()
        found = []
        for row in rows:
            try:
                candidate = from_row(*row)
            except Corrupt:
                continue
            assert isinstance(candidate, Candidate), "it was asked for by its state"
            found.append(candidate)
        return tuple(found)

    def changed_by_others(self, author: str, *, prefix: str | None) -> Mapping[str, str]:
        """The tools that somebody else brought, changed or took away, or is about to, each with the first who did.

        Others are neither ``author`` nor those that begin with ``prefix``. What was rejected is left out, and automatic
        returns, which are nobody's decision.
        """
        own = f"{_AUTHOR} = ?" if prefix is None else f"({_AUTHOR} = ? OR substr({_AUTHOR}, 1, ?) = ?)"
        values = (author,) if prefix is None else (author, len(prefix), prefix)
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_AUTHOR}, json_extract(body, '$.changes') FROM generations "  # noqa: S608
                f"WHERE json_valid(body) AND state != 'rejected' AND {_AUTHOR} != ? AND NOT {own} ORDER BY number",
                (STRIKES_AUTHOR, *values),
            ).fetchall()
        found: dict[str, str] = {}
        for by, changes in rows:
            for names in json.loads(changes).values():
                for name in names:
                    found.setdefault(name, by)
        return found

    def brought_by(self, version: VersionKey) -> frozenset[str]:
        """The authors of the generations that brought a version and were live."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_AUTHOR}, json_extract(body, '$.changes') FROM generations "  # noqa: S608
                "WHERE json_valid(body) AND state NOT IN ('candidate', 'rejected') "
                f"AND {_AUTHOR} != ? AND json_extract(body, ?) = ?",
                (STRIKES_AUTHOR, f'$.tools."{version.tool}".artifact', version.artifact),
            ).fetchall()
        changes = [(by, json.loads(text)) for by, text in rows]
        return frozenset(by for by, each in changes if version.tool in (*each["added"], *each["changed"]))
