"""Strikes: faults counted against one version of a tool, and when they are too many.

The ledger is memory and arithmetic alone, so that a decision costs no disk and holds at once; the store keeps the same
rows, and gives a ledger those of other processes and of the time before a restart.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from rho_wasm.calls import ToolContext
from rho_wasm.dynamic.generation import VersionKey
from rho_wasm.policy import StrikePolicy
from rho_wasm.untrusted import inert

__all__ = [
    "SLOT_S",
    "CallKey",
    "Judgement",
    "Quarantine",
    "Strike",
    "StrikeLedger",
    "Traffic",
    "bounded_id",
    "within_an_hour",
]

SLOT_S = 10
"""Calls are counted in slots of this many seconds: a window is exact to one slot, and its memory is bounded."""
_STRIKES_HELD = 10_000
"""Strikes of one version that are held. A version with more in its window is judged by its latest ones."""
_ID_CHARS = 128
_LAUNDERED, _LAUNDERED_S = 3, 3600.0
"""So many versions quarantined within so many seconds: the next one needs a person's yes."""

Traffic: TypeAlias = Mapping[tuple[VersionKey, int], int]
"""Calls that ended, by version and slot (POSIX seconds // SLOT_S)."""


class CallKey(NamedTuple):
    """What names a call in the records; others may have the same. All text is inert and bounded."""

    call_id: str
    request_id: str | None = None
    session_id: str | None = None

    @classmethod
    def of(cls, context: ToolContext) -> CallKey:
        return cls(
            inert(context.call.id, limit=_ID_CHARS), bounded_id(context.request_id), bounded_id(context.session_id)
        )


