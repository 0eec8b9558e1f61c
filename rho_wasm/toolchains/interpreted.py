"""A source of an interpreted language becomes an image: it is loaded inside the sandbox, and its memory is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import anyio.to_thread

from rho_wasm import plain
from rho_wasm.errors import BuildError, Diagnostic, ToolError
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.admission_image import admit_image
from rho_wasm.sandbox.images import EngineBinary, LoadedSource
from rho_wasm.toolchains.image import touched_pages, write_image
from rho_wasm.toolchains.load_reply import manifest_of
from rho_wasm.trace_lines import innermost_line, source_lines
from rho_wasm.untrusted import inert

__all__ = ["SourceImage", "image_of"]

_REASONS = {
    "out_of_fuel": "build_timeout",
    "deadline": "build_timeout",
    "out_of_memory": "build_memory",
    "invalid_arguments": "source_too_large",
    "overloaded": "build_unavailable",
    "capability_fault": "build_unavailable",
}


@dataclass(frozen=True, slots=True)
class SourceImage:
    """An image and what it declares."""

    wasm: bytes = field(repr=False)
    manifest: Manifest


async def image_of(
    sandbox: Sandbox,
    engine: EngineBinary,
    source: str,
    *,
    file: str,
    language: str,
    limits: HostLimits,
    extensions: Mapping[str, str] = MappingProxyType({}),
) -> SourceImage:
    """The image of ``source`` over ``engine``. The same source, file and engine give the same bytes.

    ``extensions`` are the host's own words in the manifest.

    Raises :class:`BuildError`: ``build_failed`` for a source that is wrong (file, line, column, text),
    ``build_timeout`` and ``build_memory`` for one whose loading costs too much, ``image_too_large``, ``bad_reply``,
    ``build_unavailable``; and :class:`rho_wasm.errors.ModuleRejected` for tools that no host takes.
    """
    request = plain.encode({"source": source, "file": file}, max_bytes=len(source) * 4 + 4_096)
    try:
        loaded = await sandbox.load_source(engine, request)
    except ToolError as error:
        raise _not_loaded(error, language=language, file=file, lines=len(source_lines(source))) from error
    except BuildError as error:
        # The sandbox knows neither: it names the engine.
        named = [replace(each, file=inert(file, limit=128)) for each in error.diagnostics]
        raise BuildError(language, named, reason=error.reason, hint=error.hint) from None
    return await anyio.to_thread.run_sync(
        lambda: _written(loaded, engine, file=file, language=language, limits=limits, extensions=extensions)
    )


def _written(
    loaded: LoadedSource,
    engine: EngineBinary,
    *,
    file: str,
    language: str,
    limits: HostLimits,
    extensions: Mapping[str, str],
) -> SourceImage:
    manifest = manifest_of(
        loaded.reply, language=language, file=file, engine=engine.sha256, extensions=extensions, limits=limits
    )
    wasm = write_image(
        engine=engine.wasm,
        pages=loaded.pages,
        changes=loaded.changes,
        manifest=manifest,
        limits=limits,
        touched=touched_pages(engine.wasm),
    )
    admit_image(wasm, limits=limits)
    return SourceImage(wasm, manifest)


def _not_loaded(error: ToolError, *, language: str, file: str, lines: int) -> BuildError:
    bound = f" ({error.limit}={error.value})" if error.limit is not None else ""
    why = f"loading it ended in {error.reason}{bound}"
    detail = f": {inert(error.detail, limit=500)}" if error.detail else ""
    line = innermost_line(error.backtrace, lines=lines)
    return BuildError(
        language,
        [Diagnostic(why + detail, file=inert(file, limit=128), line=line)],
        reason=_REASONS.get(error.reason, "build_failed"),
        hint="what a file does when it is loaded must be short: work belongs into the tool's function",
    )
