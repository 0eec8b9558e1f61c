"""How a tool looks in each language that a workshop builds: what a model reads before it writes one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["IDIOMS"]

_PYTHON = """\
from rho import Failed, tool

@tool(examples=[{"arguments": {"text": "a b"}, "answer": {"ok": 2}}])
def NAME(text: str, top: int = 5) -> int:
    \"\"\"What it does, for the model that calls it.\"\"\"
    if not text:
        raise Failed("give a text")
    return len(text.split())
"""

_JAVASCRIPT = """\
import { Failed } from "rho";

/**
 * What it does, for the model that calls it.
 * @param {string} args.text what it is
 * @param {integer} [args.top=5] may be left out
 */
export function NAME({ text, top = 5 }) {
  if (!text) throw Failed("give a text");
  return text.split(/\\s+/).length;
}
"""

_TYPESCRIPT = """\
import { Failed } from "rho";

/**
 * What it does, for the model that calls it.
 * @param {string} args.text what it is
 */
export function NAME({ text }: { text: string }): number {
  if (!text) throw Failed("give a text");
  return text.split(/\\s+/).length;
}
"""

_C = """\
#include "rho.h"

static rho_answer NAME(rho_value arguments) {
    rho_str text = rho_text_or(arguments, "text", rho_str_of(""));
    if (text.size == 0) return rho_failed("give a text");
    rho_out *out = rho_new_out();
    rho_put_uint(out, text.size);
    return rho_ok(out);
}

RHO_GUEST(RHO_TOOL(NAME, "What it does, for the model that calls it.",
    RHO_ARGUMENTS(RHO_TEXT_ARG("text", "What it is."))))
"""

_WAT = """\
(module
  (memory (export "memory") 2)
  (data (i32.const 16) "\\a1\\62ok\\64done")
  (func (export "rho_alloc") (param i32) (result i32) (i32.const 65536))
  (func (export "rho_call") (param $request i32) (param $length i32) (result i64)
    (i64.or (i64.shl (i64.const 16) (i64.const 32)) (i64.const 9))))
"""

IDIOMS: Mapping[str, str] = MappingProxyType(
    {"python": _PYTHON, "javascript": _JAVASCRIPT, "typescript": _TYPESCRIPT, "c": _C, "wat": _WAT}
)
"""By language: a whole source of a tool ``NAME``. That in WebAssembly text says of itself nothing: its description and
its schema are given beside it; it answers ``{"ok": "done"}`` as plain CBOR."""
