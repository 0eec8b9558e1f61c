"""What a guest may be granted: one file for each, and the parts that hold for all."""

from __future__ import annotations

from rho_wasm.capabilities.capability import Arguments, Capability, CapabilityContext, capability

__all__ = ["Arguments", "Capability", "CapabilityContext", "capability"]
