"""Verbs about what struck: list it, and pardon a tool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from rho_wasm.cli.hosts import with_host
from rho_wasm.cli.options import JsonOption, PolicyOption, StoreOption
from rho_wasm.cli.output import Output, utc
from rho_wasm.cli.which_store import DEFAULT_STORE, existing_store
from rho_wasm.dynamic.generation import Generation
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import Quarantine
from rho_wasm.errors import ToolError
from rho_wasm.host import Host
from rho_wasm.spelling import did_you_mean

__all__ = ["add_to"]


def strikes(
    tool: Annotated[str | None, typer.Argument(metavar="[TOOL]", help="Only of this tool.")] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> int:
    """List what was counted against tools, and what is quarantined."""
    output = Output(as_json=as_json)
    existing_store(store)
    with Store.open(store, read_only=True) as opened:
        found, held = opened.strikes(tool), opened.quarantines(tool)
        unknown = None if tool is None or found or held else _never_was(tool, opened.generations())
    output.object({"strikes": [strike.as_json() for strike in found], "quarantines": [each.as_json() for each in held]})
    output.table(
        ["tool", "artifact", "generation", "reason", "when (UTC)", "where"],
        [
            (
                strike.version.tool,
                strike.version.artifact[:12],
                str(strike.generation),
                strike.reason,
                utc(strike.at),
                strike.backtrace[0] if strike.backtrace else "",
            )
            for strike in found
        ],
    )
    if unknown is not None:
        output.say(f"{tool}: ", unknown, style="yellow")
    for each in held:
        state = "quarantined" if each.active else "pardoned"
        output.say(
            f"{each.version.tool} {each.version.artifact[:12]}: {state}, {', '.join(dict.fromkeys(each.reasons))}",
            style="red" if each.active else "dim",
        )
    return 0


def pardon(
    tool: Annotated[str, typer.Argument(metavar="TOOL")],
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> int:
    """End every quarantine of a tool; its strikes no longer count. The exit code is 1 if there never was such a one."""
    output = Output(as_json=as_json)

    async def job(host: Host) -> tuple[Quarantine, ...]:
        ended = await host.source.pardon(tool)
        if not ended and (why := _never_was(tool, host.source.generations())) is not None:
            raise ToolError("not_found", tool=tool, detail=why)
        return ended

    ended = with_host(store, policy, job)
    output.object({"pardoned": [each.as_json() for each in ended]})
    output.say(f"pardoned versions of {tool}: {len(ended)}" if ended else f"{tool}: nothing was quarantined")
    return 0


def _never_was(tool: str, generations: Iterable[Generation]) -> str | None:
    """What is said of a name that no generation has; None where one has it."""
    known = {name for generation in generations for name in generation.tools}
    return None if tool in known else f"no generation has a tool of that name{did_you_mean(tool, known)}"


def add_to(app: typer.Typer) -> None:
    """Adds the verbs."""
    for verb in (strikes, pardon):
        app.command(verb.__name__)(verb)
