"""The clang and wasm-ld inside the wheel ``ziglang``, with walls round them: what builds C and C++.

A native compiler reads a hostile text, so walls stand round it, and what lies inside them tells nothing:

- Its preprocessor sees a file system of its own (a clang overlay that redirects only) of the project's files, the
  headers of the SDK and the compiler's own. ``#include``, ``#embed`` and ``__has_include`` of anything else find
  nothing, and cannot tell a file that is there from one that is not.
- Inline assembly is refused: the assembler's ``.include`` and ``.incbin`` do not ask the overlay.
- The kernel (Landlock) lets the process open the compiler, its headers and the fresh folder, nothing else, whoever
  asks.
- No path of the host is written into the fresh folder: the overlay is the same text wherever a project is built, and
  the compiler's headers are reached through links. No name that the compiler knows itself by (``__FILE__``) has a
  folder of the host.
- No name of a file is ever an option: one that could be is refused before (project.py), and a file alone is always
  compiled under the same name.

A compiler is nevertheless a large native program in which a crafted source may find a hole, so what it builds is for
authors whom the host trusts with that much.

Nothing of a build depends on where or when it runs: the same project gives the same bytes.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import anyio.to_thread

from rho_wasm import resources
from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.sandbox.child import ChildOutcome
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains.c_hints import c_hint
from rho_wasm.toolchains.confined import require_confinement, run_confined
from rho_wasm.toolchains.diagnostics import from_clang
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.toolchain import fail, refuse_names
from rho_wasm.untrusted import inert

__all__ = ["CLANG", "LINK", "MODULE", "Clang", "Compiler", "Dialect", "find_compiler"]

# It is the name of the module in its name section. No file of a project ends so, or begins with a dot (project.py).
MODULE = "main.wasm"
_OVERLAY = ".overlay.json"
_NOWHERE = "/nowhere"

# Exactly the features of guest_sdk/ABI.md that need no word of the author; the others wait for a target attribute.
_FEATURES = ("mutable-globals", "sign-ext", "nontrapping-fptoint", "multivalue", "bulk-memory", "bulk-memory-opt")
CLANG = (
    "clang",
    "--no-default-config",
    "-mcpu=mvp",
    *(f"-m{feature}" for feature in _FEATURES),
    # Against -O2: the same fuel within 3 %, two thirds of the size and of the time to compile.
    "-Os",
    "-Wall",
    "-Wextra",
    "-nostdinc",
    "-I.",
    "-ivfsoverlay",
    _OVERLAY,
    # An assembler opens files by itself, and no tool needs one. Symbols may still be named by __asm__("name").
    "-fno-gnu-inline-asm",
    "-fno-asm-blocks",
    "-fno-modules",
    "-fno-implicit-modules",
    "-fno-implicit-module-maps",
    # Where the compiler and the fresh folder lie is nobody's to know, should a file or a message ever tell it.
    "-ffile-compilation-dir=.",
    "-ffile-reproducible",
    # Messages without source lines: a line shown is a line leaked, should anything ever be read that should not.
    "-fno-caret-diagnostics",
    # They begin with the fresh folder, which no source knows: what it writes itself cannot look like one.
    "-fdiagnostics-absolute-paths",
    "-fno-color-diagnostics",
    "-fno-crash-diagnostics",
    "-ferror-limit=20",
)
LINK = (
    "wasm-ld",
    "--no-entry",
    "--fatal-warnings",
    "--threads=1",
    "--strip-all",
    # Without it a backtrace of a crash could not name functions.
    "--keep-section=name",
    # An overflow of the stack then leaves the memory and traps, instead of running into the data.
    "--stack-first",
    "-z",
    "stack-size=65536",
)
_ENVIRONMENT = {
    "PATH": "",
    "LANG": "C",
    # __DATE__, __TIME__ and __TIMESTAMP__ are the same always.
    "SOURCE_DATE_EPOCH": "0",
    # "#pragma clang module build" makes a temporary file whatever the flags are, and tells its author where.
    "TMPDIR": _NOWHERE,
}


@dataclass(frozen=True, slots=True)
class Compiler:
    """The program, and where its headers are: ``headers`` are clang's own, ``library`` is the folder above them."""

    program: Path
    headers: Path
    library: Path
    version: str


