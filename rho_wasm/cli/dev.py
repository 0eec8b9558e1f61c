"""``dev``: watches a source, and builds, stages, switches and calls what it becomes after each change."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
import typer

from rho_wasm.cli.options import (
    JsonOption,
    PolicyOption,
    StoreOption,
    TrustedOption,
    artifact_of,
    parse_arguments,
    policy_of,
)
from rho_wasm.cli.output import Output, UsageProblem
from rho_wasm.cli.progress import build_progress
from rho_wasm.cli.results import show_result
from rho_wasm.cli.signals import until_signal
from rho_wasm.cli.store import author_name
from rho_wasm.cli.uncounted import uncounted_calls
from rho_wasm.cli.watching import changes
from rho_wasm.cli.which_store import DEFAULT_STORE, next_command
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.generation import Generation
from rho_wasm.errors import BuildError, GateRejected, RhoError, UnknownGeneration
from rho_wasm.frozen import thaw
from rho_wasm.host import Host
from rho_wasm.host_capabilities import needs_of_calls
from rho_wasm.plain import jsonable
from rho_wasm.results import ToolResult
from rho_wasm.toolchains.pipeline import language_of, read_suffixes
from rho_wasm.untrusted import inert

__all__ = ["add_to"]

_EXAMPLES = 5
"""Of each tool that are called after a build."""
_SHOWN_CHARS = 300


def dev(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A source file, or a folder with a main file.")],
    call: Annotated[
        str | None,
        typer.Option("--call", metavar="TOOL", help="Call it after each build. Default: the examples of its manifest."),
    ] = None,
    arguments: Annotated[
        str, typer.Option("--arguments", "-a", metavar="JSON", help="Of --call: JSON, or @FILE, which is watched too.")
    ] = "{}",
    language: Annotated[str | None, typer.Option("--language", "-l", metavar="L")] = None,
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    trusted: TrustedOption = False,
    as_json: JsonOption = False,
) -> int:
    """Watch a source: build it, make it live in the store (through the gates) and call it after each change.

    These calls count for and against no tool: none strikes. Ctrl-C ends it. With --json each event is an object on a
    line of its own.
    """
    output = Output(as_json=as_json)
    if not source.exists():
        raise UsageProblem(f"{source}: no such file or folder")
    if arguments == "-":
        raise UsageProblem("--arguments is read again after each change: give JSON or @FILE")
    if call is None and arguments != "{}":
        raise UsageProblem("--arguments are of --call TOOL")
    parse_arguments(arguments)
    loaded = policy_of(policy)

    async def watch() -> None:
        async with (
            Host.open(store, policy=loaded, secrets=needs_of_calls(loaded), elsewhere=True) as host,
            anyio.create_task_group() as group,
        ):
            await group.start(until_signal, group.cancel_scope)
            rounds = _Rounds(output, host, source, store=store, policy=policy, language=language, trusted=trusted)
            rounds.call, rounds.arguments = call, arguments
            rounds.tell(
                "watching",
                f"watching {source}, store {store}; Ctrl-C ends it",
                style="bold",
                path=str(source),
                store=str(store),
            )
            given = [Path(arguments[1:])] if arguments.startswith("@") else []
            watched = [source, *given]
            if not source.is_dir():
                watched.append(source.with_name(f"{source.stem}.manifest.json"))
            suffixes = read_suffixes(language or await _language(source))
            async for changed in changes(watched, suffixes=suffixes, apart_from=[store]):
                await rounds.once(build=not changed.issubset(given))

    anyio.run(watch)
    _tell(output, "stopped", "stopped", {})
    return 0


async def _language(source: Path) -> str | None:
    """None where it is not clear yet: the source may still be written."""
    try:
        return await language_of(source)
    except BuildError:
        return None


def _tell(output: Output, event: str, said: str, told: Mapping[str, Any], style: str | None = None) -> None:
    output.object({"event": event, **told})
    output.say(f"{datetime.now():%H:%M:%S}  ", said, style=style)
    sys.stdout.flush()


@dataclass(slots=True)
class _Rounds:
    """What is done after each change, and what is remembered from one to the next."""

    output: Output
    host: Host
    source: Path
    store: Path = field(kw_only=True)
    policy: Path | None = field(kw_only=True)
    language: str | None = field(kw_only=True)
    trusted: bool = field(kw_only=True)
    call: str | None = None
    arguments: str = "{}"
    _built: Artifact | None = None
    """What the last build made, None where it failed."""
    _waiting: tuple[int, str] | None = None
    """A candidate of an earlier round that waits for a person, and the hash of its artifact."""
    _refused: dict[tuple[str, int], GateRejected] = field(default_factory=dict)
    """By the hash of an artifact and the generation that was live: what a gate said of it."""
    _before: Artifact | None = None
    """What the last round made live."""

    def tell(self, event: str, said: str, *, style: str | None = None, **told: Any) -> None:
        """One event: an object with ``--json``, a line for a person."""
        _tell(self.output, event, said, told, style)

    async def once(self, *, build: bool) -> None:
        """Builds, stages, switches, calls. Never raises for what its author can mend.

        Without ``build`` the artifact of the last build is taken, if there is one.
        """
        try:
            artifact = self._built
            if build or artifact is None:
                artifact = await self._build()
            if await self._make_live(artifact):
                await self._call(artifact)
        except (RhoError, OSError) as error:
            self._show_error(error)
        self.tell("idle", "waiting for a change", style="dim")

    async def _build(self) -> Artifact:
        self._built = None
        began = anyio.current_time()
        with build_progress(self.output, f"building {self.source}") as progress:
            built = await artifact_of(self.source, language=self.language, trusted=self.trusted, progress=progress)
        self._show_built(built, round((anyio.current_time() - began) * 1000))
        self._built = built
        return built

    def _show_built(self, artifact: Artifact, took: int) -> None:
        said = f"built {artifact.sha256[:12]}  {len(artifact.wasm):,} bytes  {took} ms  {artifact.toolchain}"
        self.tell("built", said, **artifact.as_json(), build_ms=took, log=artifact.log)
        if artifact.log:
            self.output.lines(artifact.log, prefix="    ", style="yellow")

    async def _make_live(self, artifact: Artifact) -> bool:
        """Whether it is live now."""
        if await self._is_quarantined(artifact):
            return False
        live = self.host.source.live()
        if all(name in live.tools and live.tools[name].artifact == artifact.sha256 for name in artifact.tools):
            self.tell("live", f"generation {live.number} has it already", generation=live.number, tools=[*live.tools])
            return True
        known = self._refused.get((artifact.sha256, live.number))
        if known is not None:
            said = "the same module as before, which a gate refused: it is not staged again until it is another"
            self.tell("same", said, style="yellow", sha256=artifact.sha256)
            raise GateRejected(known.candidate, known.gate, known.problems)
        candidate = await self._candidate(artifact)
        try:
            live = await self.host.source.activate(candidate)
        except GateRejected as refused:
            if not refused.waiting:
                self._refused[artifact.sha256, live.number] = refused
                raise
            self._waiting = candidate.number, artifact.sha256
            steps = [
                next_command(verb, candidate.number, store=self.store, policy=self.policy)
                for verb in ("approve", "activate")
            ]
            self.tell("waits", str(refused), style="yellow", candidate=candidate.number, next=steps)
            for step in steps:
                self.output.say("    ", step, style="dim")
            return False
        self._before, self._waiting = artifact, None
        self.tell(
            "live", f"generation {live.number} is live", style="green", generation=live.number, tools=[*live.tools]
        )
        return True

    async def _is_quarantined(self, artifact: Artifact) -> bool:
        """Whether a version of it is, by real calls: then nothing is staged, and it is said what to do."""
        quarantines = await anyio.to_thread.run_sync(self.host.source.quarantines)
        versions = {held.version for held in quarantines if held.active and held.mode == "revert"}
        tools = sorted(each.tool for each in versions if each.artifact == artifact.sha256)
        if not tools:
            return False
        steps = [next_command("pardon", tool, store=self.store, policy=self.policy) for tool in tools]
        said = f"this version is quarantined ({', '.join(tools)}): change the source, or pardon it and save once more"
        self.tell("quarantined", said, style="yellow", tools=tools, next=steps)
        for step in steps:
            self.output.say("    ", step, style="dim")
        return True

    async def _candidate(self, artifact: Artifact) -> Generation:
        """The one that waits already, if it is of this artifact; else a new one, which takes its place."""
        if self._waiting is not None:
            waiting = await anyio.to_thread.run_sync(self._still_waiting, *self._waiting, artifact.sha256)
            if waiting is not None:
                return waiting
            self._waiting = None
        gone = self._renamed_or_removed(artifact)
        return await self.host.source.stage([artifact], gone, author=author_name(), note=f"dev: {self.source.name}")

    def _still_waiting(self, number: int, waits: str, built: str) -> Generation | None:
        waiting = self.host.store.generation(number)
        if waits == built:
            if waiting.state == "rejected":
                raise UnknownGeneration(number, "it was rejected; the same module is not staged again by dev")
            return waiting if waiting.state == "candidate" else None
        if waiting.state == "candidate":
            self.host.store.reject(number, by=author_name(), note="a newer build takes its place")
        return None

    def _renamed_or_removed(self, artifact: Artifact) -> list[str]:
        """Tools of the build before that this one has no more, if they are still that one's."""
        live = self.host.source.live().tools
        if self._before is None:
            return []
        return [
            name
            for name in self._before.tools
            if name not in artifact.tools and name in live and live[name].artifact == self._before.sha256
        ]

    async def _call(self, artifact: Artifact) -> None:
        calls = self._calls(artifact)
        if not calls:
            said = "nothing is called: no tool has an example without host calls; give --call TOOL --arguments JSON"
            self.tell("not_called", said, style="yellow", tools=[*artifact.tools])
            return
        async with uncounted_calls(self.host, artifact) as call:
            for name, arguments in calls:
                self._show_call(name, arguments, await call(name, arguments))

    def _calls(self, artifact: Artifact) -> list[tuple[str, dict[str, Any]]]:
        """Tools and their arguments."""
        if self.call is not None:
            if self.call not in artifact.tools:
                raise UsageProblem(f"{self.source} has no tool {self.call!r}: it has {', '.join(artifact.tools)}")
            return [(self.call, parse_arguments(self.arguments))]
        # What an example's host calls answer is written in it; here they would ask the host's own grants.
        return [
            (tool.name, thaw(example.arguments))
            for tool in artifact.manifest.tools
            for example in [each for each in tool.examples if not each.host][:_EXAMPLES]
        ]

    def _show_call(self, name: str, arguments: dict[str, Any], result: ToolResult) -> None:
        if self.output.as_json:
            self.tell("call", "", tool=name, arguments=jsonable(arguments), result=result.as_json())
            return
        shown = inert(json.dumps(jsonable(arguments), ensure_ascii=False), limit=_SHOWN_CHARS)
        self.tell("call", f"{name} {shown}", style="cyan")
        show_result(self.output, result)

    def _show_error(self, error: RhoError | OSError) -> None:
        if self.output.as_json:
            told = error.as_json() if isinstance(error, RhoError) else {"reason": "os_error", "message": str(error)}
            self.tell("error", "", error=told)
        else:
            self.tell("error", "it did not work", style="red")
            self.output.error(error)


def add_to(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("dev")(dev)
