"""Verbs about what struck: list it, and pardon a tool."""

from __future__ import annotations

from typing import Annotated

import typer

from rho_wasm.cli.hosts import with_host
from rho_wasm.cli.modules import DEFAULT_STORE, existing_store
from rho_wasm.cli.options import JsonOption, PolicyOption, StoreOption
from rho_wasm.cli.output import Output, utc
from rho_wasm.dynamic.store import Store

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
    """End every quarantine of a tool; its strikes no longer count."""
    output = Output(as_json=as_json)
    ended = with_host(store, policy, lambda host: host.source.pardon(tool))
    output.object({"pardoned": [each.as_json() for each in ended]})
    output.say(f"pardoned versions of {tool}: {len(ended)}" if ended else f"{tool}: nothing was quarantined")
    return 0


def add_to(app: typer.Typer) -> None:
    """Adds the verbs."""
    for verb in (strikes, pardon):
        app.command(verb.__name__)(verb)
