"""Builds tools written in interpreted languages, with an interpreter that is kept warm between builds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import anyio.to_thread

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError, Closed, Diagnostic
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.toolchains.engines.shelf import EngineShelf
from rho_wasm.toolchains.engines.spec import EngineSpec, Prepared, Progress, engine_for
from rho_wasm.toolchains.interpreted import image_of
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.source_text import Source, read_source
from rho_wasm.toolchains.standalone import standalone as join
from rho_wasm.untrusted import inert, unsafe_characters

__all__ = ["INTERPRETED", "ImageBuilder"]

INTERPRETED: Mapping[str, str] = MappingProxyType({"python": ".py", "javascript": ".js", "typescript": ".ts"})
"""The languages, each with the suffix of its files."""

_FILE_KEY = "rho_wasm.file"
"""In a manifest's ``extensions``: what the source's file was called. Tracebacks name it, so it is in the image."""
_FILE_CHARS = 128


class ImageBuilder:
    """Builds images, each in milliseconds once the engine is loaded. An async context manager, for one event loop.

    ``shelf`` has the engines (the default one), and makes what is missing at the first build, which takes seconds to a
    minute: ``progress`` hears of it. ``sandbox`` is used and stays open; without one it opens its own. ``limits`` are
    of a source, ``host_limits`` what an image must pass. ``specs`` are the engines that there are. Without ``install``
    an engine that is not there is no engine (:class:`BuildError`, ``engine_missing``).
    """

    def __init__(
        self,
        *,
        shelf: EngineShelf | None = None,
        sandbox: Sandbox | None = None,
        limits: BuildLimits | None = None,
        host_limits: HostLimits | None = None,
        specs: Sequence[EngineSpec] | None = None,
        progress: Progress | None = None,
        install: bool = True,
    ) -> None:
        self._shelf = shelf or EngineShelf.default()
        self._given = sandbox
        self._sandbox: Sandbox | None = None
        self._limits = limits or BuildLimits()
        self._host_limits = host_limits or (sandbox.limits if sandbox is not None else HostLimits())
        self._specs = specs
        self._progress = progress
        self._install = install
        self._engines: dict[str, EngineBinary] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._sandbox = self._given or await self._stack.enter_async_context(
            Sandbox(limits=self._host_limits, cache=self._shelf.cache)
        )
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._sandbox = None
        await self._stack.aclose()

    async def build(
        self,
        source: Source,
        *,
        language: str,
        manifest: Manifest | Mapping[str, Any] | None = None,
        file: str | None = None,
        standalone: bool = False,
    ) -> Artifact:
        """The artifact of ``source``. The same source, file name and engine give the same bytes.

        ``file`` is what the author calls a source that is given as its text; a path has a name. ``standalone`` joins
        the image and its engine into one module, which any host of the ABI can run.

        The tools are declared in the source. A ``manifest`` that is given beside it must say the same, but may have
        further examples after those of the source, and say in ``extensions`` what the file was called. Raises as
        :func:`rho_wasm.toolchains.build` does.
        """
        if self._sandbox is None:
            raise Closed("the image builder")
        spec = self._spec(language)
        expected = self._expected(manifest)
        file = _file_name(source, file, expected) or _default_name(language)
        text = await read_source(source, name=language, file=file, limits=self._limits)
        prepared = Prepared(text, file) if spec.prepare is None else await spec.prepare(text, file, language)
        engine = await self._engine(spec)
        made = await image_of(
            self._sandbox,
            engine,
            prepared.text,
            file=prepared.file,
            language=language,
            limits=self._host_limits,
            extensions={} if file == _default_name(language) else {_FILE_KEY: file},
        )
        told = made.manifest if expected is None else _with_examples(made.manifest, expected)
        if told is None:
            raise BuildError(
                language,
                [Diagnostic("the manifest beside it does not say what the source says", file=inert(file, limit=128))],
                reason="manifest_differs",
                hint=f"leave the manifest out: a {language} source declares its tools itself",
            )
        wasm = made.wasm if told == made.manifest else embed(made.wasm, told)
        if standalone:
            wasm = await anyio.to_thread.run_sync(partial(join, wasm, engine.wasm, limits=self._host_limits))
        return Artifact.built(wasm, source=text, language=language, toolchain=spec.title)

    async def engine(self, language: str) -> EngineBinary:
        """The engine of a language, made if it is not there. Raises as ``EngineShelf.install`` does."""
        return await self._engine(self._spec(language))

    async def _engine(self, spec: EngineSpec) -> EngineBinary:
        engine = self._engines.get(spec.name) or await anyio.to_thread.run_sync(self._shelf.find_made, spec)
        if engine is None and not self._install:
            raise BuildError(
                spec.languages[0],
                [Diagnostic(f"the engine {spec.title} is not installed")],
                reason="engine_missing",
                hint=f"rho-wasm engines install {spec.name}",
            )
        self._engines[spec.name] = engine or await self._shelf.install(spec, progress=self._progress)
        return self._engines[spec.name]

    def _spec(self, language: str) -> EngineSpec:
        if self._specs is None:
            return engine_for(language)
        return next(spec for spec in self._specs if language in spec.languages)

    def _expected(self, manifest: Manifest | Mapping[str, Any] | None) -> Manifest | None:
        if manifest is None or isinstance(manifest, Manifest):
            return manifest
        return Manifest.from_json(manifest, limits=self._host_limits)


def _default_name(language: str) -> str:
    return f"tool{INTERPRETED[language]}"


def _file_name(source: Source, given: str | None, expected: Manifest | None) -> str | None:
    """What the author calls the file: one line without a folder. None where that is not known."""
    if isinstance(source, os.PathLike):
        name: Any = Path(source).name
    elif given is not None:
        name = given
    else:
        name = (expected.extensions or {}).get(_FILE_KEY) if expected is not None else None
    if type(name) is str and 0 < len(name) <= _FILE_CHARS and name.isprintable() and unsafe_characters(name) is None:
        return name.replace("/", "_")
    return None


def _with_examples(own: Manifest, given: Manifest) -> Manifest | None:
    """``own`` with the examples that ``given`` has beyond its own; None where that says something else."""
    tools = []
    for tool in own.tools:
        beside = given.tool(tool.name)
        examples = () if beside is None else beside.examples
        if examples[: len(tool.examples)] != tool.examples:
            return None
        tools.append(tool.model_copy(update={"examples": examples}))
    told = own.model_copy(update={"tools": tuple(tools)})
    return told if _declared(told) == _declared(given) else None


def _declared(manifest: Manifest) -> Manifest:
    return manifest.model_copy(update={"engine": None, "language": None, "extensions": None})
