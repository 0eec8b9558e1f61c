"""Keeps memory and store at one: what other processes wrote is taken in, what waits here is written."""

from __future__ import annotations

from collections.abc import Callable

from rho_wasm.dynamic.guard import Guard
from rho_wasm.dynamic.judge import StrikeJudge
from rho_wasm.dynamic.live import LiveTools
from rho_wasm.dynamic.recorder import Recorder
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import StrikeLedger
from rho_wasm.dynamic.teller import Teller
from rho_wasm.errors import Closed, RhoError
from rho_wasm.events import SourceFailed
from rho_wasm.untrusted import exception_text

__all__ = ["Follower"]

_PRUNE_EVERY_S = 600.0


class Follower:
    """What a source does at every tick of its worker's thread. ``window_s`` is how long strikes count.

    What cannot be done is reported once (``SourceFailed``) and tried again at the next tick; one job that fails keeps
    no other from being done.
    """

    def __init__(
        self,
        store: Store,
        *,
        window_s: float,
        ledger: StrikeLedger,
        guard: Guard,
        live: LiveTools,
        judge: StrikeJudge,
        recorder: Recorder | None,
        teller: Teller,
        name: str,
    ) -> None:
        self._store = store
        self._window_s = window_s
        self._ledger = ledger
        self._guard = guard
        self._live = live
        self._judge = judge
        self._recorder = recorder
        self._teller = teller
        self._name = name
        self._seen: int | None = None
        self._last_strike = store.records.last_before(store.clock() - window_s)
        self._pruned_at = 0.0
        self._faults: dict[str, str] = {}
        self.closing = False
        """Set before the last tick."""

    def tick(self) -> None:
        """Never raises."""
        jobs: dict[str, Callable[[], None]] = {
            "look": self._look,
            "write": self._write,
            "record": self._record,
            "prune": self._prune,
        }
        for name, job in jobs.items():
            try:
                job()
            except Closed:
                return
            except Exception as error:
                self._report(name, str(error) if isinstance(error, RhoError) else exception_text(error))
            else:
                self._faults.pop(name, None)

    def _report(self, job: str, fault: str) -> None:
        if fault not in self._faults.values():
            self._teller.tell_later([SourceFailed(source=self._name, operation="refresh", error=fault)])
        self._faults[job] = fault

    def _write(self) -> None:
        self._judge.write(last=self.closing)

    def _record(self) -> None:
        if self._recorder is not None:
            self._recorder.write()

    def _look(self) -> None:
        seen = self._store.data_version()
        if seen == self._seen:
            return
        new, freed = self._guard.refresh(self._store.quarantines())
        for version in freed:
            self._ledger.forget(*version)
        self._live.look()
        if freed or self._live.offer.damaged:
            self._live.rebuild()
        self._teller.tell_later(self._live.quarantine_event(held) for held in new)
        strikes = self._store.records.since(self._last_strike)
        calls = self._store.records.traffic(self._store.clock() - self._window_s)
        for version in self._ledger.merge(strikes, calls):
            self._judge.condemn(version)
        if strikes:
            assert strikes[-1].id is not None
            self._last_strike = strikes[-1].id
        # Only now: what failed half way is looked at again.
        self._seen = seen

    def _prune(self) -> None:
        now = self._store.clock()
        if self._store.read_only or now - self._pruned_at < _PRUNE_EVERY_S:
            return
        self._store.records.prune(before=now - self._window_s)
        self._store.sweep()
        self._pruned_at = now
