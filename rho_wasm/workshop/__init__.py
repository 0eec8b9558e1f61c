"""Core tools with which a model writes, tests, switches and rolls back tools. Off by default.

Their arguments come from a model, so all of them are hostile: sources are built inside the sandbox, tried there with
nothing granted, and go live through the same gates as everybody's. The workshop grants nothing, replaces and removes
only what it wrote itself, and does so only so often.
"""

from __future__ import annotations

from rho_wasm.workshop.limits import WorkshopLimits
from rho_wasm.workshop.workshop import Workshop

__all__ = ["Workshop", "WorkshopLimits"]