def bounded_id(text: str | None) -> str | None:
    """A session's or a request's id as it is counted and kept."""
    return None if text is None else inert(text, limit=_ID_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault of one version. ``at`` is a POSIX timestamp; ``id`` is the store's, None until it is written."""

    version: VersionKey
    generation: int
    reason: str
    call: CallKey
    at: float
    backtrace: tuple[str, ...] = ()
    pardoned: bool = False
    id: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "tool": self.version.tool,
            "artifact": self.version.artifact,
            "generation": self.generation,
            "reason": self.reason,
            "call_id": self.call.call_id,
            "session_id": self.call.session_id,
            "at": self.at,
            "backtrace": list(self.backtrace),
            "pardoned": self.pardoned,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A version that reached its strikes. ``mode`` ``suspend`` lets one trial call through after ``until``."""

    version: VersionKey
    generation: int
    at: float
    mode: Literal["revert", "suspend"] = "revert"
    until: float | None = None
    level: int = 0
    reasons: tuple[str, ...] = ()
    backtrace: tuple[str, ...] = ()
    pardoned_at: float | None = None

    @property
    def active(self) -> bool:
        return self.pardoned_at is None

    def outlasts(self, other: Quarantine) -> bool:
        """Whether ``other``, of the same mode, would add nothing to this one."""
        return (self.level, self.until or 0.0) >= (other.level, other.until or 0.0)

    def as_json(self) -> dict[str, Any]:
        return {
            "tool": self.version.tool,
            "artifact": self.version.artifact,
            "generation": self.generation,
            "at": self.at,
            "mode": self.mode,
            "until": self.until,
            "reasons": list(self.reasons),
            "backtrace": list(self.backtrace),
            "pardoned_at": self.pardoned_at,
        }


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a strike led to: how many of its version stand in the window, and which versions are to be quarantined."""

    count: int
    condemned: tuple[VersionKey, ...] = ()


class _Window:
    """The strikes of one version that still count, and the calls that ended, by slot."""

    __slots__ = ("own", "stored", "strikes")

    def __init__(self) -> None:
        self.strikes: deque[Strike] = deque()
        self.stored: dict[int, int] = {}
        """Calls that the store knows of, of every process."""
        self.own: dict[int, int] = {}
        """Calls that ended here and are not in the store yet."""

    def add(self, strike: Strike) -> None:
        self.strikes.append(strike)
        if len(self.strikes) > _STRIKES_HELD:
            self.strikes.popleft()

    def expire(self, oldest: float) -> None:
        while self.strikes and self.strikes[0].at <= oldest:
            self.strikes.popleft()
        first = int(oldest // SLOT_S)
        for counted in (self.stored, self.own):
            for slot in [slot for slot in counted if slot < first]:
                del counted[slot]

    def calls(self) -> int:
        first = 0
        if len(self.strikes) == _STRIKES_HELD:
            # Older strikes were let go, so older calls must not be held against the ones that are left.
            first = int(self.strikes[0].at // SLOT_S)
        return sum(calls for counted in (self.stored, self.own) for slot, calls in counted.items() if slot >= first)

    def often(self, ratio: float) -> bool:
        """Whether it struck, and in at least that part of its calls."""
        return bool(self.strikes) and len(self.strikes) >= ratio * self.calls()


class StrikeLedger:
    """Counts calls and strikes of versions in a sliding window. Safe to use from any thread.

    ``clock`` answers POSIX seconds. The ledger only judges, by ``policy``; the caller quarantines.
    """

    def __init__(self, policy: StrikePolicy, *, clock: Callable[[], float]) -> None:
        self._policy = policy
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: defaultdict[VersionKey, _Window] = defaultdict(_Window)
        self.withheld: Mapping[tuple[VersionKey, str | None], float] = {}
        """Which version is kept from which session, and until when."""
        self._own_ids: set[int] = set()
        """Strikes of ours that are in the store, until they are read back."""
        self._last_id = 0
        """The latest strike that was read."""

    def called(self, version: VersionKey) -> None:
        """A call of ``version`` ended. Attempts of one call are one call: only the first is told, here and below."""
        slot = int(self._clock() // SLOT_S)
        with self._lock:
            own = self._windows[version].own
            own[slot] = own.get(slot, 0) + 1

    def struck(self, strike: Strike) -> Judgement:
        """Counts a strike and says what follows. To be told after :meth:`called` for the same call."""
        with self._lock:
            window = self._current(strike.version)
            window.add(strike)
            return Judgement(len(window.strikes), self._condemned(strike.version, window))

    def merge(self, strikes: Iterable[Strike], traffic: Traffic) -> tuple[VersionKey, ...]:
        """Takes in what the store has: strikes not seen before, in the order of their ids, and all calls of the window.

        Answers the versions that other processes' strikes have brought over a limit.
        """
        touched: dict[VersionKey, None] = {}
        oldest = self._clock() - self._policy.window_s
        with self._lock:
            for window in self._windows.values():
                window.stored = {}
            for (version, slot), calls in traffic.items():
                self._windows[version].stored[slot] = calls
            for strike in strikes:
                if strike.id is None or strike.id <= self._last_id:
                    continue
                self._last_id = strike.id
                if strike.id in self._own_ids:
                    self._own_ids.discard(strike.id)
                elif strike.at > oldest and not strike.pardoned:
                    self._windows[strike.version].add(strike)
                    touched[strike.version] = None
            condemned: dict[VersionKey, None] = {}
            for version in touched:
                condemned |= dict.fromkeys(self._condemned(version, self._current(version)))
            return tuple(condemned)

    def unsaved_calls(self) -> Traffic:
        """The calls that ended here and are not in the store. After writing them, :meth:`saved`."""
        with self._lock:
            for version in list(self._windows):
                window = self._current(version)
                if not (window.strikes or window.own or window.stored):
                    del self._windows[version]
            return {
                (version, slot): calls
                for version, window in self._windows.items()
                for slot, calls in window.own.items()
            }

    def saved(self, traffic: Traffic, strikes: Iterable[int] = ()) -> None:
        """These calls are in the store now, and strikes of ours under these ids."""
        with self._lock:
            self._own_ids.update(strikes)
            for (version, slot), calls in traffic.items():
                window = self._windows[version]
                window.stored[slot] = window.stored.get(slot, 0) + calls
                if (left := window.own.get(slot, 0) - calls) > 0:
                    window.own[slot] = left
                else:
                    window.own.pop(slot, None)

    def withheld_from(self, version: VersionKey, session_id: str | None) -> bool:
        """Whether the version is kept from this one session, whose strikes alone reached the limit."""
        if not self.withheld:
            return False
        with self._lock:
            until = self.withheld.get((version, session_id))
            return until is not None and until > self._clock()

    def latest(self, version: VersionKey) -> tuple[Strike, ...]:
        """The strikes in the window, the latest last, at most 16."""
        with self._lock:
            return tuple(list(self._current(version).strikes)[-16:])

    def forget(self, tool: str, artifact: str | None = None) -> None:
        """The strikes of one version of ``tool``, or of every one, no longer count."""
        with self._lock:
            for version in [held for held in self._windows if held.tool == tool and artifact in (None, held.artifact)]:
                window = self._windows.pop(version)
                self._windows[version] = kept = _Window()
                kept.stored, kept.own = window.stored, window.own
            self.withheld = {
                (version, session_id): until
                for (version, session_id), until in self.withheld.items()
                if version.tool != tool or artifact not in (None, version.artifact)
            }

    def _current(self, version: VersionKey) -> _Window:
        window = self._windows[version]
        window.expire(self._clock() - self._policy.window_s)
        return window

    def _condemned(self, version: VersionKey, window: _Window) -> tuple[VersionKey, ...]:
        """The versions to be quarantined now that this one struck: it, or its artifact's, or none."""
        policy = self._policy
        condemned: tuple[VersionKey, ...] = ()
        if len(window.strikes) >= policy.limit and window.often(policy.min_ratio):
            condemned = self._from_enough_sessions({version: window})
        artifact = {
            other: self._current(other)
            for other in [held for held in self._windows if held.artifact == version.artifact]
        }
        artifact = {other: its for other, its in artifact.items() if its.often(policy.min_ratio)}
        strikes = sum(len(its.strikes) for its in artifact.values())
        if len(artifact) >= policy.limit and strikes >= policy.artifact_limit:
            condemned = self._from_enough_sessions(artifact) or condemned
        return condemned

    def _from_enough_sessions(self, windows: Mapping[VersionKey, _Window]) -> tuple[VersionKey, ...]:
        """These versions, if their strikes come from enough sessions; else they are withheld from those alone."""
        sessions = {strike.call.session_id for window in windows.values() for strike in window.strikes}
        if len(sessions) >= self._policy.sessions:
            return tuple(windows)
        now = self._clock()
        until = now + self._policy.window_s
        self.withheld = {
            **{key: end for key, end in self.withheld.items() if end > now},
            **{(version, session_id): until for version in windows for session_id in sessions},
        }
        return ()


def within_an_hour(quarantines: Iterable[Quarantine]) -> bool:
    """Whether three of these versions were quarantined within an hour and not pardoned since.

    Then an agent may be washing one fault through new builds or names, and the next version waits for a person. It
    stays so until somebody pardons the tools.
    """
    times = sorted(held.at for held in quarantines if held.active)
    return any(last - first <= _LAUNDERED_S for first, last in zip(times, times[_LAUNDERED - 1 :], strict=False))
