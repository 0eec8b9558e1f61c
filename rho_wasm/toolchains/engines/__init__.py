"""Interpreters that tools are written for: what they are made of, how they are made, where they are kept."""

from __future__ import annotations

from rho_wasm.toolchains.engines.shelf import EngineShelf, Installed, Verified
from rho_wasm.toolchains.engines.spec import EngineSpec, Progress, SelfTest, engine_specs

__all__ = ["EngineShelf", "EngineSpec", "Installed", "Progress", "SelfTest", "Verified", "engine_specs"]
