"""What a toolchain is: source text in, a module without its manifest out, made in a confined child process."""

from __future__ import annotations

import signal
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.sandbox.child import ChildOutcome
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.untrusted import inert

__all__ = ["Built", "Toolchain", "fail", "refuse_names"]

_OUT_OF_MEMORY = ("out of memory", "bad_alloc", "MemoryError", "memory allocation of")
"""What LLVM, its C++ library, Python and Rust say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A module as the linker left it. ``toolchain`` is its name and version, ``log`` inert text (warnings)."""

    wasm: bytes
    toolchain: str
    log: str = ""


class Toolchain(Protocol):
    """One language."""

    async def __call__(self, project: Project, *, limits: BuildLimits, trusted: bool) -> Built:
        """Raises :class:`BuildError`. ``trusted`` lets it run without confinement where there is none."""
        ...


def refuse_names(
    language: str, project: Project, *, folders: Collection[str] = (), files: Collection[str] = ()
) -> None:
    """Raises :class:`BuildError` where a folder or file at the top of the project has a name that the build needs."""
    for name in sorted(project.files):
        top, below, _ = name.partition("/")
        if below and top in folders:
            why = "the build writes a file of this name itself: call the folder otherwise"
        elif name in files:
            why = "the build writes a file of this name itself: call it otherwise"
        else:
            continue
        raise BuildError(language, [Diagnostic(why, file=inert(top, limit=128))])


def fail(
    language: str,
    outcome: ChildOutcome,
    diagnostics: Sequence[Diagnostic],
    *,
    name: str,
    limits: BuildLimits,
    native: bool = False,
    hint: str = "",
) -> NoReturn:
    """Raises the :class:`BuildError` for a child that did not end well: the bound that it met, else its messages.

    ``hint`` is what to do about those messages.
    """
    reason, message = "build_failed", None
    memory = limits.native_memory_bytes if native else limits.memory_bytes
    text = outcome.stderr.decode("utf-8", "replace")
    if outcome.reason in ("cpu", "wall"):
        cpu, wall = (
            (limits.native_cpu_seconds, limits.native_wall_seconds)
            if native
            else (limits.cpu_seconds, limits.wall_seconds)
        )
        bound = cpu if outcome.reason == "cpu" else wall
        kind = "of CPU time" if outcome.reason == "cpu" else "by the clock"
        reason, message = "build_timeout", f"the build was stopped after {bound:g} s {kind}"
    elif outcome.reason == "output":
        reason, message = "build_too_large", "the build wrote more than it may, in all or on standard output"
    elif outcome.signal == signal.SIGXFSZ or "file too large" in text.lower():
        reason, message = "build_too_large", f"the build wrote a file of more than {limits.file_bytes} bytes"
    elif any(sign in text for sign in _OUT_OF_MEMORY):
        reason, message = "build_memory", f"the build needed more than {memory} bytes of memory"
    elif outcome.signal is not None and not any(found.severity == "error" for found in diagnostics):
        reason, message = "build_crashed", f"the compiler died of signal {outcome.signal}"
    elif not diagnostics:
        message = f"the compiler ended with status {outcome.returncode} and said nothing that can be shown"
    if message is not None:
        # What the compiler said on its way down has no place in the source and would only distract.
        placed = [found for found in diagnostics if found.line is not None]
        diagnostics = [Diagnostic(message, file=inert(name, limit=128)), *placed]
        hint = ""
    raise BuildError(language, diagnostics[: limits.diagnostics], reason=reason, hint=hint)
