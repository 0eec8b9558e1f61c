"""Small guests for these tests, made from WAT in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.manifest import Manifest, embed
from rho_wasm.testing import guest

__all__ = ["OTHERWISE_TRAPS", "SPINS", "SPINS_IF_TOLD", "TRAPS", "TRAPS_IF_TOLD", "artifact", "declaration"]

TRAPS = "unreachable"
SPINS = "(loop $again (br $again))"

_TOLD = "(i32.eq (i32.load8_u (i32.sub (i32.add (local.get $ptr) (local.get $len)) (i32.const 1))) (i32.const 0xf5))"
"""The request ends with true: its last key is ``arguments``, and these guests are called with one argument."""

TRAPS_IF_TOLD = f"(if {_TOLD} (then unreachable))"
SPINS_IF_TOLD = f"(if {_TOLD} (then {SPINS}))"

OTHERWISE_TRAPS = "(if (i32.ne (i32.load8_u offset=12 (local.get $ptr)) (i32.const {letter})) (then unreachable))"
"""For a guest of several tools: traps unless the called tool's name begins with that letter (its code)."""


def declaration(name: str, **more: Any) -> dict[str, Any]:
    """What a manifest says of a tool that takes any arguments."""
    return {"name": name, "description": f"The tool {name}.", "input_schema": {"type": "object"}} | more


def artifact(
    *tools: str | Mapping[str, Any],
    answer: Any = "done",
    body: str = "",
    imports: str = "",
    salt: int = 0,
    manifest: Mapping[str, Any] | None = None,
    source: str | None = None,
) -> Artifact:
    """:func:`rho_wasm.testing.guest` with more fields of the manifest, and with a claimed source."""
    made = guest(*tools, answer=answer, body=body, imports=imports, salt=salt)
    declared: Sequence[Any] = [declaration(tool) if isinstance(tool, str) else tool for tool in tools]
    wasm = embed(made.wasm, Manifest.from_json({"tools": declared, **manifest})) if manifest else made.wasm
    return Artifact.from_wasm(wasm, source=source, language=None if source is None else "wat")
