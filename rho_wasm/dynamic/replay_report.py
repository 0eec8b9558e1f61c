"""What became of a tool's recorded calls on another version, in words: for who decides, and less for who wrote it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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

    ``unkept`` is how many calls worked of versions of which none could be kept, so that they are not among these.
    ``skipped`` are lines about recordings that say nothing (damaged, redacted), ``left`` is how many were not replayed:
    the time was over, or enough had crashed. ``left_worked`` of those had answered. ``shapes`` are those of the
    arguments, by recording, where it broke, and ``places`` are where it did, as far as that may be told.
    """

    tool: str
    artifact: str
    replays: tuple[Replay, ...] = ()
    skipped: tuple[str, ...] = ()
    left: int = 0
    left_worked: int = 0
    unkept: int = 0
    shapes: Mapping[int, str]
    places: Mapping[int, str] = field(default_factory=dict)

    @property
    def broken(self) -> tuple[Replay, ...]:
        """Those that crash where the recorded call answered, with the same of the host."""
        return tuple(each for each in self.replays if each.broke)

    @property
    def undecided(self) -> tuple[Replay, ...]:
        """Those that crash where the recorded call answered, after asking the host otherwise, or where what answered is
        quarantined now."""
        return tuple(each for each in self.replays if each.undecided)

    @property
    def shut_out(self) -> tuple[Replay, ...]:
        """Those that answered and are refused now: the version's schema takes their arguments no more."""
        return tuple(each for each in self.replays if each.shut_out)

    @property
    def costly(self) -> tuple[Replay, ...]:
        """Those that need over twice the recorded fuel."""
        return tuple(each for each in self.replays if each.costly)

    @property
    def differing(self) -> tuple[Replay, ...]:
        """Those that end otherwise than recorded and did not break: they answer otherwise, or crash where the recorded
        call did not answer or where they are undecided."""
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

        Each call is the same, differs, or crashes where it answered; that some of them asked the host otherwise, or
        need much more fuel, comes on top.
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
        withdrawn, undecided = self._undecided()
        if withdrawn:
            parts.append(f"{withdrawn} of these crashed where a version answered that is quarantined now")
        if diverged := len(self.diverged):
            crashed = f" ({undecided} and then crashed, which decides nothing)" if undecided else ""
            parts.append(f"of all these {diverged} asked the host otherwise{crashed}")
        if (ratios := self.fuel_ratios()) is not None:
            parts.append(f"fuel x{ratios[0]:.2f}, at most x{ratios[1]:.2f}")
        if costly := len(self.costly):
            parts.append(f"{costly} over twice that recorded")
        if self.skipped:
            parts.append(f"{len(self.skipped)} skipped")
        if self.left:
            parts.append(f"{self.left} not replayed")
        if self.unkept:
            parts.append(f"{self.unkept} that worked could not be recorded")
        return f"{self.tool}: " + ", ".join(parts)

    def problems(self) -> tuple[str, ...]:
        """A line for each that broke, for an operator: the reason, the place, and the arguments' shape.

        It has no text of a call and none of the guest's, which could have any of it. Yet a module that is made for it
        says by the place where it crashes some bits of what it was asked, so a model that writes tools is :meth:`told`
        less.
        """
        return tuple(self._problem(each) for each in self.broken)

    def told(self) -> str:
        """Of those that broke all that whoever wrote the tool may read: how many, and of the first the reason."""
        worked = sum(each.worked for each in self.replays)
        (first, *more) = self.broken
        crash = f"crash now, the first of them as {first.reason}" if more else f"crashes now: {first.reason}"
        return f"{self.tool}: {1 + len(more)} of {_calls(worked)} that worked {crash}"

    def doubt(self) -> str:
        """Why a person has to decide where nothing broke; empty if nobody has to.

        That is so wherever a call that worked was not run to its end: else a version could pass by seeing to that.
        """
        withdrawn, undecided = self._undecided()
        all_calls = f"{_calls(len(self.replays))} of {self.tool}"
        doubts = []
        if undecided:
            doubts.append(
                f"{undecided} of {all_calls} asked the host otherwise and then crashed, which says neither yes nor no"
            )
        if withdrawn:
            doubts.append(
                f"{withdrawn} of {all_calls} crashed where a version answered that is quarantined now, "
                "which says neither yes nor no"
            )
        if shut_out := len(self.shut_out):
            doubts.append(f"{shut_out} of {all_calls} worked and would be refused now: its schema takes them no more")
        if unsure := sum(each.worked and not each.as_given for each in self.replays):
            doubts.append(
                f"{unsure} of {all_calls} had arguments that were put right by another schema, and what was given is "
                "not kept"
            )
        if self.left_worked:
            why = "needed over twice the recorded fuel, so that" if self.costly else "is slow, or its host was:"
            doubts.append(f"{self.tool} {why} {_calls(self.left_worked)} that worked had no time")
        if self.unkept:
            calls = "1 call" if self.unkept == 1 else f"{self.unkept} calls"
            doubts.append(f"{calls} of {self.tool} worked and could not be recorded, and none of the same version was")
        return ", and ".join(doubts)

    def _undecided(self) -> tuple[int, int]:
        """How many of :attr:`undecided` are so because of a quarantine, and how many for what they asked."""
        withdrawn = sum(each.quarantined for each in self.undecided)
        return withdrawn, len(self.undecided) - withdrawn

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
            "undecided": len(self.undecided),
            "shut_out": len(self.shut_out),
            "costly": len(self.costly),
            "diverged": len(self.diverged),
            "fuel_ratio": None if ratios is None else {"median": ratios[0], "highest": ratios[1]},
            "skipped": list(self.skipped),
            "left": self.left,
            "left_worked": self.left_worked,
            "unkept": self.unkept,
            "replays": [each.as_json() for each in self.replays],
        }

    def _problem(self, each: Replay) -> str:
        bound = "" if each.limit is None else f" ({each.limit}={each.value})"
        told = f"{self.tool}: recording {each.id}, which answered in generation {each.recorded_generation}, "
        told += f"now crashes: {each.reason}{bound}"
        if each.reason in _OWN_WORDS and each.detail:
            told += f", {each.detail}"
        if place := self.places.get(each.id):
            told += f", {place}"
        if each.id in self.shapes:
            told += f"; its arguments were {self.shapes[each.id]}"
        if each.reason == "out_of_fuel" and each.recorded_fuel is not None and each.limit == "fuel":
            told += f"; it took {each.recorded_fuel} fuel then"
        if each.diverged is not None:
            # It broke, so it had asked nothing else.
            assert each.diverged.recorded is not None
            name = inert(str(each.diverged.recorded[0]), limit=_PROPERTY_CHARS)
            told += f"; at host call {each.diverged.index + 1} it asked nothing more where {name} was recorded"
        return (
            f"{told}. Answer it, or report a failure, and stage again; an operator can look at the call "
            f"(rho-wasm recordings show {each.id}) and drop it if it no longer counts"
        )


def shape_of(arguments: Mapping[str, Any], declaration: ToolDeclaration) -> str:
    """What kinds of arguments a call had, under names that the tool's schema has, and nothing of what they said."""
    known = declaration.input_schema.get("properties")
    names = known.keys() if isinstance(known, Mapping) else ()
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


def _calls(number: int) -> str:
    return f"{number} recorded call{'' if number == 1 else 's'}"
