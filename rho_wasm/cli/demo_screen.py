"""What the demo prints while it plays, and what it found out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from rho_wasm.cli.output import Output
from rho_wasm.events import Event, GenerationSwitched, StrikeCounted, ToolQuarantined

__all__ = ["Screen"]


@dataclass(slots=True)
class Screen:
    """Numbered steps for a person; ``facts`` are for ``--json``."""

    output: Output
    facts: dict[str, Any] = field(default_factory=dict)
    step: int = 0

    def title(self, text: str) -> None:
        self.step += 1
        self.output.say("")
        self.output.say(f"{self.step}. {text}", style="bold")

    def say(self, *parts: str | Text, style: str | None = None) -> None:
        self.output.say("   ", *parts, style=style)

    def on_event(self, event: Event) -> None:
        """Events as they come: this is what a host's screen or log would be told."""
        match event:
            case StrikeCounted():
                where = f", in {event.backtrace[0]}" if event.backtrace else ""
                count = f"strike {event.count} of {event.limit}"
                self.say(f"{count} against {event.tool}: {event.reason}{where}", style="yellow")
            case ToolQuarantined():
                self.say(f"{event.tool} {event.artifact[:12]} is quarantined", style="red")
            case GenerationSwitched():
                changes = [
                    sign + name
                    for sign, names in (("+", event.added), ("~", event.changed), ("-", event.removed))
                    for name in names
                ]
                switch = f"generation {event.previous} -> {event.number}"
                self.say(f"{switch}  {' '.join(changes) or 'nothing changes'}  by {event.author}", style="cyan")
            case _:
                pass
