"""Whether a guest's fault can be a signal in this process, and stays one.

wasmtime turns bounds checks into faults and answers SIGSEGV itself. ``faulthandler.enable()`` replaces its handler, and
then the next fault of a guest kills the host. Enabled *before* the first engine it does no harm, because a second
``enable()`` does nothing; so that is what happens here. Where it cannot be (there is no standard error, or somebody
else's engine was first), guests are compiled with explicit checks in place of signals.
"""

from __future__ import annotations

import faulthandler
import os

from rho_wasm.sandbox.capi import library_path
from rho_wasm.sandbox.config import EngineConfig
from rho_wasm.sandbox.posix import FaultHandler, handled_by
from rho_wasm.sandbox.state import GuestTrap

__all__ = ["FORKED", "FaultGuard", "enable_before_engine", "wasmtime_answers"]

FORKED = "this process was forked: make a Sandbox of its own in it"
"""Timers are not inherited, so nothing would stop a guest at its deadline; sockets are, and two would hear one worker.
"""


def wasmtime_answers() -> bool:
    """Whether wasmtime's own handler answers faults in this process now."""
    return handled_by(library_path())


def enable_before_engine() -> bool:
    """Enables faulthandler unless it is, and answers whether guests may rely on signals. Call it before an engine."""
    if faulthandler.is_enabled():
        return True
    if wasmtime_answers():
        # An engine was made before faulthandler: enabling it now would break that engine, whoever owns it.
        return False
    try:
        faulthandler.enable()
    except (AttributeError, OSError, RuntimeError, ValueError):
        return False  # Standard error is closed or no file.
    return True


class FaultGuard:
    """Holds, before each call, that what was true when the engine was made still is."""

    __slots__ = ("_handler", "_now", "_process")

    def __init__(self, config: EngineConfig) -> None:
        self._process = os.getpid()
        self._now = FaultHandler()
        self._handler = self._now.address() if config["signals_based_traps"] else None

    def check(self) -> None:
        """Raises :class:`GuestTrap` (``capability_fault``, the host's) where running a guest could kill the process."""
        if os.getpid() != self._process:
            raise GuestTrap("capability_fault", FORKED)
        if self._handler is not None and self._now.address() != self._handler:
            raise GuestTrap(
                "capability_fault",
                "the handler of SIGSEGV was replaced after the sandbox was made (faulthandler.disable?), "
                "so a guest's fault would end the process: make a new Sandbox",
            )
