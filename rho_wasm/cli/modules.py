"""Verbs about files: ``build`` and ``call``. What a file is, is said by inspection.py."""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import anyio
import typer

from rho_wasm.builtin import builtin_tools
from rho_wasm.calls import ToolCall
from rho_wasm.cli.declared_tools import misnamed_capabilities, show_capabilities, show_tools
from rho_wasm.cli.module_view import view
from rho_wasm.cli.options import (
    JsonOption,
    PolicyOption,
    StoreOption,
    TrustedOption,
    artifact_of,
    call_arguments,
    is_source,
    policy_of,
)
from rho_wasm.cli.output import Output, UsageProblem
from rho_wasm.cli.policy_advice import given_elsewhere
from rho_wasm.cli.progress import build_progress
from rho_wasm.cli.results import show_result
from rho_wasm.cli.which_store import DEFAULT_STORE, existing_store, next_command
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.strikes import Quarantine
from rho_wasm.errors import Corrupt, StoreError
from rho_wasm.events import Event, GenerationSwitched, StrikeCounted, ToolQuarantined
from rho_wasm.host import Host
from rho_wasm.host_capabilities import needs_of_calls
from rho_wasm.offered import ToolSnapshot
from rho_wasm.plain import jsonable
from rho_wasm.results import ToolResult
from rho_wasm.toolchains import languages
from rho_wasm.toolchains.project import folder_name

__all__ = ["add_to"]

_MAGIC = b"\0asm"


def build_file(
    source: Annotated[
        Path,
        typer.Argument(metavar="SRC", help="A source file, or a folder with a main file: DIR/DIR.suffix, main.suffix."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="OUT.wasm", help="Default: SRC with .wasm, or DIR/DIR.wasm.")
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", "-l", metavar="L", help="Default: by the suffix of the (main) file.")
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--manifest",
            metavar="FILE",
            help="Default: STEM.manifest.json beside SRC, else what the source declares itself.",
        ),
    ] = None,
    trusted: TrustedOption = False,
    compiler: Annotated[
        str | None,
        typer.Option("--compiler", metavar="NAME", help="For C: clang, or tinycc, which is sandboxed itself."),
    ] = None,
    snapshot: Annotated[
        bool | None,
        typer.Option(
            "--snapshot/--no-snapshot",
            help="Run what a compiled tool does at its start now, not at each call. Default: by the language.",
        ),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Put the interpreter of a Python or JavaScript tool into the module.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Build a source, or a folder of them, into a module with its manifest inside."""
    output = Output(as_json=as_json)
    if language is None and source.suffix == ".wasm":
        raise UsageProblem(f"{source}: is a module already; build takes a source")
    target = out or built_name(source)
    if holds_no_module(target):
        raise UsageProblem(
            f"{target}: is there already and is no module, so it is not written over: give another --out"
        )
    began = time.monotonic()
    with build_progress(output, f"building {source}") as tell:
        artifact = anyio.run(
            lambda: artifact_of(
                source,
                language=language,
                manifest=manifest,
                trusted=trusted,
                compiler=compiler,
                snapshot=snapshot,
                standalone=standalone,
                progress=tell,
            )
        )
    seconds = time.monotonic() - began
    write_whole(target, artifact.wasm)
    seen = view(artifact.wasm)
    output.object(
        artifact.as_json()
        | {
            "file": str(target),
            "build_ms": round(seconds * 1000),
            "log": artifact.log,
            "imports": list(seen.imports),
            "exports": [name for name, _ in seen.exports],
            "warnings": misnamed_capabilities(artifact.manifest),
            "manifest": jsonable(artifact.manifest.as_plain()),
        }
    )
    output.say(f"{target}  {len(artifact.wasm):,} bytes  {seconds * 1000:.0f} ms  {artifact.toolchain}")
    output.say(f"sha256 {artifact.sha256}", style="dim")
    if artifact.log:
        output.lines(artifact.log, style="yellow")
    output.say("imports  ", ", ".join(seen.imports) or "none")
    output.say("exports  ", ", ".join(name for name, _ in seen.exports) or "none")
    if artifact.manifest.capabilities:
        show_capabilities(output, artifact.manifest)
    show_tools(output, artifact.manifest)
    return 0


def built_name(source: Path) -> Path:
    """Where what is built of ``source`` goes: beside a file, into a folder under the folder's own name."""
    if source.is_dir():
        return source / f"{folder_name(source)}.wasm"
    known = sorted(languages().values(), key=len, reverse=True)
    suffix = next((suffix for suffix in known if source.name.endswith(suffix)), source.suffix)
    return source.with_name(f"{source.name.removesuffix(suffix)}.wasm")


def holds_no_module(path: Path) -> bool:
    """Whether something is at ``path`` that a build never wrote: a source above all."""
    try:
        if not path.exists():
            return False
        if not path.is_file():  # A pipe would be waited for.
            return True
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) not in (b"", _MAGIC)
    except OSError:
        return True


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


