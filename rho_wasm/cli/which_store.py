"""Which store a verb means, and how the next command says it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

from rho_wasm.cli.output import UsageProblem

__all__ = ["DEFAULT_STORE", "existing_store", "next_command"]

DEFAULT_STORE: Final = Path(".rho")


def existing_store(path: Path) -> None:
    """Raises :class:`UsageProblem` where a verb that only reads would make a new, empty store by mistake."""
    if not os.path.lexists(path):
        raise UsageProblem(f"there is no store at {path}: stage something first, or say --store")


def next_command(verb: str, of: int | str | None = None, *, store: Path, policy: Path | None = None) -> str:
    """What to type next ``of`` a generation or a tool, with the options that this command was given itself.

    ``policy`` is for verbs that go by one.
    """
    words = ["rho-wasm", *verb.split(), *(() if of is None else (str(of),))]
    if store != DEFAULT_STORE and str(store) != os.environ.get("RHO_WASM_STORE"):
        words += ["--store", str(store)]
    if policy is not None and str(policy) != os.environ.get("RHO_WASM_POLICY"):
        words += ["--policy", str(policy)]
    return shlex.join(words)
