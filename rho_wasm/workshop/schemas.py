"""The pieces of which the schemas of the workshop's tools are made."""

from __future__ import annotations

from typing import Any

from rho_wasm.names import MAX_NAME_CHARS
from rho_wasm.workshop.limits import WorkshopLimits

__all__ = ["CANDIDATE", "NOTE", "TOOL_NAME", "arguments", "case", "host_replies", "open_arguments"]

CANDIDATE: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 2**53}
TOOL_NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 4 * MAX_NAME_CHARS}
"""Longer than a name may be: what is wrong with one is said in words of its own."""
NOTE: dict[str, Any] = {"type": "string", "maxLength": 500, "description": "Why, for whoever reads the history."}


def arguments(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """A map of these keys and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def open_arguments(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """A map of these keys, whose reader refuses others itself.

    Where a closed map is asked of a tool that changes nothing, a key that it does not know is left out: a test would
    check less than it says.
    """
    return {"type": "object", "properties": properties, "required": list(required)}


def host_replies(*, exact: bool = False) -> dict[str, Any]:
    """What the host replies to host calls meanwhile; ``exact``: to those with just these arguments."""
    left_out = "All that it asks with; left out: nothing." if exact else "Left out: any."
    of = arguments if exact else open_arguments
    return {
        "type": "array",
        "maxItems": 32,
        "description": "Replies to its host calls, each used once; any other call is denied.",
        "items": of(
            {
                "capability": {"type": "string", "maxLength": 128},
                "arguments": {"type": "object", "description": left_out},
                "reply": {"description": 'The value, or {"error": {"kind": ..., "message": ...}}.'},
            },
            "capability",
            "reply",
        ),
    }


def case(limits: WorkshopLimits) -> dict[str, Any]:
    """The keys of one case."""
    return {
        "arguments": {"type": "object", "description": "Of the tool."},
        "expect": {
            "description": (
                'What it must answer: a value, or a whole answer such as {"error": "reason"}. Left out: not checked.'
            )
        },
        "host": host_replies(),
    }