def find_compiler(language: str) -> Compiler:
    """Raises :class:`BuildError` (``missing_extra``)."""
    spec = importlib.util.find_spec("ziglang")
    folder = Path(next(iter(spec.submodule_search_locations or ()), "")) if spec is not None else None
    if folder is None or not (folder / "zig").is_file():
        raise BuildError(
            language,
            [Diagnostic("the C compiler is not installed")],
            reason="missing_extra",
            hint="pip install 'rho-wasm[c]'",
        )
    version = f"ziglang {importlib.metadata.version('ziglang')}"
    return Compiler(folder / "zig", folder / "lib" / "include", folder / "lib", version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What C and C++ differ in."""

    language: str
    suffixes: tuple[str, ...]
    """Of what is compiled; other files are there to be included."""
    flags: tuple[str, ...]
    sdk: Mapping[str, str]
    """Headers of the SDK by the name that an author includes, each with its place in guest_sdk."""
    headers: tuple[str, ...] = ("include",)
    """Folders of headers below ``Compiler.library``, in the order in which they are searched; clang's own is the one
    that is called ``include``."""
    native: bool = False
    """Whether the bounds of large compilers hold."""


class Clang:
    """The compiler at work on one project, in a fresh folder that its owner removes."""

    def __init__(
        self,
        project: Project,
        dialect: Dialect,
        compiler: Compiler,
        *,
        folder: Path,
        limits: BuildLimits,
        trusted: bool,
    ) -> None:
        require_confinement(landlock_version(), language=dialect.language, trusted=trusted)
        # A header of the SDK may be the author's own; a folder in its place may not.
        refuse_names(dialect.language, project, folders=(MODULE, *dialect.sdk))
        self._project = project
        self._dialect = dialect
        self._compiler = compiler
        self._folder = folder
        self._limits = limits
        self._trusted = trusted
        compiled = [name for name in project.files if name.endswith(dialect.suffixes)]
        alone = len(project.files) == 1
        # The bytes of a module must not hang on what its only file is called.
        self._names = {name: f"main{dialect.suffixes[0]}" if alone else name for name in project.files}
        self._compiled = [self._names[project.main], *sorted(self._names[n] for n in compiled if n != project.main)]

    async def compile(self) -> tuple[tuple[str, ...], tuple[Diagnostic, ...]]:
        """The object files, that of the main file first, and the warnings. Raises :class:`BuildError`."""
        await anyio.to_thread.run_sync(self.prepare)
        objects = tuple(f".{place}.o" for place in range(len(self._compiled)))
        warnings: list[Diagnostic] = []
        headers = [part for name in self._dialect.headers for part in ("-isystem", _seen_as(name))]
        for source, compiled in zip(self._compiled, objects, strict=True):
            warnings += await self.run(
                (
                    *CLANG,
                    *self._dialect.flags,
                    *headers,
                    "-resource-dir",
                    _seen_as("include"),
                    "-c",
                    source,
                    "-o",
                    compiled,
                )
            )
        return objects, tuple(warnings[: self._limits.diagnostics])

    def prepare(self) -> None:
        """Writes the project, the headers of the SDK that it has none of its own of, and the overlay."""
        for name, text in self._project.files.items():
            target = self._folder / self._names[name]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
        seen = set(self._names.values())
        for name, place in self._dialect.sdk.items():
            if name not in seen:
                shutil.copyfile(resources.sdk(place), self._folder / name)
        for name in self._dialect.headers:
            real = self._compiler.headers if name == "include" else self._compiler.library / name
            (self._folder / _link_of(name)).symlink_to(real, target_is_directory=True)
        (self._folder / _OVERLAY).write_text(_overlay(sorted(seen | set(self._dialect.sdk)), self._dialect.headers))

    async def run(self, arguments: Sequence[str], *, read: Sequence[Path] = ()) -> tuple[Diagnostic, ...]:
        """Runs one of the compiler's programs, which may also read ``read``. Raises :class:`BuildError`."""
        outcome, found = await self.attempt(arguments, read=read)
        if not outcome.ok:
            self.refuse(outcome, found)
        return found

    async def attempt(
        self, arguments: Sequence[str], *, read: Sequence[Path] = ()
    ) -> tuple[ChildOutcome, tuple[Diagnostic, ...]]:
        """As :meth:`run`, but answers how it ended, and its messages."""
        compiler = self._compiler
        folders = (compiler.headers, *(compiler.library / name for name in self._dialect.headers if name != "include"))
        outcome = await run_confined(
            [str(compiler.program), *arguments],
            folder=self._folder,
            language=self._dialect.language,
            read=(compiler.program, *folders, *read),
            environment=_ENVIRONMENT,
            limits=self._limits,
            native=self._dialect.native,
            trusted=self._trusted,
            tells_folder=True,
        )
        text = outcome.stderr.decode("utf-8", "replace")
        names = {seen: inert(name, limit=128) for name, seen in self._names.items()}
        names[self._names[self._project.main]] = inert(self._project.name, limit=128)
        within = tuple(f"{each}/" for each in (self._folder, compiler.library, compiler.library.resolve()))
        return outcome, from_clang(text, folders=within, names=names, limit=self._limits.diagnostics)

    def refuse(self, outcome: ChildOutcome, found: Sequence[Diagnostic]) -> None:
        """Raises the :class:`BuildError` of a program that did not end well."""
        fail(
            self._dialect.language,
            outcome,
            found,
            name=self._project.name,
            limits=self._limits,
            native=self._dialect.native,
            hint=c_hint(found, self._dialect.language),
        )


def _link_of(headers: str) -> str:
    return ".headers-" + headers.replace("/", "-")


def _seen_as(headers: str) -> str:
    return "/" + headers


def _tree(files: Sequence[str], prefix: str) -> list[dict[str, Any]]:
    """``files``, which lie in the folder ``prefix``, as an overlay lists them: folder by folder."""
    entries: list[dict[str, Any]] = []
    for part, below in groupby(sorted(files), key=lambda name: name.partition("/")[0]):
        inside = [rest for name in below if (rest := name.partition("/")[2])]
        if inside:
            entries.append({"name": part, "type": "directory", "contents": _tree(inside, f"{prefix}{part}/")})
        else:
            entries.append({"name": part, "type": "file", "external-contents": prefix + part})
    return entries


def _overlay(files: Sequence[str], headers: Sequence[str]) -> str:
    roots = _tree(files, "")
    roots += [
        {"name": _seen_as(name), "type": "directory-remap", "external-contents": _link_of(name)} for name in headers
    ]
    return json.dumps(
        {
            "version": 0,
            "redirecting-with": "redirect-only",
            "use-external-names": "false",
            "overlay-relative": "true",
            "root-relative": "overlay-dir",
            "roots": roots,
        }
    )
