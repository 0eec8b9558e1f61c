"""Small guests for these tests, made from WAT in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import wasmtime

from rho_wasm import plain
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.manifest import Manifest, embed

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
    """A guest of ``tools`` (names or declarations) that runs ``body`` and then answers ``{"ok": answer}``.

    ``answer`` may be a whole answer map instead. ``salt`` makes other bytes, so another version.
    """
    whole = (
        answer if isinstance(answer, dict) and answer.keys() & {"ok", "error", "ask_user", "halt"} else {"ok": answer}
    )
    data = plain.encode(whole)
    text = "".join(f"\\{byte:02x}" for byte in data)
    wat = f"""
    (module
      {imports}
      (memory (export "memory") 2)
      (data (i32.const 16) "{text}")
      (global i32 (i32.const {salt}))
      (func (export "rho_alloc") (param i32) (result i32) (i32.const 65536))
      (func (export "rho_call") (param $ptr i32) (param $len i32) (result i64)
        {body}
        (i64.or (i64.shl (i64.const 16) (i64.const 32)) (i64.const {len(data)}))))
    """
    declared: Sequence[Any] = [declaration(tool) if isinstance(tool, str) else tool for tool in tools]
    wasm = embed(bytes(wasmtime.wat2wasm(wat)), Manifest.from_json({"tools": declared, **(manifest or {})}))
    return Artifact.from_wasm(wasm, source=source, language=None if source is None else "wat")
