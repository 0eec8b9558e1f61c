"""``rho-wasm demo``: the whole idea on a real file, in half a minute and with no toolchain.

Where the extras are, tools in Python and JavaScript follow; making their engines takes a minute, the first time.
"""

from __future__ import annotations

import importlib.metadata
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from rho_wasm.calls import ToolCall
from rho_wasm.cli.demo_engines import engines_as_told, play_engines
from rho_wasm.cli.demo_screen import Screen
from rho_wasm.cli.options import JsonOption, read_bytes
from rho_wasm.cli.output import FAULT, WORKED, Output, UsageProblem
from rho_wasm.cli.results import summary
from rho_wasm.cli.which_store import next_command
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.generation import Generation
from rho_wasm.errors import GateRejected, ModuleRejected
from rho_wasm.host import Host
from rho_wasm.limits import MIB
from rho_wasm.resources import fixture
from rho_wasm.results import ToolResult
from rho_wasm.untrusted import inert

__all__ = ["add_to"]

_SLOTS = 64
"""The faulty version's table has so many slots: with more different words it searches for ever."""
_MAX_FILE = MIB // 2
"""A request is at most 1 MiB, and text is more bytes in JSON than in a file."""


def _guest(name: str) -> Artifact:
    """A guest that ships with the package, built from the source beside it."""
    module = fixture(f"{name}.wasm")
    source = module.with_suffix(".c")
    if not source.exists():
        source = module.with_suffix(".wat")
    return Artifact.from_wasm(module.read_bytes(), source=source.read_text(), language=source.suffix[1:])


async def _switch(host: Host, name: str, *, author: str, note: str) -> Generation:
    candidate = await host.source.stage(add=[_guest(name)], author=author, note=note)
    return await host.source.activate(candidate)


async def _call(host: Host, name: str, text: str, *, number: int = 1) -> ToolResult:
    call = ToolCall(id=f"{name}-{number}", name=name, arguments={"text": text})
    return await host.runner.run(call, tools=host.registry.snapshot())


async def _play(screen: Screen, store: Path, text: str, file_name: str) -> None:
    facts = screen.facts
    async with Host.open(store, on_event=screen.on_event) as host:
        screen.title("Core tools are the host's. Everything else comes from an agent, as WebAssembly.")
        screen.say("core: ", ", ".join(tool.name for tool in host.registry.core_tools()))
        facts["core"] = [tool.name for tool in host.registry.core_tools()]

        screen.title("An agent wrote a tool. It is staged, must answer its own examples, and is switched on.")
        first = await _switch(host, "word_count", author="model", note="counts words")
        result = await _call(host, "word_count", text)
        screen.say(f"word_count({file_name}) = ", inert(result.text, limit=300))
        screen.say(summary(result))
        facts["first"] = {"generation": first.number, "result": result.as_json()}

        screen.title("Its next version passes its examples too, but spins on this file.")
        if result.value["distinct"] <= _SLOTS:
            file_name, text = "gettysburg.txt", fixture("data/gettysburg.txt").read_text(encoding="utf-8")
            screen.say(
                f"(Not on yours: the fault needs more than {_SLOTS} different words. From here on: {file_name}.)"
            )
            good = (await _call(host, "word_count", text)).value
        else:
            good = result.value
        second = await _switch(host, "word_count_v2", author="model", note="faster, it says")
        ends: list[str | None] = []
        for number in range(1, 4):
            result = await _call(host, "word_count", text, number=number)
            screen.say(summary(result))
            ends.append(result.reason)
        facts["spinning"] = {"generation": second.number, "ends": ends}

        screen.title("Three strikes took it back. The version that worked answers again.")
        result = await _call(host, "word_count", text, number=4)
        screen.say(f"word_count({file_name}) = ", inert(result.text, limit=300))
        screen.say(summary(result))
        facts["reverted"] = {"generation": host.source.live().number, "result": result.as_json()}

        screen.title("A tool that wants a core tool's name is never offered.")
        await _switch(host, "core_name", author="model", note="wants a name that is taken")
        for shadowed in host.registry.shadowed():
            screen.say(f"shadowed: {shadowed.tool}: ", shadowed.why, style="yellow")
        facts["shadowed"] = [{"tool": each.tool, "by": each.by, "why": each.why} for each in host.registry.shadowed()]

        screen.title("A module that imports what it may not is not even compiled.")
        try:
            await _switch(host, "foreign_import", author="model", note="wants a socket")
        except (ModuleRejected, GateRejected) as error:
            screen.say(str(error), style="yellow")
            facts["foreign_import"] = error.as_json()

        screen.title("Another tool, on real data; then back to the first generation, at once.")
        csv = fixture("data/stations.csv").read_text()
        await _switch(host, "csv_stats", author="model", note="statistics of a table")
        result = await host.runner.run(ToolCall(id="csv", name="csv_stats", arguments={"csv": csv}))
        screen.say("csv_stats(stations.csv) = ", inert(result.text, limit=300))
        screen.say(summary(result))
        facts["csv"] = result.as_json()
        back = await host.source.rollback(first.number, author="operator", note="one tool is enough")
        gone = await host.runner.run(ToolCall(id="csv", name="csv_stats", arguments={"csv": csv}))
        screen.say("csv_stats after the rollback: ", gone.reason or gone.status)
        facts["rolled_back"] = {"generation": back.number, "reason": gone.reason}

    screen.title("The host is killed in the middle of a call, and opened again.")
    facts["killed_by"] = _kill_a_host(store)
    screen.say(f"a host process ended by {signal.Signals(facts['killed_by']).name}")
    async with Host.open(store) as host:
        result = await _call(host, "word_count", text, number=5)
        live = host.source.live()
        screen.say(f"generation {live.number} is live, {len(host.source.strikes())} strikes are remembered")
        screen.say(summary(result))
        facts["reopened"] = {
            "live": live.number,
            "strikes": len(host.source.strikes()),
            "result": result.as_json(),
            "same_answer": result.value == good,
            "generations": [generation.as_json() for generation in host.source.generations()],
        }
        screen.output.say("")
        screen.output.table(
            ["n", "state", "author", "tools", "note"],
            [
                (
                    str(generation.number),
                    generation.state,
                    generation.author,
                    ", ".join(f"{name} {version.artifact[:8]}" for name, version in generation.tools.items()),
                    generation.note or generation.why,
                )
                for generation in host.source.generations()
            ],
        )

    await play_engines(screen, store, text, file_name)


