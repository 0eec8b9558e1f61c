"""rho_wasm hosts tools that a model writes while it works, each call in a fresh WebAssembly sandbox."""

from __future__ import annotations
