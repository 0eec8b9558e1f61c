"""Names of capabilities that nobody has: mistyped ones, as far as they can be told from a program's own."""

from __future__ import annotations

from rho_wasm.grants import BOUNDS, capability_name, is_reserved
from rho_wasm.spelling import did_you_mean, one_slip_apart
from rho_wasm.untrusted import inert

__all__ = ["misnamed", "misspelt"]


def misspelt(name: str) -> bool:
    """Whether ``name`` is surely a wrong one: no name at all, or like one that ships, and none of those.

    A program's own capability never begins as one that ships (``kv.``); that it is one slip away from one
    (``htp.fetch``) is taken for a mistake too.
    """
    if name in BOUNDS:
        return False
    try:
        capability_name(name)
    except ValueError:
        return True
    return is_reserved(name) or any(one_slip_apart(name, known) for known in BOUNDS)


def misnamed(name: str) -> str | None:
    """One inert line about a name that is surely wrong, with what was probably meant; None for every other."""
    if not misspelt(name):
        return None
    return f"no capability that ships is called {inert(name, limit=80)}{did_you_mean(name, BOUNDS)}"
