"""Peers that carry a wasmtime of their own, which takes over SIGSEGV with its first engine."""

from __future__ import annotations

import contextlib
import faulthandler

from tests.benchmarks.guests import Absent
from tests.benchmarks.peers.extism import settle as settle_extism
from tests.benchmarks.peers.modebox import settle as settle_modebox

__all__ = ["settle_signals"]


def settle_signals() -> None:
    """Call it before a host is opened where all are to run.

    Ours refuses to run guests once its handler was replaced, so those of the peers have to be there first; each hands
    on what is not its own.
    """
    if not faulthandler.is_enabled():
        faulthandler.enable()
    for settle in (settle_extism, settle_modebox):
        with contextlib.suppress(Absent):
            settle()
