"""Rust: a ``rustc`` of this machine that has the target ``wasm32-unknown-unknown``, and one crate, ``rho``.

``rustc`` is started by itself, never ``cargo``: there is no build script, no procedural macro, no dependency and no
configuration file that could run a program or bring a flag. Round it stand these walls:

- The kernel (Landlock) lets it open itself, the shared libraries that it starts with, the target's standard library,
  ``rho`` and the fresh folder. ``include_str!``, ``include_bytes!`` and ``#[path]`` find nothing else, links and ``..``
  included.
- It lists every text that it took in, by whatever name a macro made. Where one is not of the project (a shared library
  of the host, say, which tells its version) there is no module, and nothing else that it said is told.
- Its environment is three words of ours, so ``env!`` and ``option_env!`` tell nothing. It is a stable compiler and
  stays one: ``RUSTC_BOOTSTRAP`` is not set, ``#![feature]``, ``asm!`` for this target and plug-ins are errors.
- The crate type, the linker and its arguments are ours; the source has no say in them but ``#[link]``, which finds
  libraries where the kernel lets it look: nowhere.
- One thing is kept from build to build: ``rho``, compiled of our own text alone.
- What is computed at compile time ends by the compiler's own bounds, or by those on time, memory and disk.

A compiler is nevertheless a large native program in which a crafted source may find a hole, so Rust is for authors whom
the host trusts with that much. The same source and compiler give the same bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from rho_wasm import resources
from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.own_files import NotOwn, open_own, write_own
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains.compiler_messages import from_rustc, not_of_project
from rho_wasm.toolchains.confined import fresh_folder, require_confinement, run_confined
from rho_wasm.toolchains.files import TooLong, read_bounded
from rho_wasm.toolchains.kept import kept_folder
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.rust_compiler import RustCompiler, find_rust
from rho_wasm.toolchains.toolchain import Built, fail

__all__ = ["compile_rust"]

_LANGUAGE = "rust"
_SOURCE, _SDK, _TEMPORARY = "source", "sdk", "tmp"
_CRATE, _MODULE, _TAKEN_IN = "librho.rlib", "main.wasm", "taken-in.d"

_COMPILE = (
    "--edition=2021",
    "--target=wasm32-unknown-unknown",
    "-Copt-level=s",
    "-Cpanic=abort",
    "-Ccodegen-units=1",
    "-Cdebuginfo=0",
    # An overflow is a mistake, and a crash tells of it.
    "-Coverflow-checks=on",
    "--error-format=json",
    "--json=diagnostic-short",
)
_OWN = (*_COMPILE, "--crate-type=rlib", "--crate-name=rho", f"{_SDK}/src/lib.rs", "-o", _CRATE)
_GUEST = (
    *_COMPILE,
    "--crate-type=cdylib",
    "--crate-name=guest",
    f"--extern=rho={_CRATE}",
    # The names of functions stay, for backtraces.
    "-Cstrip=debuginfo",
    "-Clinker-flavor=wasm-ld",
    "-Clink-arg=--stack-first",
    "-Clink-arg=-zstack-size=131072",
    "-Clink-arg=--threads=1",
    f"--emit=link={_MODULE},dep-info={_TAKEN_IN}",
)
# What is in it the source can ask for, so it is the same wherever a project is built.
_ENVIRONMENT = {"PATH": "", "LANG": "C", "TMPDIR": _TEMPORARY}


async def compile_rust(project: Project, *, limits: BuildLimits, trusted: bool = False) -> Built:
    """A module of the project's main file, which ends in ``rho::tools!``. Raises :class:`BuildError`.

    The first build on a machine compiles the crate ``rho`` too, 3 s of CPU time.
    """
    compiler = await anyio.to_thread.run_sync(find_rust)
    require_confinement(landlock_version(), language=_LANGUAGE, trusted=trusted)
    build = _Build(compiler, project.name, limits, trusted)
    crate = await build.crate()
    async with fresh_folder() as folder:
        await anyio.to_thread.run_sync(_prepare, folder, project, crate)
        linker = f"-Clinker={compiler.linker}"
        warnings = await build.run(folder, [*_GUEST, linker, f"{_SOURCE}/{project.main}"])
        wasm = await anyio.to_thread.run_sync(_module, folder, limits)
    return Built(wasm=wasm, toolchain=compiler.version, log="\n".join(str(each) for each in warnings))


@dataclass(frozen=True, slots=True)
class _Build:
    compiler: RustCompiler
    name: str
    limits: BuildLimits
    trusted: bool

    async def crate(self) -> bytes:
        """``rho`` compiled: the kept one, or one that is compiled now, and kept if it can be."""
        sources = await anyio.to_thread.run_sync(_sdk_sources)
        found = await anyio.to_thread.run_sync(self._kept, sources)
        if found is not None:
            return found
        async with fresh_folder() as folder:
            await anyio.to_thread.run_sync(_write_sdk, folder, sources)
            await self.run(folder, _OWN)
            made = await anyio.to_thread.run_sync(read_bounded, folder / _CRATE, self.limits.file_bytes)
        with suppress(OSError):
            await anyio.to_thread.run_sync(write_own, self._path(sources), made)
        return made

    def _path(self, sources: dict[str, bytes]) -> Path:
        seen = hashlib.sha256(f"{self.compiler.version}\0{self.compiler.sysroot}\0{_OWN}".encode())
        for name, data in sources.items():
            seen.update(f"{name} {len(data)}\n".encode() + data)
        return kept_folder(f"rust-{seen.hexdigest()[:32]}") / _CRATE

    def _kept(self, sources: dict[str, bytes]) -> bytes | None:
        try:
            with open_own(self._path(sources)) as file:
                return file.read()
        except (OSError, NotOwn):
            return None

    async def run(self, folder: Path, arguments: Sequence[str]) -> tuple[Diagnostic, ...]:
        await anyio.Path(folder / _TEMPORARY).mkdir()
        outcome = await run_confined(
            [
                str(self.compiler.program),
                f"--sysroot={self.compiler.sysroot}",
                # A panic names its file: "source/main.rs" and "sdk/src/host.rs", wherever that was.
                f"--remap-path-prefix={folder}/=",
                f"--remap-path-prefix={folder}=",
                *arguments,
            ],
            folder=folder,
            language=_LANGUAGE,
            read=self.compiler.read,
            # The linker is given it as its standard input.
            write=(os.devnull,),
            environment=_ENVIRONMENT,
            limits=self.limits,
            trusted=self.trusted,
        )
        if outside := await anyio.to_thread.run_sync(_outside, folder, self.limits):
            raise BuildError(_LANGUAGE, outside)
        text = outcome.stderr.decode("utf-8", "replace")
        diagnostics = from_rustc(text, folder=_SOURCE, limit=self.limits.diagnostics)
        if not outcome.ok:
            fail(_LANGUAGE, outcome, diagnostics, name=self.name, limits=self.limits, native=True)
        return diagnostics


def _sdk_sources() -> dict[str, bytes]:
    folder = resources.sdk("rust/src/lib.rs").parent
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.rs"))}


def _write_sdk(folder: Path, sources: dict[str, bytes]) -> None:
    (folder / _SDK / "src").mkdir(parents=True)
    for name, data in sources.items():
        (folder / _SDK / "src" / name).write_bytes(data)


def _prepare(folder: Path, project: Project, crate: bytes) -> None:
    (folder / _SOURCE).mkdir()
    project.write_to(folder / _SOURCE)
    (folder / _CRATE).write_bytes(crate)


def _outside(folder: Path, limits: BuildLimits) -> tuple[Diagnostic, ...]:
    """What the compiler took in that is not of the project. It lists that before it evaluates anything of it."""
    try:
        listed = read_bounded(folder / _TAKEN_IN, limits.message_bytes)
    except FileNotFoundError:
        return ()
    except TooLong:
        return (Diagnostic(f"the names of all files that are included have more than {limits.message_bytes} bytes"),)
    return not_of_project(listed.decode("utf-8", "replace"), folder=_SOURCE, limit=limits.diagnostics)


def _module(folder: Path, limits: BuildLimits) -> bytes:
    if not (folder / _TAKEN_IN).is_file():
        raise BuildError(_LANGUAGE, [Diagnostic("the compiler did not list what it took in")], reason="build_crashed")
    return read_bounded(folder / _MODULE, limits.file_bytes)
