"""Hears how every call of a guest's tool ended, and sees to it that what fails too often is no longer offered."""

from __future__ import annotations

from collections import deque
from concurrent.futures import CancelledError, Future, wait
from dataclasses import replace
from typing import Protocol

from rho_wasm.calls import CallMeter, RunningCall
from rho_wasm.dynamic.generation import VersionKey
from rho_wasm.dynamic.guard import Guard, postponed, suspension
from rho_wasm.dynamic.handler import GuestHandler
from rho_wasm.dynamic.history import Switched
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import CallKey, Quarantine, Strike, StrikeLedger
from rho_wasm.dynamic.teller import Teller
from rho_wasm.dynamic.worker import StoreWorker
from rho_wasm.errors import Closed
from rho_wasm.events import StrikeCounted
from rho_wasm.policy import StrikePolicy
from rho_wasm.results import ToolResult

__all__ = ["StrikeJudge", "is_strike"]

_STRIKE_WAIT_S, _QUARANTINE_WAIT_S = 0.05, 0.5
"""How long the end of a call waits for the disk, at most: see :meth:`StrikeJudge.ended`."""
_CALLS_EVERY_S = 5.0
_UNSAVED_STRIKES = 1_000
"""Strikes that are kept for a store that cannot be written now. Further ones count, but leave no history."""


class Switches(Protocol):
    """What is offered, as far as the judge changes it."""

    def drop(self, version: VersionKey) -> None: ...

    def quarantined(self, held: Quarantine, switched: Switched | None) -> None: ...


def is_strike(result: ToolResult, meter: CallMeter, *, deadline_ms: float, policy: StrikePolicy) -> bool:
    """Whether the end of a call is the tool's own fault.

    Crashes alone, and none where the guest never ran. A deadline counts only at the tool's own bound, and only if the
    guest itself ran for at least half of it, by CPU time: a starved host is not the tool's fault. What the host did
    at its request counts as its own. What calls of one artifact that run at once take from each other is its own, too,
    so what the call got counts once for each.
    """
    if result.kind != "crashed" or result.reason is None:
        return False
    if policy.kinds is not None and result.reason not in policy.kinds:
        return False
    if meter.fuel_used is None and not meter.guest_ms:
        return False
    if result.reason == "deadline":
        own_ms = (meter.guest_cpu_ms + meter.host_cpu_ms) * meter.at_once
        return meter.own_bound and 2 * own_ms >= min(deadline_ms, meter.clock.timeout_ms)
    return True


