"""C, freestanding: :mod:`c_clang` and one header, ``rho.h``. There is no C library."""

from __future__ import annotations

import anyio.to_thread

from rho_wasm.toolchains.c_clang import LINK, MODULE, Clang, Dialect, find_compiler
from rho_wasm.toolchains.confined import fresh_folder
from rho_wasm.toolchains.files import read_bounded
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.toolchain import Built

__all__ = ["compile_c"]

_DIALECT = Dialect(
    language="c",
    suffixes=(".c",),
    flags=("--target=wasm32-unknown-unknown", "-std=gnu17", "-ffreestanding"),
    sdk={"rho.h": "c/rho.h"},
)


async def compile_c(project: Project, *, limits: BuildLimits, trusted: bool = False) -> Built:
    """A module of the project's ``.c`` files, which include ``rho.h``.

    Compiles each and links them, in child processes in a fresh folder that is removed whatever happens, cancellation
    too. Raises :class:`BuildError` with line and column.
    """
    compiler = find_compiler(_DIALECT.language)
    async with fresh_folder() as folder:
        clang = Clang(project, _DIALECT, compiler, folder=folder, limits=limits, trusted=trusted)
        objects, warnings = await clang.compile()
        # Files that include rho.h each have what they use of it: what is left over goes.
        several = ("--gc-sections",) if len(objects) > 1 else ()
        warnings += await clang.run((*LINK, *several, *objects, "-o", MODULE))
        wasm = await anyio.to_thread.run_sync(read_bounded, folder / MODULE, limits.file_bytes)
    return Built(wasm=wasm, toolchain=compiler.version, log="\n".join(str(warning) for warning in warnings))