def call(
    first: Annotated[
        str,
        typer.Argument(
            metavar="TOOL|FILE",
            help="A live tool of the store; or a file with tools: .wasm, a source (.py, .js, .ts, .c, .cpp, .zig, .rs, "
            ".go, .as.ts, .wat), or a folder of sources.",
        ),
    ],
    second: Annotated[
        str | None, typer.Argument(metavar="TOOL_OF_FILE", help="Which of the file's tools.", show_default=False)
    ] = None,
    arguments: Annotated[str, typer.Option("--arguments", "-a", metavar="JSON", help="JSON, @FILE or - .")] = "{}",
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="NAME=FILE", help="One argument more: the text of a file, or of - ."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    timeout_ms: Annotated[int | None, typer.Option("--timeout-ms", metavar="MS", min=1)] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Whose outputs may be read.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Call a tool once: of a file (nothing is kept, nothing strikes), or of the live generation of a store."""
    output = Output(as_json=as_json)
    given = call_arguments(arguments, text or ())
    events: list[Event] = []
    withdrawn: list[Quarantine] = []

    rules = policy_of(policy)
    elsewhere: list[str] = []

    async def of_file() -> ToolResult:
        with build_progress(output, f"building {first}") as tell:
            artifact = await artifact_of(Path(first), progress=tell)
        name = _tool_of(artifact, first, second)
        # A store of its own that ends with the call. Its name may be a core one: that core tool is not there then.
        core = [tool for tool in builtin_tools() if tool.name not in artifact.tools]
        async with Host.open(
            ":memory:", core=core, policy=rules.without_gates(), secrets=needs_of_calls(rules), elsewhere=True
        ) as host:
            # Loaded by itself first, so that a refusal speaks of the module and not of a generation.
            held = await host.sandbox.load(artifact.wasm)
            await host.source.activate(await host.source.stage(add=[artifact], author="call"))
            held.close()
            elsewhere.extend(_granted_elsewhere(host, name))
            tool = host.source.lookup(name)
            assert tool is not None
            offered = {each.name: each for each in host.registry.list()} | {name: tool}
            return await host.runner.run(
                ToolCall(id="call", name=name, arguments=given),
                tools=ToolSnapshot([offered[each] for each in sorted(offered)]),
                timeout_ms=timeout_ms,
                session_id=session,
            )

    async def of_store() -> ToolResult:
        existing_store(store)
        async with Host.open(
            store, policy=rules, secrets=needs_of_calls(rules), elsewhere=True, on_event=events.append
        ) as host:
            if (damage := host.source.damaged().get(first)) is not None:
                raise Corrupt(damage, path=str(store))
            withdrawn.extend(held for held in host.source.quarantines(first) if held.active)
            elsewhere.extend(_granted_elsewhere(host, first))
            return await host.runner.run(
                ToolCall(id=f"call-{time.time_ns()}", name=first, arguments=given),
                timeout_ms=timeout_ms,
                session_id=session,
            )

    is_file = is_source(Path(first)) or (first.endswith(".wasm") and Path(first).is_file())
    result = anyio.run(of_store if second is None and not is_file else of_file)
    code = show_result(output, result)
    if second is None and is_file:
        output.aside(f"{result.tool} is the one tool of {first}")
    for name in elsewhere:
        output.aside(f"{name} is granted, but only its program has it: here it is denied", style="yellow")
    for event in events:
        if isinstance(event, StrikeCounted):
            output.aside(f"strike {event.count} of {event.limit} against {event.tool}", style="yellow")
        elif isinstance(event, ToolQuarantined):
            output.aside(f"{event.tool} {event.artifact[:12]} is quarantined", style="red")
        elif isinstance(event, GenerationSwitched):
            output.aside(f"generation {event.number} is live", style="cyan")
    if result.reason == "not_found" and withdrawn:
        _show_withdrawn(output, first, withdrawn, store=store, policy=policy)
    return code


def _show_withdrawn(
    output: Output, tool: str, withdrawn: Sequence[Quarantine], *, store: Path, policy: Path | None
) -> None:
    reasons = ", ".join(dict.fromkeys(reason for held in withdrawn for reason in held.reasons))
    output.aside(f"{tool} is quarantined ({reasons}); pardon it, then roll back to it:", style="yellow")
    output.aside(next_command("pardon", tool, store=store, policy=policy))
    latest = max(withdrawn, key=lambda held: held.at)
    output.aside(next_command("rollback", latest.generation, store=store, policy=policy))


def _tool_of(artifact: Artifact, file: str, name: str | None) -> str:
    """Which tool of a file is meant: the one that is named, else the only one. Raises :class:`UsageProblem`.

    A folder may be called as a live tool is, so a tool of it is always named.
    """
    if name is None and len(artifact.tools) == 1 and not Path(file).is_dir():
        return artifact.tools[0]
    if name is None:
        raise UsageProblem(f"name a tool of {file}: {', '.join(artifact.tools)}")
    if name not in artifact.tools:
        raise UsageProblem(f"{file} has no tool {name!r}: it has {', '.join(artifact.tools)}")
    return name


def _granted_elsewhere(host: Host, tool: str) -> list[str]:
    """What the live ``tool`` may ask for that only the operator's program can answer."""
    version = host.source.live().tools.get(tool)
    return [] if version is None else given_elsewhere(host.policy, tool, version.grants)


def add_to(app: typer.Typer) -> None:
    app.command("build")(build_file)
    app.command("call")(call)
