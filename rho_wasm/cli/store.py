"""Verbs about a store: what is offered, what is staged, and what was live."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rho_wasm.cli.declared_tools import misnamed_capabilities
from rho_wasm.cli.hosts import with_host
from rho_wasm.cli.offered_tools import FormatOption, offered_tools, print_offered
from rho_wasm.cli.options import (
    JsonOption,
    PolicyOption,
    StoreOption,
    TrustedOption,
    artifact_of,
    own_capabilities,
    policy_of,
)
from rho_wasm.cli.output import FAULT, REFUSED, Output, UsageProblem, utc
from rho_wasm.cli.policy_advice import given_elsewhere, not_shipped
from rho_wasm.cli.progress import build_progress
from rho_wasm.cli.review import show_review
from rho_wasm.cli.which_store import DEFAULT_STORE, existing_store, next_command
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.generation import Generation
from rho_wasm.dynamic.review import Review
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import GateRejected, UnknownGeneration
from rho_wasm.host import Host
from rho_wasm.policy import Policy

__all__ = ["add_to", "author_name"]

_STYLES = {"live": "bold green", "candidate": "cyan", "rejected": "red", "rolled_back": "yellow", "superseded": "dim"}


def author_name() -> str:
    """Who stages, approves and rejects where nobody says it: the user's name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container may run as a user without a name.
        return "operator"


def _changes(generation: Generation) -> str:
    parts = [
        sign + name
        for sign, names in (
            ("+", generation.changes.added),
            ("~", generation.changes.changed),
            ("-", generation.changes.removed),
        )
        for name in names
    ]
    return " ".join(parts)


def tools(
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    shape: FormatOption = None,
    as_json: JsonOption = False,
) -> int:
    """List what a model would be offered: core tools and the live generation; and what is left out, and why."""
    output = Output(as_json=as_json)
    if shape is not None:
        print_offered(offered_tools(store, policy), shape)
        return 0

    async def job(host: Host) -> dict[str, Any]:
        dynamic = host.source.live().tools
        core = {tool.name for tool in host.registry.core_tools()}
        quarantined = [held for held in host.source.quarantines() if held.active]
        return {
            "generation": host.source.live().number,
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "from": "core" if tool.name in core else "dynamic",
                    "artifact": dynamic[tool.name].artifact if tool.name in dynamic and tool.untrusted else None,
                    "grants": list(tool.metadata.get("rho_wasm", {}).get("grants", ())) if tool.untrusted else [],
                    "input_schema": tool.model_dump(mode="json")["input_schema"],
                }
                for tool in host.registry.list()
            ],
            "shadowed": [
                {"tool": each.tool, "source": each.source, "by": each.by, "why": each.why}
                for each in host.registry.shadowed()
            ],
            "quarantined": [
                {"tool": held.version.tool, "artifact": held.version.artifact, "reasons": list(held.reasons)}
                for held in quarantined
            ],
            "damaged": dict(host.source.damaged()),
        }

    told = with_host(store, policy, job)
    output.object(told)
    output.table(
        ["tool", "from", "artifact", "grants", "description"],
        [
            (
                tool["name"],
                tool["from"],
                (tool["artifact"] or "")[:12],
                " ".join(tool["grants"]),
                tool["description"].splitlines()[0] if tool["description"] else "",
            )
            for tool in told["tools"]
        ],
        title=f"generation {told['generation']} is live",
    )
    for each in told["shadowed"]:
        output.say(f"not offered: {each['tool']}: ", each["why"], style="yellow")
    for name, why in told["damaged"].items():
        output.say(f"damaged: {name}: ", why, style="red")
    for held in told["quarantined"]:
        reasons = ", ".join(dict.fromkeys(held["reasons"]))
        version = f"{held['tool']} {held['artifact'][:12]}"
        step = next_command("pardon", held["tool"], store=store, policy=policy)
        output.say(f"quarantined: {version}: {reasons}; {step}", style="red")
    return FAULT if told["damaged"] else 0


