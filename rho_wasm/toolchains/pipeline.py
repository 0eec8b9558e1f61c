"""From source to artifact: read it, run its toolchain, find its manifest, snapshot it, embed, admit, validate."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import anyio
import anyio.to_thread

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.sandbox.abi import WASI, WASI_IMPORTS
from rho_wasm.sandbox.admission import admit
from rho_wasm.sandbox.compile import validate
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.toolchains.assemblyscript import compile_assemblyscript, find_assemblyscript
from rho_wasm.toolchains.binary_reader import check_extent, read_module
from rho_wasm.toolchains.c import compile_c
from rho_wasm.toolchains.c_clang import find_compiler
from rho_wasm.toolchains.c_compiler import c_compiler, find_c, no_choice
from rho_wasm.toolchains.cpp import compile_cpp
from rho_wasm.toolchains.declared import declared_manifest, without_declaration
from rho_wasm.toolchains.engines.shelf import EngineShelf
from rho_wasm.toolchains.engines.spec import Progress, engine_for
from rho_wasm.toolchains.files import read_bounded, read_inside
from rho_wasm.toolchains.go import compile_go, find_go
from rho_wasm.toolchains.image_builder import INTERPRETED, ImageBuilder
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.module_edits import stub_imports
from rho_wasm.toolchains.project import Project, folder_name, main_files, read_folder, read_main
from rho_wasm.toolchains.rust import compile_rust
from rho_wasm.toolchains.rust_compiler import find_rust
from rho_wasm.toolchains.snapshot import initialised
from rho_wasm.toolchains.source_text import Source, read_source
from rho_wasm.toolchains.toolchain import Toolchain
from rho_wasm.toolchains.wat import compile_wat
from rho_wasm.toolchains.zig import compile_zig, find_zig
from rho_wasm.untrusted import inert

__all__ = ["build", "language_of", "languages", "missing", "read_suffixes"]


@dataclass(frozen=True, slots=True)
class _Language:
    suffix: str
    compile: Toolchain
    others: tuple[str, ...] = ()
    """How further files of a folder end, or are called."""
    runtime: bool = False
    """Its runtime imports more of WASI than a guest is given: what it has no use for becomes stubs."""
    snapshot: bool = False
    """Its guests are snapshotted unless that is refused: their start takes long."""
    find: Callable[[], object] | None = None
    """Finds what it needs beside this package, and raises :class:`BuildError` where that is not there. Quick."""


def languages() -> Mapping[str, str]:
    """The languages that :func:`build` knows, each with the suffix of its files."""
    return {name: language.suffix for name, language in _compiled().items()} | dict(INTERPRETED)


_EMBEDDED = (".txt", ".json", ".csv", ".html")
"""Texts of a folder that its sources may embed."""


def _compiled() -> dict[str, _Language]:
    return {
        "c": _Language(".c", compile_c, others=(".h",), find=find_c),
        "cpp": _Language(
            ".cpp",
            compile_cpp,
            others=(".cc", ".cxx", ".hpp", ".h"),
            snapshot=True,
            find=partial(find_compiler, "cpp"),
        ),
        "wat": _Language(".wat", compile_wat),
        "go": _Language(
            ".go",
            compile_go,
            others=("go.mod", ".txt", ".json", ".csv", ".html"),
            runtime=True,
            snapshot=True,
            find=find_go,
        ),
        "zig": _Language(".zig", compile_zig, others=_EMBEDDED, find=find_zig),
        "rust": _Language(".rs", compile_rust, others=_EMBEDDED, find=find_rust),
        "assemblyscript": _Language(
            ".as.ts", compile_assemblyscript, others=(".ts",), snapshot=True, find=find_assemblyscript
        ),
    }


def read_suffixes(language: str | None) -> tuple[str, ...]:
    """How the files of a folder end that can change what it becomes: main files of every language, and what a build in
    ``language`` reads beside its own. None stands for any language.
    """
    compiled = _compiled()
    chosen = [each for name, each in compiled.items() if language in (None, name)]
    others = [suffix for each in chosen for suffix in (*each.others, ".manifest.json")]
    return tuple(sorted({*languages().values(), *others}))


def missing(language: str) -> BuildError | None:
    """Why nothing can be built in ``language`` here, with what to do in ``hint``; None where something can.

    An interpreted language whose engine is still to be made counts as one that can. Raises :class:`BuildError`
    (``language_unknown``).
    """
    name = _choose(None, language)
    try:
        if name in INTERPRETED:
            engine_for(name).read()
        elif (find := _compiled()[name].find) is not None:
            find()
    except BuildError as error:
        return error
    return None


async def build(
    source: Source,
    *,
    language: str | None = None,
    manifest: Manifest | Mapping[str, Any] | None = None,
    trusted: bool = False,
    compiler: str | None = None,
    snapshot: bool | None = None,
    standalone: bool = False,
    limits: BuildLimits | None = None,
    host_limits: HostLimits | None = None,
    engines: EngineShelf | None = None,
    progress: Progress | None = None,
) -> Artifact:
    """Builds one guest and checks that a host would let it in. The same source and manifest give the same bytes.

    ``source`` is the text, its bytes (UTF-8), or a path *as a* :class:`~pathlib.Path`: a str is always text, so that
    nobody's text makes the host read a file. ``language`` follows from a path's suffix, else it must be said.
    A folder is a project: what lies in it and ends as sources do (:func:`rho_wasm.toolchains.project.read_folder`).

    ``manifest`` holds over ``STEM.manifest.json`` beside the source, and that over what the module declares of itself
    (``rho_manifest`` in guest_sdk/ABI.md), which is asked in the sandbox. A build runs in child processes
    bounded by ``limits``, and its module must pass ``host_limits`` (the defaults for both). A C compiler can read
    nothing of the host; where the system cannot promise that, the build is refused unless ``trusted``. ``compiler`` is
    for C: ``clang``, or ``tinycc`` (extra ``tinycc``), which runs in the sandbox itself; None takes clang for a path
    and for a source that is ``trusted``, and TinyCC, if it is installed, for any other text. ``snapshot``
    runs what a compiled guest does in ``_initialize`` now, inside the sandbox, instead of at each call; None leaves it
    to the language.

    Sources in Python, JavaScript and TypeScript declare their tools themselves. They are loaded by an engine of
    ``engines`` (the default shelf), which is made if it is not there: that takes up to a minute. To build several keep
    an :class:`ImageBuilder` open: a build then takes milliseconds. ``standalone`` joins what they become with the
    engine, into one large module that needs no engine on its host. ``progress`` hears of an engine that is made, and of
    the stages of a compiled build.

    Raises :class:`BuildError`, whose ``diagnostics`` have file, line and column (reasons ``build_failed``,
    ``build_timeout``, ``build_memory``, ``build_too_large``, ``build_crashed``, ``build_unavailable``,
    ``source_unreadable``, ``source_too_large``, ``language_unknown``, ``manifest_missing``, ``missing_extra``,
    ``confinement_missing``, ``bad_manifest``, ``snapshot_failed``, ``image_too_large``, ``manifest_differs``,
    ``standalone_already``, ``compiler_unknown``, and those of :class:`EngineShelf`), and :class:`ModuleRejected` for a
    manifest or a module that no host takes.
    """
    path = Path(source) if isinstance(source, os.PathLike) else None
    name = _choose(path, language) if language is not None or path is None else await language_of(path, limits=limits)
    if name in INTERPRETED:
        file: str | None = None
        if path is not None and await anyio.Path(path).is_dir():
            # A tool of an interpreter is one file: what lies beside it is not built.
            file, source = await _main_of(path, name, limits=limits or BuildLimits())
        async with ImageBuilder(shelf=engines, limits=limits, host_limits=host_limits, progress=progress) as builder:
            return await builder.build(source, language=name, manifest=manifest, file=file, standalone=standalone)
    if name != "c":
        no_choice(name, compiler)
    if standalone:
        raise BuildError(
            name, [Diagnostic(f"{name} is compiled: what it becomes stands alone")], reason="standalone_already"
        )
    return await _compile(
        source,
        path,
        name,
        manifest=manifest,
        trusted=trusted,
        compiler=compiler,
        snapshot=snapshot,
        limits=limits or BuildLimits(),
        host_limits=host_limits or HostLimits(),
        tell=progress or _nobody,
    )


def _nobody(stage: str, fraction: float) -> None:
    """Hears of a build that nobody waits for."""


async def _compile(
    source: Source,
    path: Path | None,
    name: str,
    *,
    manifest: Manifest | Mapping[str, Any] | None,
    trusted: bool,
    compiler: str | None,
    snapshot: bool | None,
    limits: BuildLimits,
    host_limits: HostLimits,
    tell: Progress,
) -> Artifact:
    language = _compiled()[name]
    toolchain = c_compiler(compiler, operators=trusted or path is not None) if name == "c" else language.compile
    project = await _read_project(source, path, language, name=name, limits=limits)
    given = await _read_manifest(manifest, path, project, name=name, limits=host_limits)
    tell("compiling", 0.0)
    try:
        built = await toolchain(project, limits=limits, trusted=trusted)
    except OSError as error:
        why = f"the build could not run: {error.strerror or 'a system error'}"
        hint = "see that the temporary folder can be written, has room, and that processes can be started"
        raise BuildError(name, [Diagnostic(why)], reason="build_unavailable", hint=hint) from error
    check_extent(built.wasm, host_limits)
    wasm = await anyio.to_thread.run_sync(_stubbed, built.wasm) if language.runtime else built.wasm
    if given is None:
        tell("asking it for its tools", 0.7)
        wasm, given = await declared_manifest(wasm, language=name, file=project.name, limits=host_limits)
    else:
        wasm = await anyio.to_thread.run_sync(without_declaration, wasm)
    if given is None:
        raise _undeclared(name, f"{Path(project.name).stem}.manifest.json" if path is not None else None)
    if language.snapshot if snapshot is None else snapshot:
        tell("starting it once", 0.8)
        wasm = await _initialised(wasm, name=name)
    wasm = embed(wasm, given)
    tell("checking it", 0.9)
    await _check(wasm, host_limits)
    return Artifact.built(wasm, source=project.reviewed, language=name, toolchain=built.toolchain, log=built.log)


async def _read_project(
    source: Source, path: Path | None, toolchain: _Language, *, name: str, limits: BuildLimits
) -> Project:
    if path is not None and await anyio.Path(path).is_dir():
        return await read_folder(path, language=name, suffixes=(toolchain.suffix, *toolchain.others), limits=limits)
    file = path.name if path is not None else f"source{toolchain.suffix}"
    return Project.of_text(await read_source(source, name=name, file=file, limits=limits), name=file)


def _stubbed(wasm: bytes) -> bytes:
    """``wasm`` with what it imports of WASI and no guest is given made functions that answer ENOSYS."""
    module = read_module(wasm)
    stubs = stub_imports(module, keep=lambda each, _: each.module != WASI or each.name in WASI_IMPORTS)
    return module.encode() if stubs else wasm


async def _initialised(wasm: bytes, *, name: str) -> bytes:
    try:
        return await initialised(wasm)
    except CallFailed as error:
        bound = f" ({error.limit}={error.value})" if error.limit is not None else ""
        why = f"_initialize ended in {error.reason}{bound}: {error.detail}"
        raise BuildError(name, [Diagnostic(why)], reason="snapshot_failed") from None


async def _check(wasm: bytes, limits: HostLimits) -> None:
    """Whether a host would let the module in: all that it asks before it makes native code."""
    admitted = await anyio.to_thread.run_sync(lambda: admit(wasm, limits=limits))
    await validate(admitted.code, names=admitted.names, code_bytes=admitted.code_bytes, limits=limits)


async def language_of(path: Path, *, limits: BuildLimits | None = None) -> str:
    """The language of a file, by its suffix; of a folder, by its main file.

    Raises :class:`BuildError`: ``language_unknown``, also where a folder may be a project in several, and what
    :func:`rho_wasm.toolchains.project.main_files` raises.
    """
    if not await anyio.Path(path).is_dir():
        return _choose(path, None)
    found = await main_files(path, languages(), limits=limits or BuildLimits())
    if len(found) == 1:
        return next(iter(found))
    several = ", ".join(f"{inert(file, limit=128)} ({name})" for name, file in found.items())
    own = inert(folder_name(path), limit=64)
    if found:
        what = f"it may be a project in several languages: {several}; name the file of one, or say the language"
    else:
        what = f"none of its files is the main one: call it {own} or main, with the suffix of its language"
    raise _unknown(what, folder_name(path))


async def _main_of(folder: Path, language: str, *, limits: BuildLimits) -> tuple[str, bytes]:
    """What the main file is called, without its folder, and what it holds."""
    found = await read_main(folder, language=language, suffix=languages()[language], limits=limits)
    if found is None:
        raise _unknown(f"it has no main file in {language}", folder_name(folder))
    return PurePosixPath(found[0]).name, found[1]


def _choose(path: Path | None, language: str | None) -> str:
    known = languages()
    if language is None and path is not None:
        # The longest: a language may end its files in the suffix of another.
        by_length = sorted(known.items(), key=lambda item: -len(item[1]))
        language = next((name for name, suffix in by_length if path.name.endswith(suffix)), None)
    if language is not None and language in known:
        return language
    what = "no language was given" if language is None else f"{inert(language, limit=64)} is no language known here"
    raise _unknown(what, path.name if path is not None else None)


def _unknown(what: str, file: str | None) -> BuildError:
    names = ", ".join(f"{name} ({suffix})" for name, suffix in languages().items())
    return BuildError(
        "build",
        [Diagnostic(what, file=inert(file, limit=128) if file is not None else None)],
        reason="language_unknown",
        hint=f"say one of {names} with language= (--language); to build a file give a pathlib.Path",
    )


async def _read_manifest(
    manifest: Manifest | Mapping[str, Any] | None,
    path: Path | None,
    project: Project,
    *,
    name: str,
    limits: HostLimits,
) -> Manifest | None:
    """What the author gives beside the source. None where there is nothing."""
    if manifest is None and path is not None:
        text = await _read_beside(path, project, name=name, limits=limits)
        manifest = Manifest.from_json(text, limits=limits) if text is not None else None
    if manifest is None:
        return None
    if not isinstance(manifest, Manifest):
        manifest = Manifest.from_json(manifest, limits=limits)
    return manifest if manifest.language is not None else manifest.model_copy(update={"language": name})


async def _read_beside(path: Path, project: Project, *, name: str, limits: HostLimits) -> str | None:
    is_folder = await anyio.Path(path).is_dir()
    main = PurePosixPath(project.main if is_folder else path.name)
    beside = main.with_name(f"{main.stem}.manifest.json")
    # White space and escapes make JSON longer than the manifest that it becomes, but not without bound.
    bound = 16 * limits.manifest_bytes
    try:
        if is_folder:
            data = await anyio.to_thread.run_sync(read_inside, path, str(beside), bound)
        else:
            data = await anyio.to_thread.run_sync(read_bounded, path.with_name(beside.name), bound)
        return data.decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise _undeclared(name, beside.name, "cannot be read as UTF-8 text") from None
    except OSError as error:
        why = f"the manifest cannot be read: {error.strerror or error}"
        raise BuildError(
            name, [Diagnostic(why, file=inert(str(beside), limit=128))], reason="source_unreadable"
        ) from None


_DECLARED_BY = {
    "c": "RHO_GUEST(RHO_TOOL(...))",
    "cpp": "RHO_GUEST(rho::tool(...))",
    "zig": "pub const tools = [_]rho.Tool{rho.tool(...)}",
    "rust": "rho::tools![...]",
    "go": "rho.Tool(...) in main",
    "assemblyscript": "tool(...).handle(...)",
}
"""What an author forgot who declared nothing."""


def _undeclared(language: str, file: str | None, why: str = "is missing") -> BuildError:
    forgotten = _DECLARED_BY.get(language)
    declare = f"declare the tools in the source, with {forgotten}; or " if forgotten is not None else ""
    return BuildError(
        language,
        [Diagnostic(f"the manifest {why}", file=inert(file, limit=128) if file is not None else None)],
        reason="manifest_missing",
        hint=f"{declare}say what they are with manifest=, --manifest FILE, or STEM.manifest.json beside the source",
    )
