"""What a manifest declares, for a person: its tools with their arguments, and the capabilities that it may ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rho_wasm.capability_names import misnamed
from rho_wasm.cli.output import Output
from rho_wasm.frozen import thaw
from rho_wasm.manifest import Manifest
from rho_wasm.untrusted import inert

__all__ = ["misnamed_capabilities", "show_capabilities", "show_tools"]

_SHOWN_CHARS = 200
_SHOWN_MEMBERS = 8


def misnamed_capabilities(manifest: Manifest) -> list[str]:
    """A line for each capability of a surely wrong name: it can never be granted, so each such call is denied."""
    return [words for name in manifest.capabilities if (words := misnamed(name)) is not None]


def show_capabilities(output: Output, manifest: Manifest) -> None:
    """One line of what it may ask for, and one for each wrong name in there."""
    output.say("may ask for  ", ", ".join(manifest.capabilities) or "nothing outside the sandbox")
    for words in misnamed_capabilities(manifest):
        output.say("warning: ", words, style="yellow")


def show_tools(output: Output, manifest: Manifest) -> None:
    """One block for each tool: its name, the first line of its description, its arguments, its hints, its examples."""
    for tool in manifest.tools:
        output.say(f"  {tool.name}: ", tool.description.splitlines()[0] if tool.description else "", style="green")
        required = tool.input_schema.get("required", ())
        for name, schema in tool.input_schema.get("properties", {}).items():
            output.say(f"      {name}: {_kind(schema)}, {'required' if name in required else 'optional'}")
        hints = [hint for hint in ("read_only", "destructive", "idempotent") if getattr(tool, hint)]
        facts = [f"{len(tool.examples)} examples", *hints]
        if tool.timeout_ms is not None:
            facts.append(f"at most {tool.timeout_ms} ms")
        output.say(f"      {', '.join(facts)}", style="dim")


def _kind(schema: Any) -> str:
    """What a schema wants, in its own words; of a union each member's, once."""
    if not isinstance(schema, Mapping):
        return "any"
    for union in ("anyOf", "oneOf"):
        if isinstance(members := schema.get(union), list | tuple) and "type" not in schema:
            kinds = dict.fromkeys(_kind(member) for member in members[:_SHOWN_MEMBERS])
            return inert(" or ".join(kinds) + (" or more" * (len(members) > _SHOWN_MEMBERS)), limit=_SHOWN_CHARS)
    if isinstance(named := schema.get("$ref"), str):
        return inert(named.rpartition("/")[2], limit=_SHOWN_CHARS)
    kind = schema.get("type", "one of" if "enum" in schema or "const" in schema else "any")
    said = " or ".join(kind) if isinstance(kind, list | tuple) else str(kind)
    if "enum" in schema:
        said += f" {json.dumps(thaw(schema['enum']), ensure_ascii=False, default=str)}"
    return inert(said, limit=_SHOWN_CHARS)
