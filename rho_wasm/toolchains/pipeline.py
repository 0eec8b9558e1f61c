"""From source to artifact: read it, find its manifest, run its toolchain, embed, admit, validate."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.sandbox.admission import admit
from rho_wasm.sandbox.compile import validate
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.toolchains.c import compile_c
from rho_wasm.toolchains.engines.shelf import EngineShelf
from rho_wasm.toolchains.engines.spec import Progress
from rho_wasm.toolchains.files import read_bounded
from rho_wasm.toolchains.image_builder import INTERPRETED, ImageBuilder
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project, read_folder
from rho_wasm.toolchains.snapshot import initialised
from rho_wasm.toolchains.source_text import Source, read_source
from rho_wasm.toolchains.toolchain import Toolchain
from rho_wasm.toolchains.wat import compile_wat
from rho_wasm.untrusted import inert

__all__ = ["build", "languages"]


@dataclass(frozen=True, slots=True)
class _Language:
    suffix: str
    compile: Toolchain
    others: tuple[str, ...] = ()
    """How further files of a folder end, or are called."""


def languages() -> Mapping[str, str]:
    """The languages that :func:`build` knows, each with the suffix of its files."""
    return {name: language.suffix for name, language in _compiled().items()} | dict(INTERPRETED)


def _compiled() -> dict[str, _Language]:
    return {"c": _Language(".c", compile_c), "wat": _Language(".wat", compile_wat)}


async def build(
    source: Source,
    *,
    language: str | None = None,
    manifest: Manifest | Mapping[str, Any] | None = None,
    trusted: bool = False,
    snapshot: bool = False,
    standalone: bool = False,
    limits: BuildLimits | None = None,
    host_limits: HostLimits | None = None,
    engines: EngineShelf | None = None,
    progress: Progress | None = None,
) -> Artifact:
    """Builds one guest and checks that a host would let it in. The same source and manifest give the same bytes.

    ``source`` is the text, its bytes (UTF-8), or a path *as a* :class:`~pathlib.Path`: a str is always text, so that
    nobody's text makes the host read a file. ``language`` follows from a path's suffix, else it must be said.
    ``manifest`` may be left out for a path with ``STEM.manifest.json`` beside it. A build runs in child processes
    bounded by ``limits``, and its module must pass ``host_limits`` (the defaults for both). A C compiler can read
    nothing of the host; where the system cannot promise that, the build is refused unless ``trusted``. ``snapshot``
    runs what a compiled guest does in ``_initialize`` now, inside the sandbox, instead of at each call.

    Sources in Python, JavaScript and TypeScript declare their tools themselves. They are loaded by an engine of
    ``engines`` (the default shelf), which is made if it is not there: that takes up to a minute, and ``progress``
    hears of it. To build several keep an :class:`ImageBuilder` open: a build then takes milliseconds. ``standalone``
    joins what they become with the engine, into one large module that needs no engine on its host.

    Raises :class:`BuildError`, whose ``diagnostics`` have file, line and column (reasons ``build_failed``,
    ``build_timeout``, ``build_memory``, ``build_too_large``, ``build_crashed``, ``build_unavailable``,
    ``source_unreadable``, ``source_too_large``, ``language_unknown``, ``manifest_missing``, ``missing_extra``,
    ``confinement_missing``, ``snapshot_failed``, ``image_too_large``, ``manifest_differs``, ``standalone_already``, and
    those of :class:`EngineShelf`), and :class:`ModuleRejected` for a manifest or a module that no host takes.
    """
    path = Path(source) if isinstance(source, os.PathLike) else None
    name = _choose(path, language)
    if name in INTERPRETED:
        async with ImageBuilder(shelf=engines, limits=limits, host_limits=host_limits, progress=progress) as builder:
            return await builder.build(source, language=name, manifest=manifest, standalone=standalone)
    if standalone:
        raise BuildError(
            name, [Diagnostic(f"{name} is compiled: what it becomes stands alone")], reason="standalone_already"
        )
    limits = limits or BuildLimits()
    toolchain = _compiled()[name]
    project = await _read_project(source, path, toolchain, name=name, limits=limits)
    declared = await _read_manifest(manifest, path, project, name=name, host_limits=host_limits)
    try:
        built = await toolchain.compile(project, limits=limits, trusted=trusted)
    except OSError as error:
        why = f"the build could not run: {error.strerror or 'a system error'}"
        hint = "see that the temporary folder can be written, has room, and that processes can be started"
        raise BuildError(name, [Diagnostic(why)], reason="build_unavailable", hint=hint) from error
    wasm = embed(await _initialised(built.wasm, name=name) if snapshot else built.wasm, declared)
    await _check(wasm, host_limits or HostLimits())
    return Artifact.built(wasm, source=project.reviewed, language=name, toolchain=built.toolchain, log=built.log)


async def _read_project(
    source: Source, path: Path | None, toolchain: _Language, *, name: str, limits: BuildLimits
) -> Project:
    if path is not None and await anyio.Path(path).is_dir():
        return await read_folder(path, language=name, suffixes=(toolchain.suffix, *toolchain.others), limits=limits)
    file = path.name if path is not None else f"source{toolchain.suffix}"
    return Project.of_text(await read_source(source, name=name, file=file, limits=limits), name=file)


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


def _choose(path: Path | None, language: str | None) -> str:
    known = languages()
    if language is None and path is not None:
        language = next((name for name, suffix in known.items() if suffix == path.suffix), None)
    if language is not None and language in known:
        return language
    names = ", ".join(f"{name} ({suffix})" for name, suffix in known.items())
    what = "no language was given" if language is None else f"{inert(language, limit=64)} is no language known here"
    raise BuildError(
        "build",
        [Diagnostic(what, file=inert(path.name, limit=128) if path is not None else None)],
        reason="language_unknown",
        hint=f"say one of {names} with language=; to build a file give a pathlib.Path",
    )


async def _read_manifest(
    manifest: Manifest | Mapping[str, Any] | None,
    path: Path | None,
    project: Project,
    *,
    name: str,
    host_limits: HostLimits | None,
) -> Manifest:
    limits = host_limits or HostLimits()
    if manifest is None:
        main = path / project.main if path is not None and await anyio.Path(path).is_dir() else path
        beside = main.with_name(f"{main.stem}.manifest.json") if main is not None else None
        manifest = Manifest.from_json(await _read_beside(beside, name=name, limits=limits), limits=limits)
    elif not isinstance(manifest, Manifest):
        manifest = Manifest.from_json(manifest, limits=limits)
    return manifest if manifest.language is not None else manifest.model_copy(update={"language": name})


async def _read_beside(path: Path | None, *, name: str, limits: HostLimits) -> str:
    # White space and escapes make JSON longer than the manifest that it becomes, but not without bound.
    bound = 16 * limits.manifest_bytes
    try:
        if path is None:
            raise FileNotFoundError
        return (await anyio.to_thread.run_sync(read_bounded, path, bound)).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read as UTF-8 text"
        raise BuildError(
            name,
            [Diagnostic(f"the manifest {why}", file=inert(path.name, limit=128) if path is not None else None)],
            reason="manifest_missing",
            hint="say what tools the module has: manifest=, --manifest FILE, or STEM.manifest.json beside the source",
        ) from None
