"""What a Sandbox may be told, looked at before any of it is made."""

from __future__ import annotations

from typing import get_args

from rho_wasm.limits import HostLimits
from rho_wasm.option_checks import check_choice, check_function, check_kind, check_whole
from rho_wasm.sandbox.cache import NativeCache
from rho_wasm.sandbox.ticker import TickerKind
from rho_wasm.sandbox.ways import Way

__all__ = ["check_options"]


def check_options(
    *,
    workers: object,
    way: object,
    engines: object,
    ticker: object = None,
    limits: object = None,
    cache: object = None,
) -> None:
    """Raises TypeError, or ValueError for a number or a word that is none of those there are."""
    check_whole(workers, "workers", least=0)
    if way is not None:
        check_choice(way, get_args(Way), "way")
    if ticker is not None:
        check_choice(ticker, get_args(TickerKind), "ticker")
    if engines is not None:
        check_function(engines, "engines is a shelf, or a function (sha256) that is not async", may_be_async=False)
    if limits is not None:
        check_kind(limits, HostLimits, "limits of a sandbox are HostLimits")
    if cache is not None:
        check_kind(cache, NativeCache, "a cache is a NativeCache")
