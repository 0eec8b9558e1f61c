"""A call that begins on the event loop's thread, for one slice, and goes on in a thread of its own if it must."""

from __future__ import annotations

import enum
import time

from rho_wasm.sandbox.entry import sure_entry
from rho_wasm.sandbox.guest_call import SLICE_S, GuestCall

__all__ = ["SlicedCall", "State"]

_SLICE_MS = SLICE_S * 1000


class State(enum.Enum):
    """Where a sliced call is. ``READY`` is between slices, ``DONE`` has an answer or an error."""

    READY = "ready"
    POLLING = "polling"
    DONE = "done"
    CLOSED = "closed"


_READY, _POLLING, _DONE = State.READY, State.POLLING, State.DONE


class SlicedCall(GuestCall):
    """One that is taken in steps. Any thread may, one at a time: wasmtime ends the process where two do, or one does
    too late.

    So each step is taken under a state that a lock guards, and a wrong one is a RuntimeError here. It begins with
    ``prepare(request, sliced=True)``; ``run`` is another way to make it, and needs none of this.
    """

    at = State.READY

    def advance(self) -> bool:
        """Runs the guest for a slice on this thread; True if it is done. Raises as ``run`` does.

        :class:`Elsewhere` is raised where it has to begin again in a thread.
        """
        after, mine = _DONE, False
        cpu_began = time.thread_time()
        try:
            with self.runtime.lock:
                if self.at is not _READY:
                    raise self._wrong(_POLLING)
                self.at = _POLLING
                mine = True
            if self.go_on():
                return True
            after = _READY
            return False
        finally:
            if mine:
                self.at = after
                if after is _DONE and self.guest_ms <= _SLICE_MS:
                    # It was no more than that, and asking how much takes longer than many a guest runs.
                    self.guest_cpu_ms = self.guest_ms
                else:
                    self.guest_cpu_ms += (time.thread_time() - cpu_began) * 1000

    def rest(self) -> bytes:
        """Runs what is left, in a thread where it may take as long as it needs. Raises as ``run`` does."""
        with self.runtime.ticking():
            self.move()
            done = self.advance()
        assert done, "in a thread a guest is never left"
        return self.answer

    @sure_entry
    def close(self) -> None:
        """Lets go of what is left of the guest, its future and then its store. Idempotent, but never while it runs."""
        mine = False
        try:
            with self.runtime.lock:
                if self.at is _POLLING:
                    raise self._wrong(State.CLOSED)
                self.at = State.CLOSED
                mine = True
        finally:
            if mine:
                self.abandon()

    def _wrong(self, wanted: State) -> RuntimeError:
        return RuntimeError(f"a call that is {self.at.value} cannot become {wanted.value}")
