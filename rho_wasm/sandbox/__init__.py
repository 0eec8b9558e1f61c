"""One guest call in a fresh instance: admission, compilation, limits, faults.

The names below are loaded when they are first asked for: whoever only reads a module or its manifest (abi.py) loads no
wasmtime, and the manifest, which the admission of modules reads, may itself be read without the sandbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rho_wasm.sandbox.cache import NativeCache
    from rho_wasm.sandbox.sandbox import GuestModule, Sandbox, SandboxStatistics
    from rho_wasm.sandbox.state import LATER, Capabilities

__all__ = ["LATER", "Capabilities", "GuestModule", "NativeCache", "Sandbox", "SandboxStatistics"]

_HOMES = {
    "LATER": "state",
    "Capabilities": "state",
    "GuestModule": "sandbox",
    "NativeCache": "cache",
    "Sandbox": "sandbox",
    "SandboxStatistics": "sandbox",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