def stage(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE...", help="Modules or sources.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", metavar="NAME", help="A tool to take away.")] = None,
    author: Annotated[str | None, typer.Option("--author", metavar="NAME", help="Default: your user name.")] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why.")] = "",
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    trusted: TrustedOption = False,
    as_json: JsonOption = False,
) -> int:
    """Make a candidate on the live generation. Nothing of it is offered until it is activated."""
    output = Output(as_json=as_json)
    if not files and not remove:
        raise UsageProblem("stage what? Name files to add, or tools with --remove")

    async def job(host: Host) -> tuple[Generation, list[str], list[str]]:
        artifacts = []
        for path in files or ():
            with build_progress(output, f"building {path}") as tell:
                artifacts.append(await artifact_of(path, trusted=trusted, progress=tell))
        damaged = dict(host.source.damaged())
        made = await host.source.stage(artifacts, remove or (), author=author or author_name(), note=note)
        mended = sorted(damaged.keys() - host.source.damaged().keys())
        wrong = [words for each in artifacts for words in misnamed_capabilities(each.manifest)]
        return made, mended, wrong + _warned_of(made, artifacts, host.policy)

    candidate, mended, warnings = with_host(store, policy, job, new=True)
    verbs = ("approve", "activate") if "approval" in policy_of(policy).gates.on else ("activate",)
    changes = _changes(candidate)
    steps = [next_command(verb, candidate.number, store=store, policy=policy) for verb in verbs if changes]
    output.object(candidate.as_json() | {"next": steps, "mended": mended, "warnings": warnings})
    said = changes or "it changes nothing, as all that it brings is live already"
    output.say(f"generation {candidate.number} is staged: {said}", style="cyan")
    if mended:
        output.say(f"damaged, and whole again: {', '.join(mended)}", style="green")
    for words in warnings:
        output.say("warning: ", words, style="yellow")
    for step in steps:
        output.say(step, style="dim")
    return 0


def _warned_of(staged: Generation, artifacts: Iterable[Artifact], policy: Policy) -> list[str]:
    """What a candidate was granted that only the operator's program has."""
    own = own_capabilities()
    return [
        f"{tool}: {not_shipped(name)}"
        for artifact in artifacts
        for tool in artifact.tools
        for name in given_elsewhere(policy, tool, staged.tools[tool].grants)
        if name not in own
    ]


