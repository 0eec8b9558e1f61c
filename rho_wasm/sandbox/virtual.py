"""Time and chance as a guest sees them: a pure function of where they begin, which is fixed unless it was granted."""

from __future__ import annotations

import hashlib

__all__ = ["START_NS", "SeededRandom", "VirtualClock"]

START_NS = 1_735_689_600_000_000_000
"""2025-01-01T00:00:00Z in nanoseconds: any fixed moment does, one in the past expires no certificates by surprise."""

_STEP_NS = 1_000
_LAST_NS = 2**63 - 1
_BLOCK_BYTES = 1_024


class VirtualClock:
    """Starts at ``start_ns`` and goes 1 µs on at each read, so that loops that wait for time to pass end."""

    __slots__ = ("_now",)

    def __init__(self, start_ns: int = START_NS) -> None:
        self._now = start_ns

    def read_ns(self) -> int:
        """The time in nanoseconds since 1970, at most 2^63 - 1."""
        self.advance_ns(_STEP_NS)
        return self._now

    def advance_ns(self, nanoseconds: int) -> None:
        """What a sleep does: time passes, nobody waits."""
        self._now = min(_LAST_NS, self._now + max(0, nanoseconds))


class SeededRandom:
    """A stream of bytes that follows from its seed alone (SHAKE-256 in counter mode): no more random than that is."""

    __slots__ = ("_counter", "_key", "_rest", "_seed")

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._key = b""
        self._counter = 0
        self._rest = b""

    def read(self, length: int) -> bytes:
        """The next ``length`` bytes. The caller bounds ``length``."""
        if not self._key:  # Most calls read nothing, and pay nothing.
            self._key = hashlib.sha256(b"rho_wasm random 2\0" + self._seed).digest()
        parts = [self._rest]
        have = len(self._rest)
        while have < length:
            block = hashlib.shake_256(self._key + self._counter.to_bytes(8, "little")).digest(_BLOCK_BYTES)
            self._counter += 1
            parts.append(block)
            have += len(block)
        data = b"".join(parts)
        self._rest = data[length:]
        return data[:length]
