"""AssemblyScript: the compiler of the npm package ``assemblyscript`` in the machine's Node, and one file, ``rho.ts``.

The compiler is JavaScript and WebAssembly, so a hostile source finds less of a machine in it than in a native one.
Walls stand round it all the same:

- It runs in a script of ours (``assemblyscript.mjs``) that gives it files out of memory: those of the project and of
  the SDK. No import leads to a file of the host, no ``node_modules`` and no ``asconfig.json`` is looked at, and options
  and transforms (which are code that the compiler runs) come from the command line only, which is ours.
- The kernel (Landlock) lets the process open Node, its libraries, the package and the fresh folder, nothing else.

The same source gives the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread

from rho_wasm import resources
from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.limits import MIB
from rho_wasm.sandbox.child import run_child
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains.binary import FUNCTION
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.confined import fresh_folder, require_confinement, run_confined, without_folder
from rho_wasm.toolchains.files import read_bounded
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.toolchain import Built, fail, refuse_names
from rho_wasm.untrusted import inert

__all__ = ["PACKAGE", "AssemblyScript", "compile_assemblyscript", "find_assemblyscript"]

PACKAGE = "assemblyscript@0.28.20"
"""What npm installs. Pinned, because a build's bytes are the compiler's."""

_LANGUAGE = "assemblyscript"
_VERSION = PACKAGE.partition("@")[2]
_SCRIPT = Path(__file__).with_name("assemblyscript.mjs")
_DRIVER, _INPUT, _MESSAGES, _MODULE = "compile.mjs", "project.json", "messages.json", "main.wasm"
_START = "rho_start.ts"
_MESSAGES_BYTES = 1 * MIB
_HEAP_MIB = 2048
_NODE_SECONDS = 10.0
_EMPTY = "/dev/null"
_BAD_OPTION = 9
"""How Node ends where it does not know an option that it is given."""

_NODE = (
    # Half the CPU time: the compiler's own WebAssembly runs too short to be worth optimising.
    "--liftoff-only",
    # Else each of its memories reserves more addresses than a build may have.
    "--disable-wasm-trap-handler",
    f"--max-old-space-size={_HEAP_MIB}",
    "--no-addons",
)
_ASC = (
    _START,
    "--outFile",
    _MODULE,
    "--lib",
    "sdk",
    "--runtime",
    "incremental",
    "--use",
    "abort=~lib/rho/abort",
    "--use",
    "seed=~lib/rho/seed",
    "--exportStart",
    "_initialize",
    "-O2",
    "--noColors",
)


@dataclass(frozen=True, slots=True)
class AssemblyScript:
    """Where it is on this machine."""

    node: Path
    package: Path

    @property
    def script(self) -> Path:
        return self.package / "dist" / "asc.js"

    @property
    def read(self) -> tuple[Path, ...]:
        """The packages: npm puts what one needs beside it or inside."""
        beside = self.package.parent
        return self.package, beside / "binaryen", beside / "long"


def find_assemblyscript() -> AssemblyScript:
    """Node, and ``RHO_WASM_ASC``, a folder of the package, or the one whose ``asc`` is on the PATH.

    Raises :class:`BuildError` (``missing_toolchain``) which says what to run.
    """
    environment = os.environ
    path = environment.get("PATH", "")
    node = shutil.which("node", path=path)
    program = shutil.which("asc", path=path)
    given = environment.get("RHO_WASM_ASC")
    package = Path(given).resolve() if given else Path(program).resolve().parent.parent if program else None
    if node is None:
        raise _missing("Node is not installed (20.15 or later)", "install Node, then: npm install -g " + PACKAGE)
    if package is None or not (package / "dist" / "asc.js").is_file():
        hint = f"npm install -g {PACKAGE}; or say in RHO_WASM_ASC where the folder node_modules/assemblyscript is"
        raise _missing("the AssemblyScript compiler is not installed", hint)
    version = _version_of(package)
    if version != _VERSION:
        why = f"the AssemblyScript compiler is of version {inert(version, limit=32)}, not {_VERSION}"
        raise _missing(why, f"npm install -g {PACKAGE}")
    return AssemblyScript(Path(node).resolve(), package)


def _version_of(package: Path) -> str:
    try:
        return str(json.loads((package / "package.json").read_bytes())["version"])
    except (OSError, ValueError, LookupError, TypeError):
        return "unknown"


def _missing(why: str, hint: str) -> BuildError:
    return BuildError(_LANGUAGE, [Diagnostic(why)], reason="missing_toolchain", hint=hint)


async def compile_assemblyscript(project: Project, *, limits: BuildLimits, trusted: bool = False) -> Built:
    """A module of the project's main file and what it imports. Raises :class:`BuildError` with line and column."""
    refuse_names(_LANGUAGE, project, folders=(_START,), files=(_START,))
    compiler = await anyio.to_thread.run_sync(find_assemblyscript)
    require_confinement(landlock_version(), language=_LANGUAGE, trusted=trusted)
    libraries = await _libraries(compiler.node)
    async with fresh_folder() as folder:
        await anyio.to_thread.run_sync(_prepare, folder, project)
        outcome = await run_confined(
            [str(compiler.node), *_NODE, _DRIVER, str(compiler.script), *_ASC],
            folder=folder,
            language=_LANGUAGE,
            read=(compiler.node, *libraries, *compiler.read, _EMPTY),
            environment={"PATH": "", "LANG": "C", "HOME": "/nowhere", "OPENSSL_CONF": _EMPTY},
            limits=limits,
            trusted=trusted,
        )
        diagnostics = await anyio.to_thread.run_sync(_read_messages, folder, limits)
        if outcome.returncode == _BAD_OPTION and not diagnostics:
            raise _missing("Node is too old for the AssemblyScript compiler", "install Node 20.15 or later")
        if not outcome.ok:
            fail(_LANGUAGE, outcome, diagnostics, name=project.name, limits=limits, native=True)
        wasm = await anyio.to_thread.run_sync(read_bounded, folder / _MODULE, limits.file_bytes)
    await anyio.to_thread.run_sync(_check_imports, wasm, project)
    log = "\n".join(str(each) for each in diagnostics if each.severity != "note")
    return Built(wasm=wasm, toolchain=f"assemblyscript {_VERSION}", log=log)