def activate(
    number: Annotated[int, typer.Argument(metavar="N", help="The candidate's number.")],
    floor: Annotated[bool, typer.Option("--floor", help="Automatic returns never go below its versions.")] = False,
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> int:
    """Ask the switch gates, then make a candidate live."""
    output = Output(as_json=as_json)

    async def job(host: Host) -> tuple[Generation, Mapping[str, str], list[str]]:
        live = await host.source.activate(number, floor=floor)
        replayed = [
            note for verdict in host.store.verdicts(number) if verdict.gate == "replay" for note in verdict.problems
        ]
        return live, host.source.damaged(), replayed

    try:
        live, damaged, replayed = with_host(store, policy, job)
    except GateRejected as rejected:
        of, verbs = rejected.candidate, _verbs_after(rejected)
        return output.error(rejected, steps=[next_command(verb, of, store=store, policy=policy) for verb in verbs])
    if live.number != number:
        output.say(
            f"another generation went live since {number} was staged: its changes were made to {live.parent}, "
            f"and that is generation {live.number}",
            style="yellow",
        )
    code = _show_live(output, live, damaged, replayed=replayed)
    for note in replayed:
        output.say(note, style="dim")
    if replayed:
        output.say(next_command("recordings replay --against", live.number, store=store, policy=policy), style="dim")
    return code


def _verbs_after(rejected: GateRejected) -> tuple[str, ...]:
    """What an operator does next about a candidate that a gate did not let through."""
    if rejected.waiting:
        return ("approve", "activate") if rejected.gate == "approval" else ("activate",)
    return ("recordings replay --against",) if rejected.gate == "replay" else ()


def rollback(
    number: Annotated[
        int | None, typer.Argument(metavar="[N]", help="Default: the parent of the live one.", show_default=False)
    ] = None,
    to: Annotated[int | None, typer.Option("--to", metavar="N", help="The same as N.")] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why.")] = "",
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make an earlier generation live again, at once."""
    output = Output(as_json=as_json)
    if number is not None and to is not None and number != to:
        raise UsageProblem(f"roll back to which? {number} and --to {to} are two generations")
    wanted = number if to is None else to

    async def job(host: Host) -> tuple[Generation, Mapping[str, str]]:
        return await host.source.rollback(wanted, author=author_name(), note=note), host.source.damaged()

    live = with_host(store, policy, job)
    return _show_live(output, *live)


def _show_live(
    output: Output, live: Generation, damaged: Mapping[str, str], *, replayed: Sequence[str] | None = None
) -> int:
    """Prints what is live now; with the code of a fault of the store if some of it cannot be offered."""
    output.object(
        live.as_json() | {"damaged": dict(damaged)} | ({} if replayed is None else {"replayed": list(replayed)})
    )
    output.say(f"generation {live.number} is live: {', '.join(live.tools) or 'no tools'}", style="bold green")
    for name, why in damaged.items():
        output.say(f"but {name} cannot be offered: ", why, style="red")
    return FAULT if damaged else 0


def generations(store: StoreOption = DEFAULT_STORE, as_json: JsonOption = False) -> int:
    """List every generation, what it changed, its state and what the gates said."""
    output = Output(as_json=as_json)
    existing_store(store)
    with Store.open(store, read_only=True) as opened:
        found = opened.generations()
        verdicts = {generation.number: opened.verdicts(generation.number) for generation in found}
    output.object(
        {
            "generations": [
                generation.as_json() | {"verdicts": [verdict.as_json() for verdict in verdicts[generation.number]]}
                for generation in found
            ]
        }
    )
    output.table(
        ["n", "state", "parent", "author", "when (UTC)", "changes", "note"],
        [
            (
                str(generation.number),
                generation.state,
                "" if generation.parent is None else str(generation.parent),
                generation.author,
                utc(generation.created_at),
                _changes(generation),
                "; ".join(filter(None, (generation.note, generation.why))),
            )
            for generation in found
        ],
        styles=[_STYLES[generation.state] for generation in found],
    )
    for generation in found:
        for verdict in verdicts[generation.number]:
            for problem in verdict.problems:
                style = "dim" if verdict.passed else "red"
                output.paragraph(f"  {generation.number}, gate {verdict.gate}: ", problem, style=style)
    return 0


def approve(
    number: Annotated[int, typer.Argument(metavar="N", help="The candidate's number.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask again after showing what it brings.")] = False,
    note: Annotated[str, typer.Option("--note", metavar="TEXT")] = "",
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show what a candidate brings (sources, capabilities, provenance) and say yes to it."""
    output = Output(as_json=as_json)

    async def job(host: Host) -> Review:
        found = host.store.generation(number)
        if found.state != "candidate":
            raise UnknownGeneration(number, f"it is {found.state}, only a candidate can be approved")
        return await host.source.review(number)

    review = with_host(store, policy, job)
    show_review(output, review)
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise UsageProblem("nobody can be asked here: add --yes")
        if not typer.confirm(f"Approve generation {number}?"):
            return REFUSED
    with Store.open(store) as opened:
        opened.approve(number, by=author_name(), note=note)
    output.object({"approved": number, "review": review.as_json()})
    output.say("approved: ", next_command("activate", number, store=store, policy=policy), style="green")
    return 0


def reject(
    number: Annotated[int, typer.Argument(metavar="N", help="The candidate's number.")],
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; the author reads it.")] = "",
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> int:
    """Say no to a candidate: it can never become live."""
    output = Output(as_json=as_json)
    existing_store(store)
    with Store.open(store) as opened:
        opened.reject(number, by=author_name(), note=note)
    output.object({"rejected": number})
    output.say(f"generation {number} is rejected", style="yellow")
    return 0


def prune(
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=1, help="So many that were live before the live one stay.")
    ] = 20,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> int:
    """Let go of modules of old generations, and of what tools kept that only these name. They stay in the history, but
    nothing can return to them."""
    output = Output(as_json=as_json)
    existing_store(store)
    with Store.open(store) as opened:
        gone = opened.prune(keep=keep)
    output.object(
        {
            "pruned": list(gone.generations),
            "artifacts": list(gone.artifacts),
            "namespaces": list(gone.namespaces),
        }
    )
    numbers = ", ".join(map(str, gone.generations)) or "none"
    output.say(f"generations that can be returned to no more: {numbers}; modules let go: {len(gone.artifacts)}")
    if gone.namespaces:
        output.say(f"tools whose keys were let go: {', '.join(gone.namespaces)}")
    return 0


def add_to(app: typer.Typer) -> None:
    for verb in (tools, stage, approve, reject, activate, rollback, generations, prune):
        app.command(verb.__name__)(verb)
