"""How many candidates may be open: staging in a loop must not fill a disk, and nobody may take the others' room."""

from __future__ import annotations

import sqlite3

from rho_wasm.errors import StoreError

__all__ = ["REJECTED_KEPT_S", "check_room"]

REJECTED_KEPT_S = 3600.0
"""So long from its staging on a rejected candidate's artifacts stay, to be looked at."""

_CANDIDATES = 100
"""Open candidates, and rejected ones whose artifacts stay, of all authors. More than a person looks at, and with
modules of the largest size (16 MiB) less than 2 GiB."""


def check_room(connection: sqlite3.Connection, author: str, *, now: float) -> None:
    """Raises :class:`StoreError` (``too_many_candidates``) where ``author`` may not stage a further candidate now.

    An author may have as many as there is room left for: half of all where nobody else stages, and some however much
    the others have. A damaged candidate takes room and is nobody's.
    """
    rows = connection.execute(
        "SELECT state, CASE WHEN json_valid(body) THEN json_extract(body, '$.author') END FROM generations "
        "WHERE state = 'candidate' UNION ALL SELECT state, json_extract(body, '$.author') FROM "
        "(SELECT state, body FROM generations WHERE state = 'rejected' ORDER BY number DESC LIMIT ?) "
        "WHERE json_valid(body) AND json_extract(body, '$.created_at') > ?",
        (_CANDIDATES, now - REJECTED_KEPT_S),
    ).fetchall()
    own = [state for state, by in rows if by == author]
    if len(own) < _CANDIDATES - len(rows):
        return
    opened, rejected = own.count("candidate"), own.count("rejected")
    detail = f"of {author}, {opened} candidates are open and {rejected} of the last hour were rejected"
    others = f"; others have {len(rows) - len(own)}" if len(own) < len(rows) else ""
    todo = "reject those that nobody needs, then stage again" if opened else "stage again later"
    raise StoreError(f"{detail}{others}: {todo}", reason="too_many_candidates")