class StrikeJudge:
    """Counts calls and strikes of one source's tools and quarantines what reached its limit.

    A quarantine holds in memory first and at once, whatever becomes of the disk. Then it is written, together with the
    generation that takes the version's place; where the store cannot be written that is tried again at every tick.
    """

    def __init__(
        self,
        store: Store,
        *,
        policy: StrikePolicy,
        ledger: StrikeLedger,
        guard: Guard,
        worker: StoreWorker,
        teller: Teller,
        switches: Switches,
    ) -> None:
        self._store = store
        self._policy = policy
        self._ledger = ledger
        self._guard = guard
        self._worker = worker
        self._teller = teller
        self._switches = switches
        self._unsaved: deque[Strike] = deque()
        self._written: Future[None] | None = None
        self._calls_written = store.clock()

    def ended(self, running: RunningCall, handler: GuestHandler, result: ToolResult) -> None:
        """One call ended. In the event loop's thread.

        A strike is in the store before its call is answered, so that a host killed right after still knows it; the loop
        waits for that 50 ms at most (half a second for a quarantine), on a disk that takes longer it is written after.
        """
        version, context = handler.version, running.context
        trial = self._guard.left(version, context.meter)
        if result.kind not in ("ok", "failed", "crashed"):
            return
        first = context.attempt == 1
        # What tools call of each other is one call and one strike for each call of a model: else one tool could make
        # another look busy, whose users' crashes then are too few of its calls, or strike it out at one go.
        if first and context.counts(("called", version)):
            self._ledger.called(version)
        if result.kind != "crashed" and trial is None:
            return
        now = self._store.clock()
        if not is_strike(result, running.meter, deadline_ms=handler.limits.deadline_ms, policy=self._policy):
            if trial is not None and result.kind == "crashed":
                self._quarantine(postponed(trial, now=now))
            elif trial is not None:
                self._set_free(trial)
            return
        assert result.reason is not None
        strike = Strike(
            version=version,
            generation=handler.generation,
            reason=result.reason,
            call=CallKey.of(context),
            at=now,
            backtrace=result.backtrace,
        )
        condemned = self._counted(strike) if first and context.counts(("struck", version)) else ()
        if trial is not None:
            reasons = (*trial.reasons, strike.reason)[-16:]
            self._quarantine(suspension(replace(trial, reasons=reasons), now=now))
        for struck in condemned:
            self.condemn(struck)

    def condemn(self, version: VersionKey) -> None:
        """Quarantines a version that reached its strikes, as the policy says. In the loop's or the worker's thread."""
        strikes, before = self._ledger.latest(version), self._guard.held(version)
        if not strikes or (before is not None and before.mode == self._policy.on_strikes):
            return
        now = self._store.clock()
        held = Quarantine(
            version=version,
            generation=strikes[-1].generation,
            at=now,
            reasons=tuple(strike.reason for strike in strikes),
            backtrace=strikes[-1].backtrace,
        )
        if self._policy.on_strikes == "suspend":
            held = suspension(replace(held, mode="suspend"), now=now)
        self._quarantine(held)

    def pardon(self, tool: str) -> tuple[Quarantine, ...]:
        """Ends every quarantine of ``tool``, and its strikes no longer count. Answers what was ended.

        Blocks: in any thread but the worker's. That one does it, since a look at the store that read it before would
        bring back what was ended. Raises :class:`StoreError`, and :class:`Closed` where it has ended.
        """

        def end() -> tuple[Quarantine, ...]:
            ended = self._store.records.pardon(tool)
            self._guard.release(tool)
            self._ledger.forget(tool)
            return ended

        try:
            return self._worker.submit(end).result()
        except CancelledError:
            raise Closed("the dynamic source") from None

    def write(self, *, last: bool = False) -> None:
        """Writes strikes, the calls that were counted, and quarantines. In the worker's thread.

        Calls alone are written every few seconds, and at the ``last`` time. Raises :class:`StoreError` where it cannot;
        then nothing is lost, and the next tick tries again.
        """
        if self._store.read_only:
            return
        # Only this thread takes strikes out, so the first ones stay while others are added.
        strikes = [self._unsaved[place] for place in range(len(self._unsaved))]
        if strikes or last or self._store.clock() - self._calls_written >= _CALLS_EVERY_S:
            self._calls_written = self._store.clock()
            calls = self._ledger.unsaved_calls()
            if strikes or calls:
                ids = self._store.records.add(strikes, calls)
                self._ledger.saved(calls, ids)
            for _ in strikes:
                self._unsaved.popleft()
        for held in self._guard.unsaved():
            switched = self._store.quarantine(held)
            self._guard.saved(held)
            self._switches.quarantined(held, switched)

    def _counted(self, strike: Strike) -> tuple[VersionKey, ...]:
        """Counts it, writes it and tells of it. Answers the versions that are to be quarantined now."""
        judgement = self._ledger.struck(strike)
        if len(self._unsaved) < _UNSAVED_STRIKES:
            self._unsaved.append(strike)
        self._write_soon(_STRIKE_WAIT_S)
        self._teller.tell(
            StrikeCounted(
                tool=strike.version.tool,
                artifact=strike.version.artifact,
                generation=strike.generation,
                reason=strike.reason,
                count=judgement.count,
                limit=self._policy.limit,
                session_id=strike.call.session_id,
                backtrace=strike.backtrace,
            )
        )
        return judgement.condemned

    def _quarantine(self, held: Quarantine) -> None:
        if not self._guard.hold(held):
            return
        if held.mode == "revert":
            self._switches.drop(held.version)
        if self._store.read_only:
            self._switches.quarantined(held, None)
        self._write_soon(_QUARANTINE_WAIT_S)

    def _set_free(self, trial: Quarantine) -> None:
        self._guard.hold(replace(trial, pardoned_at=self._store.clock()))
        self._ledger.forget(*trial.version)
        self._write_soon(_STRIKE_WAIT_S)

    def _write_soon(self, wait_s: float) -> None:
        # In the worker's own thread the next tick writes.
        if self._worker.current:
            return
        if not self._store.read_only:
            behind = self._written is not None and not self._written.done()
            self._written = self._worker.submit(self.write)
            if not behind:
                wait([self._written], timeout=wait_s)
        self._teller.flush()