def _kill_a_host(store: Path) -> int:
    """Starts a host process on the store, kills it while a guest spins, and answers the signal that ended it."""
    child = subprocess.Popen(  # noqa: S603 - this interpreter and a module of ours
        [sys.executable, "-m", "rho_wasm.cli.demo_host", str(store)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()  # It says a line when its call runs.
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
    return -child.returncode


def _as_told(facts: dict[str, Any]) -> bool:
    """Whether each step was what its title says."""
    return bool(
        facts["first"]["result"]["status"] == "ok"
        and facts["spinning"]["ends"] == ["out_of_fuel"] * 3
        and facts["reverted"]["generation"] > facts["spinning"]["generation"]
        and [each["tool"] for each in facts["shadowed"]] == ["read_artifact"]
        and facts["foreign_import"]["reason"] == "gate_rejected"
        and (facts["csv"]["status"], facts["rolled_back"]["reason"]) == ("ok", "not_found")
        and facts["killed_by"] == signal.SIGKILL
        and facts["reopened"]["same_answer"]
        and engines_as_told(facts)
    )


def _default_text() -> tuple[str, str]:
    readme = Path("README.md")
    if readme.is_file():
        return readme.name, readme.read_text(encoding="utf-8")
    described = importlib.metadata.metadata("rho-wasm")["Description"] or ""
    return "README.md of rho-wasm", described


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        if kept.exists() and any(kept.iterdir()):
            raise UsageProblem(f"{kept}: the demo needs a new store: name a folder that is not there yet")
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="rho-wasm-demo-") as folder:
        yield Path(folder) / "store"


def demo(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A text file. Default: the README.")] = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="STORE", help="Keep the store there. Default: a temporary one.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Watch the whole idea work on a real file: stage, call, strikes, return, shadowing, rollback, a killed host;
    then tools in Python and JavaScript, where the extras are."""
    output = Output(as_json=as_json)
    if file is None:
        name, text = _default_text()
    else:
        name, text = file.name, read_bytes(file, limit=_MAX_FILE).decode("utf-8", "replace")
    played = Screen(output, {"file": name, "characters": len(text)})
    output.say(f"{name}: {len(text):,} characters", style="dim")
    with _folder(store) as folder:
        anyio.run(_play, played, folder, text, inert(name))
    good = _as_told(played.facts)
    output.object(played.facts | {"worked": good})
    output.say("")
    if not good:
        output.say("This was not what the titles say. Please report it with the text above.", style="bold red")
    if store is not None:
        output.say(f"The store is kept: {next_command('generations', store=store)}", style="dim")
    return WORKED if good else FAULT


def add_to(app: typer.Typer) -> None:
    app.command("demo")(demo)