async def _libraries(node: Path) -> tuple[Path, ...]:
    """The shared libraries that Node starts with, as the system's loader finds them; it is asked, Node is not run."""
    outcome = await run_child(
        [str(node), "--version"],
        # Started through another program the loader would tell that one's.
        confines_itself=True,
        wall_seconds=_NODE_SECONDS,
        max_output_bytes=65_536,
        env={"PATH": "", "LD_TRACE_LOADED_OBJECTS": "1"},
    )
    words = outcome.stdout.decode("utf-8", "replace").split()
    return tuple(Path(word) for word in words if word.startswith("/"))


def _prepare(folder: Path, project: Project) -> None:
    main = json.dumps("./" + project.main.removesuffix(".ts"))
    start = f'import {main};\nexport {{ rho_alloc, rho_call, rho_manifest }} from "rho";\n'
    sdk = resources.sdk("assemblyscript/rho.ts").read_text(encoding="utf-8")
    given = {"files": {**project.files, _START: start}, "sdk": {"rho.ts": sdk}}
    (folder / _INPUT).write_text(json.dumps(given), encoding="utf-8")
    shutil.copyfile(_SCRIPT, folder / _DRIVER)


def _read_messages(folder: Path, limits: BuildLimits) -> tuple[Diagnostic, ...]:
    """What the compiler said, errors first. A hostile text may have written the file."""
    try:
        told = json.loads(without_folder(read_bounded(folder / _MESSAGES, _MESSAGES_BYTES), folder))
    except (OSError, ValueError, RecursionError):
        return ()
    found = [_diagnostic(each) for each in told if isinstance(each, dict)] if isinstance(told, list) else []
    order = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(dict.fromkeys(found), key=lambda each: order[each.severity])[: limits.diagnostics])


def _diagnostic(told: Mapping[str, Any]) -> Diagnostic:
    file, severity = told.get("file"), told.get("severity")
    return Diagnostic(
        inert(str(told.get("message")), limit=500),
        file=inert(file, limit=128) if isinstance(file, str) else None,
        line=_number(told.get("line")),
        column=_number(told.get("column")),
        severity=severity if severity in ("error", "warning") else "note",
    )


def _number(given: object) -> int | None:
    return max(1, min(given, 10**9)) if isinstance(given, int) else None


def _check_imports(wasm: bytes, project: Project) -> None:
    """What AssemblyScript's own library would have of a browser is told as the author knows it."""
    for each in read_module(wasm).imports:
        if each.kind == FUNCTION and each.module == "env":
            why = f"{inert(each.name, limit=128)} is not here: a guest has no browser and no Node round it"
            hint = 'log with info() of "rho"; what else a host gives is asked for with host()'
            raise BuildError(_LANGUAGE, [Diagnostic(why, file=inert(project.name, limit=128))], hint=hint)
