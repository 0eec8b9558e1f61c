"""What one build may cost."""

from __future__ import annotations

from dataclasses import dataclass

from rho_wasm.limits import GIB, KIB, MIB

__all__ = ["BuildLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLimits:
    """The bounds of one build. Units are in the names; at each bound the build ends in a :class:`BuildError`."""

    source_bytes: int = 1 * MIB
    """Source text, of all files together. ``source_too_large``."""
    source_files: int = 256
    """Files of one folder. ``source_too_large``."""
    cpu_seconds: float = 10.0
    """CPU time of each of a build's processes; the C fixtures need 0.05 s. ``build_timeout``."""
    wall_seconds: float = 30.0
    """Wall clock of each process, for those that wait instead of working. ``build_timeout``."""
    memory_bytes: int = 1 * GIB
    """Address space. The C compiler starts in 190 MiB, which is its own code. ``build_memory``."""
    native_cpu_seconds: float = 180.0
    """The same for compilers that build a standard library too (C++, Zig, Rust, Go, AssemblyScript): it is 40 s the
    first time on a machine. ``build_timeout``."""
    native_wall_seconds: float = 240.0
    native_memory_bytes: int = 8 * GIB
    """The same for those, whose runtimes reserve addresses that they never use. ``build_memory``."""
    folder_bytes: int = 512 * MIB
    """All that a build may write. ``build_too_large``."""
    folder_files: int = 20_000
    """How many files it may make. ``build_too_large``."""
    file_bytes: int = 32 * MIB
    """The largest file that a compiler may write, twice what a module may be. ``build_too_large``."""
    message_bytes: int = 64 * KIB
    """What is kept of a compiler's messages."""
    diagnostics: int = 20
    """How many of them a :class:`BuildError` carries, errors before warnings."""
