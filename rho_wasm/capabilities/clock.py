"""``clock.now`` and ``clock.monotonic``: seconds, as a float.

- ``clock.now {}`` answers POSIX time: seconds since 1970-01-01T00:00:00Z.
- ``clock.monotonic {}`` answers the seconds since the call asked for the first time, so that the first answer is 0.0.
  (The host's own reading would tell how long it has been up.) It never goes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rho_wasm.capabilities.capability import Arguments, Capability, CapabilityContext
from rho_wasm.grants import NoEffect

__all__ = ["clock_capabilities"]


class _Nothing(Arguments):
    """Nothing is asked."""


def clock_capabilities(
    *, now: Callable[[], float] = time.time, monotonic_ns: Callable[[], int] = time.monotonic_ns
) -> tuple[Capability, ...]:
    """``clock.now`` and ``clock.monotonic``. ``now`` answers POSIX seconds, ``monotonic_ns`` nanoseconds."""

    def tell_now(arguments: _Nothing, context: CapabilityContext) -> float:
        return float(now())

    def tell_monotonic(arguments: _Nothing, context: CapabilityContext) -> float:
        read = monotonic_ns()
        return (read - context.used.setdefault(context.capability, read)) / 1e9

    return (
        Capability(name="clock.now", arguments=_Nothing, bounds=NoEffect, now=tell_now),
        Capability(name="clock.monotonic", arguments=_Nothing, bounds=NoEffect, now=tell_monotonic),
    )
