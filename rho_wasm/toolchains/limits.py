"""What one build may cost."""

from __future__ import annotations

from dataclasses import dataclass

from rho_wasm.limits import GIB, KIB, MIB

__all__ = ["BuildLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLimits:
    """The bounds of one build. Units are in the names; at each bound the build ends in a :class:`BuildError`."""

    source_bytes: int = 1 * MIB
    """Source text. ``source_too_large``."""
    cpu_seconds: float = 10.0
    """CPU time of each of a build's processes; the C fixtures need 0.05 s. ``build_timeout``."""
    wall_seconds: float = 30.0
    """Wall clock of each process, for those that wait instead of working. ``build_timeout``."""
    memory_bytes: int = 1 * GIB
    """Address space. The C compiler starts in 190 MiB, which is its own code. ``build_memory``."""
    file_bytes: int = 32 * MIB
    """The largest file that a compiler may write, twice what a module may be. ``build_too_large``."""
    message_bytes: int = 64 * KIB
    """What is kept of a compiler's messages."""
    diagnostics: int = 20
    """How many of them a :class:`BuildError` carries, errors before warnings."""
