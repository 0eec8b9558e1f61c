"""C, freestanding: the clang and wasm-ld inside the wheel ``ziglang``, and one header, ``rho.h``.

A native compiler reads a hostile text, so walls stand round it, and what lies inside them tells nothing:

- Its preprocessor sees a file system of its own (a clang overlay that redirects only) of the source, ``rho.h`` and the
  compiler's own headers. ``#include``, ``#embed`` and ``__has_include`` of anything else find nothing, and cannot tell
  a file that is there from one that is not.
- Inline assembly is refused: the assembler's ``.include`` and ``.incbin`` do not ask the overlay.
- The kernel (Landlock) lets the process open the compiler, its headers and the fresh folder, nothing else, whoever
  asks.
- No path of the host is written into the fresh folder: the overlay is the same text in every build, and the compiler's
  headers are reached through a link. No name that the compiler knows itself by (``__FILE__``) has a folder of the host.

A compiler is nevertheless a large native program in which a crafted source may find a hole, so C is for authors whom
the host trusts with that much.

Nothing of a build depends on where or when it runs: the same source gives the same bytes.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from rho_wasm import resources
from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains.confined import fresh_folder, require_confinement, run_confined
from rho_wasm.toolchains.diagnostics import from_clang
from rho_wasm.toolchains.files import read_bounded
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.toolchain import Built, fail
from rho_wasm.untrusted import inert

__all__ = ["compile_c"]

_LANGUAGE = "c"
_SOURCE, _HEADER, _OVERLAY, _OBJECT, _MODULE = "main.c", "rho.h", "overlay.json", "main.o", "main.wasm"
_HEADERS, _HEADERS_SEEN_AS = "include", "/include"
_NOWHERE = "/nowhere"

# Exactly the features of guest_sdk/ABI.md that need no word of the author; the others wait for a target attribute.
_FEATURES = ("mutable-globals", "sign-ext", "nontrapping-fptoint", "multivalue", "bulk-memory", "bulk-memory-opt")
_CLANG = (
    "clang",
    "--no-default-config",
    "--target=wasm32-unknown-unknown",
    "-mcpu=mvp",
    *(f"-m{feature}" for feature in _FEATURES),
    "-std=gnu17",
    # Against -O2: the same fuel within 3 %, two thirds of the size and of the time to compile.
    "-Os",
    "-ffreestanding",
    "-Wall",
    "-Wextra",
    "-nostdinc",
    "-isystem",
    _HEADERS_SEEN_AS,
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
    "-resource-dir",
    _HEADERS_SEEN_AS,
    "-ffile-compilation-dir=.",
    "-ffile-reproducible",
    # Messages without source lines: a line shown is a line leaked, should anything ever be read that should not.
    "-fno-caret-diagnostics",
    "-fno-color-diagnostics",
    "-fno-crash-diagnostics",
    "-ferror-limit=20",
    "-c",
    _SOURCE,
    "-o",
    _OBJECT,
)
_LINK = (
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
    _OBJECT,
    "-o",
    _MODULE,
)
_OVERLAY_TEXT = json.dumps(
    {
        "version": 0,
        "redirecting-with": "redirect-only",
        "use-external-names": "false",
        "overlay-relative": "true",
        "root-relative": "overlay-dir",
        "roots": [
            {"name": _SOURCE, "type": "file", "external-contents": _SOURCE},
            {"name": _HEADER, "type": "file", "external-contents": _HEADER},
            {"name": _HEADERS_SEEN_AS, "type": "directory-remap", "external-contents": _HEADERS},
        ],
    }
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
class _Compiler:
    program: Path
    headers: Path
    version: str


def _find_compiler() -> _Compiler:
    spec = importlib.util.find_spec("ziglang")
    folder = Path(next(iter(spec.submodule_search_locations or ()), "")) if spec is not None else None
    if folder is None or not (folder / "zig").is_file():
        raise BuildError(
            _LANGUAGE,
            [Diagnostic("the C compiler is not installed")],
            reason="missing_extra",
            hint="pip install 'rho-wasm[c]'",
        )
    return _Compiler(folder / "zig", folder / "lib" / "include", f"ziglang {importlib.metadata.version('ziglang')}")


async def compile_c(project: Project, *, limits: BuildLimits, trusted: bool = False) -> Built:
    """A module of the project's main file, which includes ``rho.h``. Raises :class:`BuildError` with line and column.

    Compiles and links in two child processes in a fresh folder that is removed whatever happens, cancellation too.
    """
    compiler = _find_compiler()
    require_confinement(landlock_version(), language=_LANGUAGE, trusted=trusted)
    async with fresh_folder() as folder:
        await anyio.to_thread.run_sync(_prepare, folder, project.text, compiler)
        warnings = await _run(compiler, folder, _CLANG, name=project.name, limits=limits, trusted=trusted)
        warnings += await _run(compiler, folder, _LINK, name=project.name, limits=limits, trusted=trusted)
        wasm = await anyio.to_thread.run_sync(read_bounded, folder / _MODULE, limits.file_bytes)
    return Built(wasm=wasm, toolchain=compiler.version, log="\n".join(str(warning) for warning in warnings))


def _prepare(folder: Path, source: str, compiler: _Compiler) -> None:
    (folder / _SOURCE).write_bytes(source.encode())
    shutil.copyfile(resources.sdk("c/rho.h"), folder / _HEADER)
    (folder / _HEADERS).symlink_to(compiler.headers, target_is_directory=True)
    (folder / _OVERLAY).write_text(_OVERLAY_TEXT)


async def _run(
    compiler: _Compiler, folder: Path, arguments: Sequence[str], *, name: str, limits: BuildLimits, trusted: bool
) -> tuple[Diagnostic, ...]:
    outcome = await run_confined(
        [str(compiler.program), *arguments],
        folder=folder,
        language=_LANGUAGE,
        read=(compiler.program, compiler.headers),
        environment=_ENVIRONMENT,
        limits=limits,
        native=False,
        trusted=trusted,
    )
    text = outcome.stderr.decode("utf-8", "replace")
    diagnostics = from_clang(text, names={_SOURCE: inert(name, limit=128)}, limit=limits.diagnostics)
    if not outcome.ok:
        fail(_LANGUAGE, outcome, diagnostics, name=name, limits=limits)
    return diagnostics
