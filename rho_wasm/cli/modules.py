"""Verbs about files: ``build``, ``inspect``, ``call``."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import anyio
import typer

from rho_wasm import wasm
from rho_wasm.calls import ToolCall
from rho_wasm.cli.options import (
    JsonOption,
    PolicyOption,
    StoreOption,
    TrustedOption,
    artifact_of,
    parse_arguments,
    policy_of,
    read_bytes,
)
from rho_wasm.cli.output import Output, UsageProblem
from rho_wasm.cli.progress import engine_progress
from rho_wasm.cli.results import show_result
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.strikes import Quarantine
from rho_wasm.errors import Corrupt, ModuleRejected, StoreError
from rho_wasm.events import Event, GenerationSwitched, StrikeCounted, ToolQuarantined
from rho_wasm.host import Host
from rho_wasm.limits import MIB, HostLimits
from rho_wasm.offered import ToolSnapshot
from rho_wasm.plain import jsonable
from rho_wasm.results import ToolResult
from rho_wasm.sandbox.abi import IMAGE_MEMORY, IMAGE_MODULE, PAGE_BYTES
from rho_wasm.sandbox.admission import Admitted, admit
from rho_wasm.sandbox.admission_engine import claimed_engine, has_code_of
from rho_wasm.sandbox.admission_image import admit_image, is_image
from rho_wasm.sandbox.compile import validate
from rho_wasm.toolchains import EngineShelf
from rho_wasm.untrusted import inert

__all__ = ["add_to"]

DEFAULT_STORE = Path(".rho")

# By their ids, https://webassembly.github.io/spec/core/binary/modules.html#sections
_SECTIONS = (
    *("custom", "type", "import", "function", "table", "memory", "global"),
    *("export", "start", "element", "code", "data", "data_count", "tag"),
)


def build_file(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A source file: .wat, .c, .py, .js or .ts.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="OUT.wasm", help="Default: SRC with .wasm.")
    ] = None,
    language: Annotated[str | None, typer.Option("--language", metavar="L", help="Default: by the suffix.")] = None,
    manifest: Annotated[
        Path | None, typer.Option("--manifest", metavar="FILE", help="Default: STEM.manifest.json beside SRC.")
    ] = None,
    trusted: TrustedOption = False,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Put the interpreter of a Python or JavaScript tool into the module.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Build a source into a module with its manifest inside."""
    output = Output(as_json=as_json)
    if language is None and source.suffix == ".wasm":
        raise UsageProblem(f"{source}: is a module already; build takes a source")
    target = out or source.with_suffix(".wasm")
    began = time.monotonic()
    with engine_progress(output, "making the engine") as tell:
        artifact = anyio.run(
            lambda: artifact_of(
                source,
                language=language,
                manifest=manifest,
                trusted=trusted,
                standalone=standalone,
                progress=tell,
            )
        )
    seconds = time.monotonic() - began
    write_whole(target, artifact.wasm)
    output.object(artifact.as_json() | {"file": str(target), "build_ms": round(seconds * 1000), "log": artifact.log})
    output.say(f"{target}  {len(artifact.wasm):,} bytes  {seconds * 1000:.0f} ms  {artifact.toolchain}")
    output.say(f"sha256 {artifact.sha256}", style="dim")
    for tool in artifact.manifest.tools:
        output.say(f"  {tool.name}: ", tool.description.splitlines()[0] if tool.description else "")
    return 0


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all. Raises :class:`UsageProblem`, or :class:`StoreError` for a full disk."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise StoreError(f"cannot be written: {error.strerror}", path=str(path), reason="disk_full") from None
        raise UsageProblem(f"{path}: cannot be written: {error.strerror or error}") from None


def inspect_file(
    module: Annotated[Path, typer.Argument(metavar="OUT.wasm", help="A built module.")],
    as_json: JsonOption = False,
) -> int:
    """Say what a module is, without running or compiling it, and whether a host would take it (else exit code 3)."""
    output = Output(as_json=as_json)
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
        engine = f" that has the engine {manifest.engine.hex()[:12]}" if manifest.engine is not None else ""
        output.say(f"a host{engine} would take it", style="green")
        return 0
    assert problem is not None
    return 3 if as_json else output.error(problem)


class _Looked(NamedTuple):
    imports: list[str]
    exports: list[str]
    memory_bytes: int
    guest: Admitted | None = None
    """None for an image, of which nothing is compiled."""


