"""Zig, freestanding: the compiler of the wheel ``ziglang``, and one file, ``rho.zig``.

``zig`` evaluates much of a hostile text while it compiles it, so walls stand round it:

- The kernel (Landlock) lets the process open the compiler, its standard library and the fresh folder. ``@embedFile``
  and ``@import`` cannot leave the folder of the project, says the compiler itself; ``.incbin`` and ``.include`` of
  inline assembly ask nobody but the kernel. There is no ``@cImport`` in this Zig, and no build script is run.
- The fresh folder holds the project, ``rho.zig``, a link to the standard library, and a cache of this build alone.
  Nothing in it tells where it lies, and no build can leave anything for the next.
- One thing is kept from build to build: ``compiler_rt``, the arithmetic that WebAssembly has not, compiled of the
  standard library's text alone.
- What is computed at compile time ends by the compiler's own quota, or by the bounds on time, memory and disk.

A compiler is nevertheless a large native program in which a crafted source may find a hole, so Zig is for authors whom
the host trusts with that much. The same source gives the same bytes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from rho_wasm import resources
from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.own_files import NotOwn, open_own, write_own
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains.compiler_messages import from_zig
from rho_wasm.toolchains.confined import fresh_folder, require_confinement, run_confined
from rho_wasm.toolchains.files import read_bounded
from rho_wasm.toolchains.kept import kept_folder
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.toolchain import Built, fail

__all__ = ["Zig", "compile_zig", "find_zig"]

_LANGUAGE = "zig"
_SOURCE, _SDK, _LIBRARY, _CACHE = "source", "sdk", "lib", "cache"
_OBJECT, _RUNTIME, _MODULE = "main.o", "compiler_rt.o", "main.wasm"

# Exactly the features of guest_sdk/ABI.md that every compiler here uses; SIMD and tail calls are not among them.
_FEATURES = "mvp+mutable_globals+sign_ext+nontrapping_fptoint+multivalue+bulk_memory+bulk_memory_opt"
_COMPILE = (
    "build-obj",
    "--zig-lib-dir",
    _LIBRARY,
    "--cache-dir",
    _CACHE,
    "--global-cache-dir",
    _CACHE,
    "--color",
    "off",
    "-target",
    "wasm32-freestanding",
    f"-mcpu={_FEATURES}",
    "-fsingle-threaded",
    # Without debug information; the names of functions, which a backtrace needs, stay.
    "-fstrip",
    "-fno-error-tracing",
    # It shows names as they are, a line break in one included, which then looks like a message.
    "-fno-reference-trace",
)
# Checked arithmetic and bounds cost a fifth of the size: without them a slip would answer nonsense instead of trapping.
_GUEST = ("-O", "safe", "--dep", "guest", f"-Mrho={_SDK}/rho.zig", "-O", "safe", "--dep", "rho")
_LINK = (
    "wasm-ld",
    "--no-entry",
    "--fatal-warnings",
    "--threads=1",
    "--gc-sections",
    "--strip-debug",
    # An overflow of the stack then leaves the memory and traps, instead of running into the data.
    "--stack-first",
    "-z",
    "stack-size=131072",
    "--export=rho_alloc",
    "--export=rho_call",
    "--export=rho_manifest",
    _OBJECT,
    _RUNTIME,
    "-o",
    _MODULE,
)
_ENVIRONMENT = {"PATH": "", "LANG": "C"}


@dataclass(frozen=True, slots=True)
class Zig:
    program: Path
    library: Path
    version: str


def find_zig() -> Zig:
    """The compiler of the wheel. Raises :class:`BuildError` (``missing_extra``)."""
    spec = importlib.util.find_spec("ziglang")
    folder = Path(next(iter(spec.submodule_search_locations or ()), "")) if spec is not None else None
    if folder is None or not (folder / "zig").is_file():
        raise BuildError(
            _LANGUAGE,
            [Diagnostic("the Zig compiler is not installed")],
            reason="missing_extra",
            hint="pip install 'rho-wasm[zig]'",
        )
    # The kernel's rules know real paths only.
    real = folder.resolve()
    return Zig(real / "zig", real / "lib", f"ziglang {importlib.metadata.version('ziglang')}")


async def compile_zig(project: Project, *, limits: BuildLimits, trusted: bool = False) -> Built:
    """A module of the project's main file, which declares ``pub const tools``. Raises :class:`BuildError`.

    The first build on a machine compiles ``compiler_rt`` too, 5 s of CPU time.
    """
    compiler = find_zig()
    require_confinement(landlock_version(), language=_LANGUAGE, trusted=trusted)
    build = _Build(compiler, project.name, limits, trusted)
    runtime = await build.runtime()
    async with fresh_folder() as folder:
        await anyio.to_thread.run_sync(_prepare, folder, compiler, project, runtime)
        main = f"-Mguest={_SOURCE}/{_main(project)}"
        await build.run(folder, [*_COMPILE, *_GUEST, main, f"-femit-bin={_OBJECT}"])
        await build.run(folder, _LINK)
        wasm = await anyio.to_thread.run_sync(read_bounded, folder / _MODULE, limits.file_bytes)
    return Built(wasm=wasm, toolchain=compiler.version)


@dataclass(frozen=True, slots=True)
class _Build:
    compiler: Zig
    name: str
    limits: BuildLimits
    trusted: bool

    async def runtime(self) -> bytes:
        """``compiler_rt`` as an object file: the kept one, or one that is compiled now, and kept if it can be."""
        found = await anyio.to_thread.run_sync(_kept_runtime, self.compiler)
        if found is not None:
            return found
        async with fresh_folder() as folder:
            (folder / _LIBRARY).symlink_to(self.compiler.library, target_is_directory=True)
            source = f"{_LIBRARY}/compiler_rt.zig"
            await self.run(folder, [*_COMPILE, "-O", "fast", f"-femit-bin={_RUNTIME}", source])
            made = await anyio.to_thread.run_sync(read_bounded, folder / _RUNTIME, self.limits.file_bytes)
        with suppress(OSError):
            await anyio.to_thread.run_sync(write_own, _runtime_path(self.compiler), made)
        return made

    async def run(self, folder: Path, arguments: Sequence[str]) -> None:
        outcome = await run_confined(
            [str(self.compiler.program), *arguments],
            folder=folder,
            language=_LANGUAGE,
            read=(self.compiler.program, self.compiler.library),
            environment=_ENVIRONMENT,
            limits=self.limits,
            trusted=self.trusted,
        )
        if not outcome.ok:
            text = outcome.stderr.decode("utf-8", "replace")
            diagnostics = from_zig(text, folder=_SOURCE, limit=self.limits.diagnostics)
            fail(_LANGUAGE, outcome, diagnostics, name=self.name, limits=self.limits, native=True)


def _runtime_path(compiler: Zig) -> Path:
    flags = hashlib.sha256("\0".join(_COMPILE).encode()).hexdigest()[:16]
    return kept_folder(f"{compiler.version.replace(' ', '-')}-{flags}") / _RUNTIME


def _kept_runtime(compiler: Zig) -> bytes | None:
    try:
        with open_own(_runtime_path(compiler)) as file:
            return file.read()
    except (OSError, NotOwn):
        return None


def _main(project: Project) -> str:
    """Its main file, which Zig wants to end as files in Zig do."""
    return project.main if project.main.endswith(".zig") else f"{project.main}.zig"


def _prepare(folder: Path, compiler: Zig, project: Project, runtime: bytes) -> None:
    for name in (_SOURCE, _SDK):
        (folder / name).mkdir()
    project.write_to(folder / _SOURCE)
    (folder / _SOURCE / _main(project)).write_text(project.text, encoding="utf-8", newline="")
    shutil.copyfile(resources.sdk("zig/rho.zig"), folder / _SDK / "rho.zig")
    (folder / _LIBRARY).symlink_to(compiler.library, target_is_directory=True)
    (folder / _RUNTIME).write_bytes(runtime)
