"""``inspect``: what a module is, without running or compiling anything of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import anyio
import typer

from rho_wasm import wasm
from rho_wasm.cli.options import JsonOption, is_source, read_bytes
from rho_wasm.cli.output import REFUSED, WORKED, Output, UsageProblem
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import MIB, HostLimits
from rho_wasm.plain import jsonable
from rho_wasm.sandbox.abi import IMAGE_MEMORY, IMAGE_MODULE, PAGE_BYTES
from rho_wasm.sandbox.admission import Admitted, admit
from rho_wasm.sandbox.admission_engine import claimed_engine
from rho_wasm.sandbox.admission_image import AdmittedImage, admit_image, is_image
from rho_wasm.sandbox.admission_module import DATA
from rho_wasm.sandbox.compile import validate
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.toolchains import EngineShelf
from rho_wasm.untrusted import inert

__all__ = ["add_to"]

# By their ids, https://webassembly.github.io/spec/core/binary/modules.html#sections
_SECTIONS = (
    *("custom", "type", "import", "function", "table", "memory", "global"),
    *("export", "start", "element", "code", "data", "data_count", "tag"),
)


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
    sizes = section_sizes(data)
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
    manifest = artifact.manifest
    imports, exports = (looked.imports, looked.exports) if looked else ([], [])
    told: dict[str, Any] = artifact.as_json() | {
        "manifest": jsonable(manifest.as_plain()),
        "sections": [{"name": name, "bytes": size} for name, size in sizes],
        "imports": imports,
        "exports": exports,
        "memory_min_bytes": looked.memory_bytes if looked else None,
        "image": looked.image if looked else None,
        "accepted": problem is None,
    }
    if problem is not None:
        told["error"] = problem.as_json()
    output.object(told)
    output.say(f"{module}  {len(data):,} bytes", style="bold")
    output.say(f"sha256 {artifact.sha256}", style="dim")
    output.say(f"language {manifest.language or 'not said'}, capabilities {', '.join(manifest.capabilities) or 'none'}")
    for tool in manifest.tools:
        output.say(f"  {tool.name}: ", tool.description.splitlines()[0] if tool.description else "", style="green")
        for name, schema in tool.input_schema.get("properties", {}).items():
            kind = schema.get("type", "any") if isinstance(schema, dict) else "any"
            required = "required" if name in tool.input_schema.get("required", ()) else "optional"
            output.say(f"      {name}: {kind}, {required}")
        output.say(f"      {len(tool.examples)} examples", style="dim")
    output.table(["section", "bytes"], [(name, f"{size:,}") for name, size in sizes])
    if looked is not None and problem is None:
        output.say("imports  ", ", ".join(imports) or "none")
        output.say("exports  ", ", ".join(exports) or "none")
        output.say(f"memory   {looked.memory_bytes:,} bytes at the start")
        if (image := looked.image) is not None:
            where = f"in {image['segments']} segments, on {image['pages_4k']} pages of 4 KiB"
            output.say(f"image    {image['bytes']:,} bytes {where}")
            output.say(f"engine   {image['engine'][:12]}  {image['engine_name'] or 'not installed here'}")
            if image["engine_name"] is None:
                output.say("         rho-wasm engines install, or build the tool again here", style="yellow")
        engine = f" that has the engine {manifest.engine.hex()[:12]}" if manifest.engine is not None else ""
        output.say(f"a host{engine} would take it", style="green")
        return WORKED
    assert problem is not None
    return REFUSED if as_json else output.error(problem)


class _Looked(NamedTuple):
    imports: list[str]
    exports: list[str]
    memory_bytes: int
    guest: Admitted | None = None
    """None for an image, of which nothing is compiled."""
    image: dict[str, Any] | None = None
    """Of an image alone: its engine, and what of that engine's memory it is."""


def _look(data: bytes) -> _Looked:
    """What admission sees. Raises :class:`ModuleRejected`."""
    if is_image(data):
        admitted = admit_image(data)
        memory = admitted.image.pages * PAGE_BYTES
        return _Looked([f"{IMAGE_MODULE}.{IMAGE_MEMORY}"], [], memory, image=_image(admitted, data))
    found = admit(data, engine=_installed_engine(data))
    imports = sorted(f"{module}.{name}" for module, name in found.imports)
    return _Looked(imports, sorted(found.exports), found.memory_min_bytes, found)


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


def section_sizes(module: bytes) -> list[tuple[str, int]]:
    """The sections in their order, by name, with their sizes in bytes."""
    found = []
    for section in wasm.sections(module):
        name = _SECTIONS[section.id] if section.id < len(_SECTIONS) else f"section {section.id}"
        if section.id == 0:
            name = "custom " + inert(section.reader(module).name(max_bytes=1024), limit=64)
        found.append((name, section.end - section.start))
    return found


def add_to(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("inspect")(inspect_file)
