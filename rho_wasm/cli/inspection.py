"""``inspect``: what a module is, without running or compiling anything of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import anyio
import typer

from rho_wasm import wasm
from rho_wasm.cli.declared_tools import misnamed_capabilities, show_capabilities, show_tools
from rho_wasm.cli.module_view import ModuleView, view
from rho_wasm.cli.options import JsonOption, is_source, read_bytes
from rho_wasm.cli.output import REFUSED, WORKED, Output, UsageProblem
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import MIB, HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.plain import jsonable
from rho_wasm.sandbox.abi import ENGINE_EXTENSION, PAGE_BYTES
from rho_wasm.sandbox.admission import Admitted, admit
from rho_wasm.sandbox.admission_engine import claimed_engine
from rho_wasm.sandbox.admission_image import AdmittedImage, admit_image, is_image
from rho_wasm.sandbox.admission_module import DATA
from rho_wasm.sandbox.compile import validate
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.toolchains import EngineShelf
from rho_wasm.untrusted import inert

__all__ = ["add_to"]

_SHOWN_FUNCTIONS = 10
"""``--json`` has twice as many."""


def inspect_file(
    module: Annotated[Path, typer.Argument(metavar="OUT.wasm", help="A built module.")],
    as_json: JsonOption = False,
) -> int:
    """Say what a module is, without running or compiling it, and whether a host would take it (else exit code 3)."""
    output = Output(as_json=as_json)
    if is_source(module):
        raise UsageProblem(f"{module}: is a source; inspect what it becomes: rho-wasm build {module}")
    data = read_bytes(module, limit=64 * MIB)
    artifact = Artifact.from_wasm(data)
    seen = view(data)
    problem: ModuleRejected | None = None
    looked: _Looked | None = None
    try:
        looked = _look(data)
        if (found := looked.guest) is not None:
            limits = HostLimits().for_engines() if found.standalone else HostLimits()
            code, names = found.code, found.names
            anyio.run(lambda: validate(code, names=names, code_bytes=found.code_bytes, limits=limits))
    except ModuleRejected as error:
        problem = error
    told: dict[str, Any] = artifact.as_json() | {
        "manifest": jsonable(artifact.manifest.as_plain()),
        **seen.as_json(),
        "image": looked.image if looked else None,
        "standalone_of": _standalone_of(artifact.manifest) if looked and looked.standalone else None,
        "accepted": problem is None,
        "warnings": misnamed_capabilities(artifact.manifest),
    }
    if looked is not None and looked.image is not None:
        told["memory_min_bytes"] = looked.memory_bytes
    if problem is not None:
        told["error"] = problem.as_json()
    output.object(told)
    output.say(f"{module}  {len(data):,} bytes", style="bold")
    output.say(f"sha256 {artifact.sha256}", style="dim")
    output.say(f"language {artifact.manifest.language or 'not said'}")
    show_capabilities(output, artifact.manifest)
    show_tools(output, artifact.manifest)
    _show_sizes(output, seen)
    output.say("imports  ", ", ".join(seen.imports) or "none")
    output.say("exports  ", ", ".join(name for name, _ in seen.exports) or "none")
    if problem is not None:
        return REFUSED if as_json else output.error(problem)
    assert looked is not None
    if looked.image is None:
        most = f"at most {seen.memory_max_bytes:,}" if seen.memory_max_bytes is not None else "no bound of its own"
        output.say(f"memory   {looked.memory_bytes:,} bytes at the start, {most}")
    else:
        output.say(f"memory   {looked.memory_bytes:,} bytes at the start")
    _show_engine(output, looked, artifact.manifest)
    return WORKED


def _show_sizes(output: Output, seen: ModuleView) -> None:
    output.table(["section", "bytes"], [(name, f"{size:,}") for name, size in seen.sections])
    if not seen.largest:
        return
    output.table(
        ["function", "name", "bytes"],
        [(str(each.function), each.name or "", f"{each.size:,}") for each in seen.largest[:_SHOWN_FUNCTIONS]],
        title=f"the largest of {seen.function_count:,} functions",
    )


def _show_engine(output: Output, looked: _Looked, manifest: Manifest) -> None:
    """Whose engine it needs, or has in it; and that a host would take it."""
    if (image := looked.image) is not None:
        where = f"in {image['segments']} segments, on {image['pages_4k']} pages of 4 KiB"
        output.say(f"image    {image['bytes']:,} bytes {where}")
        output.say(f"engine   {image['engine'][:12]}  {image['engine_name'] or 'not installed here'}")
        if image["engine_name"] is None:
            output.say("         rho-wasm engines install, or build the tool again here", style="yellow")
    elif looked.standalone:
        output.say(f"engine   {(_standalone_of(manifest) or '')[:12]}, which it has in it: it stands alone")
    else:
        output.say("engine   none: it stands alone")
    engine = f" that has the engine {manifest.engine.hex()[:12]}" if manifest.engine is not None else ""
    output.say(f"a host{engine} would take it", style="green")


def _standalone_of(manifest: Manifest) -> str | None:
    """The SHA-256 of the engine that a standalone module has in it."""
    named = (manifest.extensions or {}).get(ENGINE_EXTENSION)
    return named.hex() if isinstance(named, bytes) else inert(str(named), limit=64) if named is not None else None


class _Looked(NamedTuple):
    memory_bytes: int
    guest: Admitted | None = None
    """None for an image, of which nothing is compiled."""
    image: dict[str, Any] | None = None
    """Of an image alone: its engine, and what of that engine's memory it is."""
    standalone: bool = False
    """It has an installed engine in it."""


def _look(data: bytes) -> _Looked:
    """What admission sees. Raises :class:`ModuleRejected`."""
    if is_image(data):
        admitted = admit_image(data)
        memory = admitted.image.pages * PAGE_BYTES
        return _Looked(memory, image=_image(admitted, data))
    found = admit(data, engine=_installed_engine(data))
    return _Looked(found.memory_min_bytes, found, standalone=found.standalone)


def _image(admitted: AdmittedImage, data: bytes) -> dict[str, Any]:
    engine = admitted.engine.hex()
    contents = next((section for section in wasm.sections(data) if section.id == DATA), None)
    return {
        "engine": engine,
        "engine_name": next((each.title for each in EngineShelf.default().list() if each.sha256 == engine), None),
        "memory_pages": admitted.image.pages,
        "segments": contents.reader(data).u32() if contents is not None else 0,
        "bytes": admitted.image.size,
        "pages_4k": admitted.image.touched,
    }


def _installed_engine(data: bytes) -> EngineBinary | None:
    """The one that the module claims to have in it."""
    claimed = claimed_engine(data, limits=HostLimits())
    return EngineShelf.default().find(claimed) if claimed is not None else None


def add_to(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("inspect")(inspect_file)
