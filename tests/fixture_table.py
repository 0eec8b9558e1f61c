"""How each guest of ``fixtures/`` ends, with limits of the default kind: what the design gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ENDINGS", "REFUSED", "Ending"]


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one call. ``reason`` is None where the call is not an error; ``value`` is compared where given."""

    status: str = "error"
    reason: str | None = None
    tool: str | None = None
    """The tool's name, where it is not the fixture's."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None


ENDINGS: Mapping[str, Ending] = {
    "echo": Ending(
        "ok", arguments={"text": "hello", "n": [1, -2.5, None]}, value={"text": "hello", "n": [1, -2.5, None]}
    ),
    "initialized": Ending("ok", value=1),
    "image": Ending("ok", value="one red pixel"),
    "log_flood": Ending("ok", value=True),
    "ask": Ending("ask_user"),
    "halt": Ending("halt", value=42),
    "fail": Ending(reason="failed", value="which city?"),
    "raise": Ending(reason="handler_raised"),
    "exit": Ending(reason="handler_exit"),
    "spin": Ending(reason="out_of_fuel"),
    "recurse": Ending(reason="trapped"),
    "trap": Ending(reason="trapped"),
    "hog": Ending(reason="out_of_memory"),
    "out_of_bounds": Ending(reason="bad_answer"),
    "tagged": Ending(reason="bad_answer"),
    "malformed": Ending(reason="bad_answer"),
    "two_shapes": Ending(reason="bad_answer"),
    "empty_answer": Ending(reason="bad_answer"),
    "host_calls": Ending(reason="too_many_host_calls"),
    # Called past every registry, which never offers it: its name is a core tool's.
    "core_name": Ending("ok", tool="read_artifact", arguments={"id": "x"}, value={"id": "x"}),
}
"""The guests that are let in."""

REFUSED: Mapping[str, str] = {"foreign_import": "import_forbidden"}
"""The guests that are not, with the reason of ``ModuleRejected``."""
