"""What became of a tool's recorded calls on another version, in words: for who wrote it, and for who decides."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rho_wasm.dynamic.recording import Recording
from rho_wasm.dynamic.replay import Replay
from rho_wasm.manifest import ToolDeclaration
from rho_wasm.untrusted import inert

__all__ = ["ReplayReport", "shape_of"]

_OWN_WORDS = frozenset({"trapped", "out_of_fuel", "deadline", "too_many_host_calls"})
"""Reasons whose detail is the host's own. That of others is the guest's, or has it in it: a guest that was refused
memory, or that met a fault of the host, may say what it likes before it ends."""
_PROPERTIES, _PROPERTY_CHARS = 8, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The replays of one tool, the newest recording first.

    ``skipped`` are lines about recordings that say nothing (damaged, redacted), ``left`` is how many were not replayed:
    the time was over, or enough had crashed. ``shapes`` are those of the arguments, by recording, where it broke, and
    ``places`` are where it did, as far as that may be told.
    """

    tool: str
    artifact: str
    replays: tuple[Replay, ...] = ()
    skipped: tuple[str, ...] = ()
    left: int = 0
    shapes: Mapping[int, str]
    places: Mapping[int, str] = field(default_factory=dict)

    @property
    def broken(self) -> tuple[Replay, ...]:
        """Those that crash where the recorded call answered."""
        return tuple(each for each in self.replays if each.broke)

    @property
    def differing(self) -> tuple[Replay, ...]:
        """Those that answer, or are refused, otherwise than recorded; crashes that were crashes before among them."""
        return tuple(each for each in self.replays if not each.same and not each.broke)

    @property
    def diverged(self) -> tuple[Replay, ...]:
        """Those that asked the host otherwise."""
        return tuple(each for each in self.replays if each.diverged is not None)

    def fuel_ratios(self) -> tuple[float, float] | None:
        """Median and highest of fuel now by fuel then; None where nothing is known."""
        ratios = [each.fuel_ratio for each in self.replays if each.fuel_ratio is not None]
        return (statistics.median(ratios), max(ratios)) if ratios else None

    def changes(self) -> dict[str, int]:
        """How many of those that differ ended in another way, as ``ok -> failed``, by that."""
        ends = [f"{each.recorded_kind} -> {each.kind}" for each in self.differing if each.kind != each.recorded_kind]
        return dict(sorted(Counter(ends).items()))

    def summary(self) -> str:
        """One line of numbers, without anything that a user or a guest said.

        Each call is the same, differs, or crashes where it answered; that some of them asked the host otherwise comes
        on top.
        """
        if not self.replays:
            parts = ["no recorded call was replayed"]
        else:
            same = sum(each.same for each in self.replays)
            parts = [f"{_calls(len(self.replays))} replayed", f"{same} the same"]
        if differing := len(self.differing):
            changes = ", ".join(f"{number} {change}" for change, number in self.changes().items())
            parts.append(
                f"{differing} {'differs' if differing == 1 else 'differ'}" + (f" ({changes})" if changes else "")
            )
        if broken := len(self.broken):
            parts.append("1 crashes where it answered" if broken == 1 else f"{broken} crash where they answered")
        if diverged := len(self.diverged):
            parts.append(f"of all these {diverged} asked the host otherwise")
        if (ratios := self.fuel_ratios()) is not None:
            parts.append(f"fuel x{ratios[0]:.2f}, at most x{ratios[1]:.2f}")
        if self.skipped:
            parts.append(f"{len(self.skipped)} skipped")
        if self.left:
            parts.append(f"{self.left} not replayed")
        return f"{self.tool}: " + ", ".join(parts)

    def problems(self) -> tuple[str, ...]:
        """A line for each that broke, for whoever wrote the tool, who may not read what other people asked it.

        So it has no text of a call and none of the guest's, which could have any of it: the reason, the place, and the
        arguments' shape.
        """
        return tuple(self._problem(each) for each in self.broken)

    def as_json(self) -> dict[str, Any]:
        ratios = self.fuel_ratios()
        return {
            "tool": self.tool,
            "artifact": self.artifact,
            "replayed": len(self.replays),
            "same": sum(each.same for each in self.replays),
            "differing": len(self.differing),
            "changes": self.changes(),
            "broken": len(self.broken),
            "diverged": len(self.diverged),
            "fuel_ratio": None if ratios is None else {"median": ratios[0], "highest": ratios[1]},
            "skipped": list(self.skipped),
            "left": self.left,
            "replays": [each.as_json() for each in self.replays],
        }

    def _problem(self, each: Replay) -> str:
        bound = "" if each.limit is None else f" ({each.limit}={each.value})"
        told = f"{self.tool}: recording {each.id}, which {_worked(each)}, now crashes: {each.reason}{bound}"
        if each.reason in _OWN_WORDS and each.detail:
            told += f", {each.detail}"
        if place := self.places.get(each.id):
            told += f", {place}"
        if each.id in self.shapes:
            told += f"; its arguments were {self.shapes[each.id]}"
        if each.reason == "out_of_fuel" and each.recorded_fuel is not None and each.limit == "fuel":
            told += f"; it took {each.recorded_fuel} fuel then, and may take twice that"
        if each.diverged is not None:
            told += f"; {_diverged(each)}"
            if each.diverged.asked is not None:
                told += ": that is in no recording, so it was denied, and must bear that"
        return (
            f"{told}. Answer it, or report a failure, and stage again; an operator can look at the call "
            f"(rho-wasm recordings show {each.id}) and drop it if it no longer counts"
        )


def shape_of(recording: Recording, declaration: ToolDeclaration) -> str:
    """What kinds of arguments a call had, under names that the tool's schema has, and nothing of what they said."""
    known = declaration.input_schema.get("properties")
    names = known.keys() if isinstance(known, Mapping) else ()
    arguments = recording.arguments
    told = [
        f"{inert(name, limit=_PROPERTY_CHARS)}: {_kind(value)}" for name, value in arguments.items() if name in names
    ]
    more = len(arguments) - min(len(told), _PROPERTIES)
    if more:
        told = [*told[:_PROPERTIES], f"{more} more"]
    return "{" + ", ".join(told) + "}"


def _kind(value: Any) -> str:
    if type(value) is str:
        return f"text of {len(value)} characters"
    if type(value) is bytes:
        return f"{len(value)} bytes"
    if type(value) is list:
        return f"a list of {len(value)}"
    if type(value) is dict:
        return f"a map of {len(value)}"
    return {type(None): "null", bool: "a bool", int: "an integer"}.get(type(value), "a number")


def _worked(each: Replay) -> str:
    what = "answered" if each.recorded_kind == "ok" else "reported a failure"
    return f"{what} in generation {each.recorded_generation}"


def _diverged(each: Replay) -> str:
    assert each.diverged is not None
    asked, recorded = each.diverged.asked, each.diverged.recorded
    now = "asked nothing more" if asked is None else f"asked {_capability(asked)}"
    then = "nothing more" if recorded is None else _capability(recorded)
    other = " with other arguments" if asked is not None and recorded is not None and asked[0] == recorded[0] else ""
    return f"at host call {each.diverged.index + 1} it {now}{other} where {then} was recorded"


def _capability(asked: list[Any]) -> str:
    return inert(str(asked[0]), limit=_PROPERTY_CHARS)


def _calls(number: int) -> str:
    return f"{number} recorded call{'' if number == 1 else 's'}"
