"""A guest that asks the host for whatever its caller says, and answers the reply as it is. One for many tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import wasmtime

from rho_wasm import plain
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.manifest import Manifest, embed

__all__ = ["SPIN", "TRAP", "asking", "calling", "relay"]

_ASK, _SPIN = b"ask!", b"spin"
TRAP: Mapping[str, Any] = {}
"""Arguments of a relay that traps."""
SPIN: Mapping[str, Any] = {"do": _SPIN}
"""Arguments of a relay that computes for ever."""

_TEXT = f"""
    (module
      (import "rho" "host_call" (func $host_call (param i32 i32) (result i32)))
      (import "rho" "host_take" (func $host_take (param i32 i32) (result i32)))
      (memory (export "memory") 2)
      (func (export "rho_alloc") (param i32) (result i32) (i32.const 65536))
      (func (export "rho_call") (param $at i32) (param $len i32) (result i64)
        (local $end i32) (local $word i32)
        (local.set $end (i32.add (local.get $at) (local.get $len)))
        (loop $next
          (if (i32.ge_u (local.get $at) (local.get $end)) (then unreachable))
          (local.set $word (i32.load (local.get $at)))
          (if (i32.eq (local.get $word) (i32.const {int.from_bytes(_SPIN, "little")}))
            (then (loop $ever (br $ever))))
          (if (i32.eq (local.get $word) (i32.const {int.from_bytes(_ASK, "little")}))
            (then
              (local.set $len (call $host_call
                (i32.add (local.get $at) (i32.const 8)) (i32.load (i32.add (local.get $at) (i32.const 4)))))
              (return (i64.or
                (i64.const {1024 << 32})
                (i64.extend_i32_u (call $host_take (i32.const 1024) (local.get $len)))))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $next))
        unreachable))
"""


def relay(*tools: str, capabilities: tuple[str, ...] = ("tool.call",), **declared: Any) -> Artifact:
    """An artifact in which each of ``tools`` is a relay, which may ask for ``capabilities``."""
    manifest = {
        "tools": [
            {"name": name, "description": f"The tool {name}.", "input_schema": {"type": "object"}, **declared}
            for name in tools
        ],
        "capabilities": list(capabilities),
    }
    return Artifact.from_wasm(embed(bytes(wasmtime.wat2wasm(_TEXT)), Manifest.from_json(manifest)))


def asking(capability: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a relay that asks for ``capability``."""
    request = plain.encode({"capability": capability, "arguments": dict(arguments)})
    return {"do": _ASK + len(request).to_bytes(4, "little") + request}


def calling(name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Arguments of a relay that calls the tool ``name``."""
    return asking("tool.call", {"name": name, "arguments": dict(arguments or {})})
