"""A call that begins on the event loop's thread, for one slice, and goes on in a thread of its own if it must."""

from __future__ import annotations

import enum
import threading
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


class SlicedCall:
    """Drives one call. Any thread may, one at a time: wasmtime ends the process where two do, or one does too late.

    So each step is taken under a state that one lock guards, and a wrong one is a RuntimeError here.
    """

    __slots__ = ("_call", "_lock", "_state", "answer")

    def __init__(self, call: GuestCall, request: bytes) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._state = _READY
        call.prepare(request, sliced=True)
        self.answer = b""
        """The answer's bytes, once it is done."""

    @property
    def state(self) -> State:
        return self._state

    def rest(self) -> bytes:
        """Runs what is left, in a thread where it may take as long as it needs. Raises as ``GuestCall.run`` does."""
        with self._call.runtime.ticking():
            self._call.move()
            done = self.advance()
        assert done, "in a thread a guest is never left"
        return self.answer

    @sure_entry
    def close(self) -> None:
        """Lets go of what is left of the guest, its future and then its store. Idempotent, but never while it runs."""
        with self._lock:
            if self._state is State.POLLING:
                raise self._wrong(State.CLOSED)
            self._state = State.CLOSED
        self._call.abandon()

    def advance(self) -> bool:
        """Runs the guest for a slice on this thread; True if it is done. Raises as ``GuestCall.run`` does.

        :class:`Elsewhere` is raised where it has to begin again in a thread.
        """
        call, after, mine = self._call, _DONE, False
        cpu_began = time.thread_time()
        try:
            with self._lock:
                if self._state is not _READY:
                    raise self._wrong(_POLLING)
                self._state = _POLLING
                mine = True
            if not call.go_on():
                after = _READY
                return False
            self.answer = call.answer
            return True
        finally:
            if mine:
                self._state = after
                if after is _DONE and call.guest_ms <= _SLICE_MS:
                    # It was no more than that, and asking how much takes longer than many a guest runs.
                    call.guest_cpu_ms = call.guest_ms
                else:
                    call.guest_cpu_ms += (time.thread_time() - cpu_began) * 1000

    def _wrong(self, wanted: State) -> RuntimeError:
        return RuntimeError(f"a call that is {self._state.value} cannot become {wanted.value}")