def _look(data: bytes) -> _Looked:
    """What admission sees. Raises :class:`ModuleRejected`."""
    if is_image(data):
        image = admit_image(data).image
        return _Looked([f"{IMAGE_MODULE}.{IMAGE_MEMORY}"], [], image.pages * PAGE_BYTES)
    found = admit(data, standalone=_has_installed_engine(data))
    imports = sorted(f"{module}.{name}" for module, name in found.imports)
    return _Looked(imports, sorted(found.exports), found.memory_min_bytes, found)


def _has_installed_engine(data: bytes) -> bool:
    claimed = claimed_engine(data, limits=HostLimits())
    engine = EngineShelf.default().find(claimed) if claimed is not None else None
    return engine is not None and has_code_of(data, engine)


def section_sizes(module: bytes) -> list[tuple[str, int]]:
    """The sections in their order, by name, with their sizes in bytes."""
    found = []
    for section in wasm.sections(module):
        name = _SECTIONS[section.id] if section.id < len(_SECTIONS) else f"section {section.id}"
        if section.id == 0:
            name = "custom " + inert(section.reader(module).name(max_bytes=1024), limit=64)
        found.append((name, section.end - section.start))
    return found


def call(
    first: Annotated[str, typer.Argument(metavar="[OUT.wasm] TOOL", help="A module and its tool, or a live tool.")],
    second: Annotated[str | None, typer.Argument(metavar="", show_default=False)] = None,
    arguments: Annotated[str, typer.Option("--arguments", "-a", metavar="JSON", help="JSON, @FILE or - .")] = "{}",
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    timeout_ms: Annotated[int | None, typer.Option("--timeout-ms", metavar="MS", min=1)] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Whose outputs may be read.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Call a tool once: of a file (nothing is kept, nothing strikes), or of the live generation of a store."""
    output = Output(as_json=as_json)
    given = parse_arguments(arguments)
    events: list[Event] = []
    withdrawn: list[Quarantine] = []

    async def of_file() -> ToolResult:
        with engine_progress(output, "making the engine") as tell:
            artifact = await artifact_of(Path(first), progress=tell)
        assert second is not None
        if second not in artifact.tools:
            raise UsageProblem(f"{first} has no tool {second!r}: it has {', '.join(artifact.tools)}")
        # A store of its own that ends with the call; its name may be a core one, so there are no core tools beside it.
        rules = policy_of(policy).without_gates()
        async with Host.open(":memory:", core=[], policy=rules) as host:
            # Loaded by itself first, so that a refusal speaks of the module and not of a generation.
            held = await host.sandbox.load(artifact.wasm)
            await host.source.activate(await host.source.stage(add=[artifact], author="call"))
            held.close()
            tool = host.source.lookup(second)
            assert tool is not None
            return await host.runner.run(
                ToolCall(id="call", name=second, arguments=given),
                tools=ToolSnapshot([tool]),
                timeout_ms=timeout_ms,
                session_id=session,
            )

    async def of_store() -> ToolResult:
        if first.endswith(".wasm") and await anyio.Path(first).is_file():
            tools = (await artifact_of(Path(first))).tools
            raise UsageProblem(f"name a tool of {first}: {', '.join(tools)}")
        existing_store(store)
        async with Host.open(store, policy=policy_of(policy), on_event=events.append) as host:
            if (damage := host.source.damaged().get(first)) is not None:
                raise Corrupt(damage, path=str(store))
            withdrawn.extend(held for held in host.source.quarantines(first) if held.active)
            return await host.runner.run(
                ToolCall(id=f"call-{time.time_ns()}", name=first, arguments=given),
                timeout_ms=timeout_ms,
                session_id=session,
            )

    result = anyio.run(of_store if second is None else of_file)
    code = show_result(output, result)
    for event in events:
        if isinstance(event, StrikeCounted):
            output.aside(f"strike {event.count} of {event.limit} against {event.tool}", style="yellow")
        elif isinstance(event, ToolQuarantined):
            output.aside(f"{event.tool} {event.artifact[:12]} is quarantined", style="red")
        elif isinstance(event, GenerationSwitched):
            output.aside(f"generation {event.number} is live", style="cyan")
    if result.reason == "not_found" and withdrawn:
        reasons = ", ".join(dict.fromkeys(reason for held in withdrawn for reason in held.reasons))
        output.aside(
            f"{first} is quarantined ({reasons}): rho-wasm pardon {first}, then roll back to it", style="yellow"
        )
    return code


def existing_store(path: Path) -> None:
    """Raises :class:`UsageProblem` where a verb that only reads would make a new, empty store by mistake."""
    if not os.path.lexists(path):
        raise UsageProblem(f"there is no store at {path}: stage something first, or say --store")


def add_to(app: typer.Typer) -> None:
    app.command("build")(build_file)
    app.command("inspect")(inspect_file)
    app.command("call")(call)
