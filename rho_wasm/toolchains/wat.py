"""WebAssembly text. No extra is needed: wasmtime reads it, in a child process that may use little."""

from __future__ import annotations

import importlib.metadata
import sys

from rho_wasm.sandbox.child import Confinement, run_child
from rho_wasm.toolchains import wat_child
from rho_wasm.toolchains.diagnostics import from_wat
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.toolchain import Built, fail

__all__ = ["compile_wat"]


async def compile_wat(project: Project, *, limits: BuildLimits, trusted: bool = False) -> Built:
    """A module of the project's main file. Raises :class:`BuildError` with line and column.

    The parser reads no file and is memory-safe, so nothing hangs on ``trusted`` here: the child is bounded in time,
    memory and output everywhere.
    """
    outcome = await run_child(
        [sys.executable, "-I", wat_child.__file__],
        stdin=project.text.encode(),
        confinement=Confinement(
            cpu_seconds=limits.cpu_seconds, memory_bytes=limits.memory_bytes, file_bytes=limits.file_bytes, write=()
        ),
        wall_seconds=limits.wall_seconds,
        max_output_bytes=limits.file_bytes,
        max_error_bytes=limits.message_bytes,
    )
    if not outcome.ok:
        said = outcome.stderr.decode("utf-8", "replace")
        diagnostics = [from_wat(said, name=project.name)] if outcome.returncode == wat_child.EXIT_NOT_WAT else []
        fail("wat", outcome, diagnostics, name=project.name, limits=limits)
    return Built(wasm=outcome.stdout, toolchain=f"wasmtime {importlib.metadata.version('wasmtime')}")
