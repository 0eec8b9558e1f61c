"""Runs a recorded call again, on any version of its tool: the host's answers come from the recording, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.dynamic.answer_diff import answer_diff
from rho_wasm.dynamic.recording import Recording, decoded, encoded, plain_json
from rho_wasm.dynamic.replay_arguments import arguments_taken
from rho_wasm.dynamic.transcript import Divergence, RecordedCapabilities
from rho_wasm.envelope import answer_of
from rho_wasm.errors import TooLarge, ToolError
from rho_wasm.limits import Limits
from rho_wasm.manifest import ToolDeclaration
from rho_wasm.results import KINDS, Failed, HandlerResult, Kind
from rho_wasm.sandbox import GuestModule, Sandbox
from rho_wasm.schema import ArgumentSchema
from rho_wasm.untrusted import inert

__all__ = ["PreparedReplay", "Replay", "ReplayTarget", "replay"]

_COSTLY = 2.0
"""So many times the recorded fuel is told of."""
_DETAIL_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTarget:
    """The version of a tool that recordings are replayed on. ``limits`` are those of its calls.

    ``reads_only``: it changes nothing, so more is read past in the arguments of its calls.
    """

    artifact: str
    module: GuestModule
    declaration: ToolDeclaration
    limits: Limits
    reads_only: bool
    schema: ArgumentSchema

    @classmethod
    def of(
        cls, artifact: str, module: GuestModule, declaration: ToolDeclaration, *, limits: Limits, reads_only: bool
    ) -> ReplayTarget:
        """Compiles the tool's schema. Raises :class:`rho_wasm.errors.SchemaInvalid`."""
        return cls(
            artifact=artifact,
            module=module,
            declaration=declaration,
            limits=limits,
            reads_only=reads_only,
            schema=ArgumentSchema(declaration.input_schema),
        )

    def takes(self, given: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """What a call of this version would make of the arguments that a model gave, or why it would refuse them."""
        schema = self.declaration.input_schema
        return arguments_taken(given, self.schema, schema, reads_only=self.reads_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What became of one recorded call on another version, or on the same.

    ``kind`` is ``ok``, ``failed``, ``crashed``, or ``refused`` where the arguments are none by that version's schema.
    ``same`` says that it ended as recorded, to the byte; ``diff`` shows how it did not, and holds what users and guests
    said, as ``detail`` does: inert, but for an operator alone. ``diverged`` is where it asked the host otherwise.
    ``quarantined``: the version that answered the recorded call is that now. ``as_given``: what the model gave is
    known, or this version makes of it what the recorded one did; else it may take as it is what was put right then.
    """

    id: int
    tool: str
    recorded_artifact: str
    recorded_generation: int
    recorded_kind: Kind
    recorded_reason: str | None
    recorded_fuel: int | None
    redacted: bool
    quarantined: bool
    as_given: bool
    artifact: str
    kind: Kind
    reason: str | None
    limit: str | None
    value: int | str | None
    fuel: int | None
    detail: str
    backtrace: tuple[str, ...]
    same: bool
    diff: str
    diverged: Divergence | None

    @property
    def worked(self) -> bool:
        """Whether the recorded call answered. One that failed did not: else a version that always fails would bind
        those that come after it."""
        return self.recorded_kind == "ok"

    @property
    def broke(self) -> bool:
        """Whether it crashed or timed out where the recorded call worked, having asked the host as that did so far.

        Not where that was a version's which is quarantined now: what such a one answers need not be right.
        """
        return self.worked and self.kind == "crashed" and not self._asked_otherwise and not self.quarantined

    @property
    def undecided(self) -> bool:
        """Whether it crashed where the recorded call worked, after asking the host what nobody knows the answer to, or
        where a version that is quarantined now answered: that says nothing for it and nothing against it."""
        return self.worked and self.kind == "crashed" and not self.broke

    @property
    def shut_out(self) -> bool:
        """Whether the recorded call worked, and this version's schema refuses it. It did not run, so it says nothing of
        how calls end that its callers will make in its place."""
        return self.worked and self.kind == "refused"

    @property
    def costly(self) -> bool:
        """Whether it needed over twice the recorded fuel."""
        return self.fuel_ratio is not None and self.fuel_ratio > _COSTLY

    @property
    def fuel_ratio(self) -> float | None:
        """Fuel now by fuel then; None where either is not known."""
        return self.fuel / self.recorded_fuel if self.fuel is not None and self.recorded_fuel else None

    @property
    def _asked_otherwise(self) -> bool:
        # What it did not come to ask before it crashed is no question.
        return self.diverged is not None and self.diverged.asked is not None

    def as_json(self) -> dict[str, Any]:
        plain_fields = {name: getattr(self, name) for name in self.__slots__ if name not in ("backtrace", "diverged")}
        divergence = None
        if self.diverged is not None:
            divergence = {
                "index": self.diverged.index,
                "recorded": plain_json(self.diverged.recorded),
                "asked": plain_json(self.diverged.asked),
            }
        return plain_fields | {
            "backtrace": list(self.backtrace),
            "broke": self.broke,
            "undecided": self.undecided,
            "shut_out": self.shut_out,
            "fuel_ratio": self.fuel_ratio,
            "diverged": divergence,
        }


@dataclass(frozen=True, slots=True)
class PreparedReplay:
    """A recording and what it takes to run it once on one version: what takes too long for the event loop is done."""

    target: ReplayTarget
    recording: Recording
    arguments: dict[str, Any]
    context: dict[str, Any]
    problems: tuple[str, ...]
    """What is wrong with the arguments by the schema of that version."""
    quarantined: bool
    as_given: bool

    @classmethod
    def of(
        cls, target: ReplayTarget, recording: Recording, *, quarantined: bool = False, as_given: bool = True
    ) -> PreparedReplay:
        """Blocks for as long as reading the recording takes. The rest is as :class:`Replay` has it."""
        request = decoded(recording.request)
        given = request["arguments"] if recording.given is None else decoded(recording.given)
        arguments, problems = target.takes(given)
        return cls(target, recording, arguments, request["context"], problems, quarantined, as_given)


async def replay(sandbox: Sandbox, prepared: PreparedReplay) -> Replay:
    """Runs a recorded call in the sandbox: nothing is granted, nothing outside is touched, and nothing strikes.

    The guest is given what a call of its version would be given of what the model gave, which is the recorded request
    to the byte where its schema is the same, and the recorded clock and seed. Its n-th host call must be the recorded
    n-th; from the first that is not all are denied, as revoked grants are. It cannot tell a replay from a call but by
    what the host answers: from a denial, and never from one where it asks what it asked before.

    Its limits are its own, as in a call. A bound that follows the recorded fuel, such as twice that, would let a
    version that does next to nothing keep out all that do something: what it needs beyond is told (``costly``).

    Raises :class:`ToolError` where the host could not run it (``overloaded``: it got no slot, or no CPU time).
    """
    target, recording = prepared.target, prepared.recording
    limits = target.limits
    if prepared.problems:
        # A call of that version would not get as far as the guest.
        detail = "; ".join(prepared.problems)
        refused = ToolError("invalid_arguments", tool=recording.tool, detail=detail)
        return await _replayed(prepared, refused, CallMeter(CallClock(0)), None)
    capabilities = RecordedCapabilities(recording.host_calls, clock_ns=recording.clock_ns, seed=recording.seed)
    meter = CallMeter(CallClock(limits.deadline_ms))
    outcome: HandlerResult | ToolError
    try:
        outcome = await sandbox.call(
            target.module,
            tool=recording.tool,
            arguments=prepared.arguments,
            context=prepared.context,
            limits=limits,
            meter=meter,
            capabilities=capabilities,
        )
    except ToolError as error:
        if _is_hosts_fault(error, meter, limits):
            raise ToolError("overloaded", tool=recording.tool, detail="the host could not run the call") from None
        outcome = error
    return await _replayed(prepared, outcome, meter, capabilities.divergence())


def _is_hosts_fault(error: ToolError, meter: CallMeter, limits: Limits) -> bool:
    if error.reason == "capability_fault":
        return False  # It met a recorded fault, which the recorded version bore.
    if error.reason == "deadline":
        # As for a strike: a guest that got no CPU time says nothing about itself.
        return 2 * (meter.guest_cpu_ms + meter.host_cpu_ms) * meter.at_once < limits.deadline_ms
    return KINDS[error.reason] == "host"


async def _replayed(
    prepared: PreparedReplay, outcome: HandlerResult | ToolError, meter: CallMeter, diverged: Divergence | None
) -> Replay:
    recording = prepared.recording
    crash = outcome if isinstance(outcome, ToolError) else None
    kind: Kind = "ok"
    if crash is not None:
        kind = "refused" if KINDS[crash.reason] == "refused" else "crashed"
    elif isinstance(outcome, Failed):
        kind = "failed"
    same, diff = await _compared(recording, outcome)
    return Replay(
        id=recording.id,
        tool=recording.tool,
        recorded_artifact=recording.artifact,
        recorded_generation=recording.generation,
        recorded_kind=recording.kind,
        recorded_reason=recording.reason,
        recorded_fuel=recording.fuel,
        redacted=recording.redacted,
        quarantined=prepared.quarantined,
        as_given=prepared.as_given,
        artifact=prepared.target.artifact,
        kind=kind,
        reason=crash.reason if crash is not None else "failed" if kind == "failed" else None,
        limit=None if crash is None else crash.limit,
        value=None if crash is None else crash.value,
        fuel=meter.fuel_used,
        detail="" if crash is None else inert(crash.detail, limit=_DETAIL_CHARS),
        backtrace=() if crash is None else crash.backtrace,
        same=same,
        diff=diff,
        diverged=diverged,
    )


async def _compared(recording: Recording, outcome: HandlerResult | ToolError) -> tuple[bool, str]:
    if not isinstance(outcome, ToolError) and recording.answer is not None:
        try:
            if encoded(answer_of(outcome), at_once=True) == recording.answer:
                return True, ""
        except TooLarge:
            pass
    elif isinstance(outcome, ToolError) and recording.answer is None and outcome.reason == recording.reason:
        return True, ""
    return await anyio.to_thread.run_sync(_difference, recording, outcome)


def _difference(recording: Recording, outcome: HandlerResult | ToolError) -> tuple[bool, str]:
    then: Any = {"crashed": recording.reason} if recording.answer is None else decoded(recording.answer)
    if isinstance(outcome, ToolError):
        word = "refused" if KINDS[outcome.reason] == "refused" else "crashed"
        return False, answer_diff(then, {word: outcome.reason})
    now = answer_of(outcome)
    if recording.answer is not None and encoded(now) == recording.answer:
        return True, ""
    return False, answer_diff(then, now)
