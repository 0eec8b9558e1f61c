"""Which versions may not run now, answered from memory: it holds at once, also in snapshots taken before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from rho_wasm.dynamic.generation import VersionKey
from rho_wasm.dynamic.strikes import Quarantine, StrikeLedger, bounded_id

__all__ = ["Guard", "Refusal", "postponed", "suspension"]

Refusal: TypeAlias = tuple[str, str]
"""A reason of ``results.KINDS`` and one line that says what to do."""

_FIRST_SUSPENSION_S, _LONGEST_SUSPENSION_S = 30.0, 3600.0
_TRIAL_S = 120.0
"""A trial call that is not heard of again (nobody watched it) gives way to another after this long."""


@dataclass(frozen=True, slots=True)
class _Trial:
    token: object
    since: float


class Guard:
    """The quarantines, and who may try a suspended version. Safe to use from any thread.

    ``token`` is whatever tells one call from another (its meter).
    """

    def __init__(self, ledger: StrikeLedger, *, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self._stored: dict[VersionKey, Quarantine] = {}
        self._unsaved: dict[VersionKey, Quarantine] = {}
        self._trials: dict[VersionKey, _Trial] = {}

    def held(self, version: VersionKey) -> Quarantine | None:
        """The quarantine of a version, None if there is none that still holds."""
        found = self._unsaved.get(version) or self._stored.get(version)
        return found if found is not None and found.active else None

    def of(self, tool: str) -> tuple[Quarantine, ...]:
        """Those of one tool's versions that still hold, the oldest first."""
        with self._lock:
            found = [each for each in {**self._stored, **self._unsaved}.values() if each.version.tool == tool]
        return tuple(sorted((each for each in found if each.active), key=lambda each: each.at))

    def refusal(self, version: VersionKey, *, token: object = None) -> Refusal | None:
        """Why no call of the version may begin now, or None. The trial itself, by its ``token``, may."""
        if not self._unsaved and not self._stored:
            return None  # As it nearly always is, and asked of each call.
        held = self.held(version)
        if held is None:
            return None
        because = f"it was stopped after {', '.join(dict.fromkeys(held.reasons)) or 'its faults'}"
        if held.mode == "revert":
            return "quarantined", f"this version is quarantined, {because}; use another tool, or stage a mended version"
        now = self._clock()
        if held.until is not None and now < held.until:
            wait = int(held.until - now) + 1
            return "quarantined", f"this version is suspended for {wait} s more, {because}; then one call may try it"
        trial = self._trials.get(version)
        if trial is not None and trial.token is not token and now - trial.since < _TRIAL_S:
            return "quarantined", f"another call is trying this version now, {because}; try again when it has ended"
        return None

    def enter(self, version: VersionKey, *, session_id: str | None, token: object) -> Refusal | None:
        """Lets a call begin, or says why not. A call of a suspended version whose time is over becomes its trial.

        A call that waited asks again, and is the same one.
        """
        if not self._unsaved and not self._stored and not self._ledger.withheld:
            return None
        with self._lock:
            if (refused := self.refusal(version, token=token)) is not None:
                return refused
            if self._ledger.withheld_from(version, bounded_id(session_id)):
                return (
                    "quarantined",
                    "this version failed too often in this session and is kept from it for a while; use another tool",
                )
            if self.held(version) is not None:
                self._trials[version] = _Trial(token, self._clock())
            return None

    def left(self, version: VersionKey, token: object) -> Quarantine | None:
        """The call ended. Answers the suspension that it was the trial of, None if it was none."""
        if not self._trials:
            return None
        with self._lock:
            trial = self._trials.get(version)
            if trial is None or trial.token is not token:
                return None
            del self._trials[version]
            return self.held(version)

    def hold(self, quarantine: Quarantine) -> bool:
        """Puts a quarantine, or its end, in force before it is written. False if there is one as strong already."""
        with self._lock:
            now = self.held(quarantine.version)
            if quarantine.active and now is not None and now.mode == quarantine.mode and now.outlasts(quarantine):
                return False
            self._unsaved[quarantine.version] = quarantine
            return True

    def unsaved(self) -> tuple[Quarantine, ...]:
        """What is in force here and not in the store yet."""
        with self._lock:
            return tuple(self._unsaved.values())

    def saved(self, quarantine: Quarantine) -> None:
        """It is in the store now."""
        with self._lock:
            self._stored[quarantine.version] = quarantine
            if self._unsaved.get(quarantine.version) is quarantine:
                del self._unsaved[quarantine.version]

    def refresh(self, quarantines: Iterable[Quarantine]) -> tuple[tuple[Quarantine, ...], tuple[VersionKey, ...]]:
        """Takes in what the store has. Answers the quarantines that are new here, and the versions set free."""
        with self._lock:
            before, self._stored = self._stored, {held.version: held for held in quarantines if held.active}
            for version in [version for version in self._unsaved if version in self._stored]:
                if self._unsaved[version] == self._stored[version]:
                    del self._unsaved[version]
            new = tuple(held for version, held in self._stored.items() if version not in before)
            freed = tuple(version for version in before if version not in self._stored and version not in self._unsaved)
            return new, freed

    def release(self, tool: str) -> None:
        """Ends every quarantine of ``tool`` here, as the store has."""
        with self._lock:
            for held in (self._stored, self._unsaved):
                for version in [version for version in held if version.tool == tool]:
                    del held[version]


def suspension(quarantine: Quarantine, *, now: float) -> Quarantine:
    """The next suspension of the same version: twice as long as the one before, from 30 s to an hour."""
    return replace(
        quarantine, at=now, until=now + _wait_s(quarantine.level), level=quarantine.level + 1, pardoned_at=None
    )


def postponed(quarantine: Quarantine, *, now: float) -> Quarantine:
    """The same suspension once more, no longer than it was: its trial crashed, but not by a fault that counts."""
    return replace(quarantine, until=now + _wait_s(quarantine.level - 1))


def _wait_s(level: int) -> float:
    return min(_LONGEST_SUSPENSION_S, _FIRST_SUSPENSION_S * 2.0**level)
