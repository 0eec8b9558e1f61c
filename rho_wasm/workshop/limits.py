"""What a model may do in the workshop, and how often."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rho_wasm.limits import KIB

__all__ = ["WorkshopLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkshopLimits:
    """The bounds of a workshop. Beyond each the tool answers a failure that says so, and when to come again.

    Rates hold for any hour that ends now; ``..._of_all`` are of all sessions together, of which one session has at most
    half of what the others leave. What was refused before it cost anything does not count.
    """

    source_chars: int = 64 * KIB
    """Of a source: a model sends it whole each time, and a person reads it."""
    declared_bytes: int = 16 * KIB
    """Of the description and the schemas of one tool, as JSON."""
    declared_bytes_of_all: int = 512 * KIB
    """Of all live tools of the workshop. One session has at most half of what the others leave."""
    examples: int = 16
    """Of one ``write_tool``."""
    cases: int = 16
    """Of one ``test_tool``."""
    at_once: int = 2
    """Builds and tests that run at the same time: calls of tools come first."""
    waiting: int = 8
    """How many more wait for their turn. One session has at most half of those that the others leave."""
    builds_per_hour: int = 60
    builds_per_hour_of_all: int = 240
    """A source that is refused within a second counts for its session alone."""
    stages_per_hour: int = 30
    """Builds that became candidates, and removals."""
    stages_per_hour_of_all: int = 60
    """Below the room of a store (100 candidates, and rejected ones of the last hour), so that operators have some."""
    switches_per_hour: int = 30
    switches_per_hour_of_all: int = 60
    rollbacks_per_hour: int = 30
    rollbacks_per_hour_of_all: int = 60
    """Beside the switches, so that what was switched can be undone."""
    cases_per_hour: int = 600
    """Test cases, and examples that are run when a tool is written."""
    cases_per_hour_of_all: int = 2_400
    open_candidates: int = 20
    """Candidates of the workshop that are neither live nor rejected. One session has at most half of those that the
    others leave; where there is no room the oldest goes of a session that ended, or of the one with the most."""
    approval_wait_s: float = 20.0
    """How long ``switch_tools`` waits for the gates, a person who is asked among them. They go on afterwards."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ValueError(f"{field.name} is above 0: nothing here is unlimited, and without it nothing works")
