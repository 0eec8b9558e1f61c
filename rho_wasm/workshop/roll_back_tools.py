"""``roll_back_tools``: makes an earlier generation live again, as far as only the workshop's own changes go back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio.to_thread

from rho_wasm.calls import ToolContext
from rho_wasm.dynamic.generation import Changes, Generation
from rho_wasm.dynamic.history import STRIKES_AUTHOR
from rho_wasm.errors import RhoError
from rho_wasm.results import Failed, Ok
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert
from rho_wasm.workshop import schemas
from rho_wasm.workshop.bench import Bench
from rho_wasm.workshop.telling import refusal

__all__ = ["roll_back_tools"]

_STEPS = 100
_SHOWN = 20


def roll_back_tools(bench: Bench) -> Tool:
    """The tool. A generation of somebody else on the way back is never undone."""

    async def roll_back(arguments: Mapping[str, Any], context: ToolContext) -> Ok | Failed:
        bench.hear(context)
        limits = bench.limits
        taken = bench.take(
            "rollbacks", context, most=limits.rollbacks_per_hour, of_all=limits.rollbacks_per_hour_of_all
        )
        to = int(arguments["to"]) if "to" in arguments else None
        try:
            with taken:
                live, target = await anyio.to_thread.run_sync(_target, bench, to, context)
                author = bench.authors.of(context.session_id)
                note = arguments.get("note", "") or "roll_back_tools"
                check = partial(_check, bench, target.number, context)
                now = await bench.source.rollback(
                    target.number, author=author, note=note, live=live.number, check=check
                )
        except RhoError as error:
            return refusal(error, "nothing was rolled back")
        changes = Changes.between(live.tools, now.tools).as_json()
        told = {"status": "live", "generation": now.number, "before": live.number}
        return Ok(told | {kind: names for kind, names in changes.items() if names})

    return Tool(
        name="roll_back_tools",
        description=(
            "Goes back to the generation before the live one, or to an earlier one by number, at once. Only what was "
            "written here is undone: where somebody else changed tools in between, it is refused."
        ),
        input_schema=schemas.arguments({"to": schemas.CANDIDATE, "note": schemas.NOTE}),
        read_only=False,
        destructive=True,
        idempotent=False,
        handler=roll_back,
    )


def _target(bench: Bench, to: int | None, context: ToolContext) -> tuple[Generation, Generation]:
    """The live generation and the one to return to. Raises :class:`Failed` where that would undo somebody else's."""
    store = bench.store
    live = store.live()
    last = store.switches(limit=1)
    foreign = bench.authors.foreign(store, context.session_id)

    def own(author: str) -> bool:
        return bench.authors.own(author, context.session_id)

    if last and last[0].author != STRIKES_AUTHOR and not own(last[0].author):
        raise _refused(f"{inert(last[0].author, limit=64)} made generation {live.number} live")
    current, led = live, list[int]()
    for _ in range(_STEPS):
        if current.parent is None:
            raise Failed(
                f"generation {current.number} is the first one: there is none to return to"
                if to is None
                else f"generation {to} is none of those that led to {live.number}: {_numbers(led)}",
                details={"reason": "unknown_generation"},
            )
        automatic = current.author == STRIKES_AUTHOR and not any(map(foreign.problem, current.changes.names))
        if not (automatic or own(current.author)):
            raise _refused(f"generation {current.number} was made by {inert(current.author, limit=64)}")
        current = store.generation(current.parent)
        led.append(current.number)
        if to is None or current.number == to:
            _check_held(bench, current)
            return live, current
    raise Failed(f"generation {to} is more than {_STEPS} steps back", details={"reason": "unknown_generation"})


def _check(bench: Bench, to: int, context: ToolContext, live: Generation, names: frozenset[str]) -> None:
    """The same in the switch itself: others may have switched, or taken a name, since it was looked at."""
    _target(bench, to, context)
    bench.still_own(context)(live, names)


def _numbers(led: list[int]) -> str:
    return ", ".join(map(str, led[:_SHOWN])) + (", ..." if len(led) > _SHOWN else "") if led else "there is none"


def _check_held(bench: Bench, target: Generation) -> None:
    """Raises :class:`Failed` for a generation with a version that was withdrawn, with what a model can do then."""
    for name in sorted(target.tools):
        version = target.tools[name].artifact
        held = [each for each in bench.source.held(name) if each.version.artifact == version]
        if held and held[-1].mode == "revert":
            raise Failed(
                f"nothing was rolled back: generation {target.number} has a version of '{name}' that is quarantined, "
                "and only a person can pardon it. Mend its source (read_tool shows it), write it again with "
                "write_tool, and switch it on",
                details={"reason": "quarantined", "tool": name},
            )


def _refused(why: str) -> Failed:
    return Failed(
        f"nothing was rolled back: {why}, and only what was written here is undone here. "
        "To take tools of your own away use switch_tools with remove, or write them again",
        details={"reason": "not_yours"},
    )
