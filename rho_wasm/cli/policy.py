"""Verbs about a policy: whether a file is one, and what it comes to for a tool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from rho_wasm.builtin import builtin_tools
from rho_wasm.cli.modules import existing_store
from rho_wasm.cli.options import JsonOption, PolicyOption, policy_of
from rho_wasm.cli.output import WORKED, Output
from rho_wasm.dynamic.generation import ToolVersion
from rho_wasm.dynamic.granting import bounds_text, effective_bounds, grants_to_stage
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import PolicyError
from rho_wasm.grants import BOUNDS, Bounds
from rho_wasm.host_capabilities import check_grants, secrets_of
from rho_wasm.limits import Limits
from rho_wasm.policy import Policy

__all__ = ["add_to"]

_StoreOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="STORE",
        envvar="RHO_WASM_STORE",
        help="A store whose tools are looked at.",
        show_default=False,
    ),
]


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A policy, TOML.", show_default=False)],
    store: _StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say whether a file is a policy, and which of its rules mean no tool of a store. Exit code 3 if it is none."""
    output = Output(as_json=as_json)
    policy = Policy.load(file)
    warnings: list[dict[str, Any]] = [{"line": None, "message": words} for words in _missing(policy)]
    if "replay" in policy.gates.on and not policy.recordings.on:
        words = "gates.on: the gate replay runs recorded calls, and none are recorded: [recordings] on = true"
        warnings.append({"line": policy.line("gates", "on"), "message": words})
    if store is not None:
        warnings += [{"line": line, "message": words} for line, words in policy.unmatched(_names(store))]
    output.object(
        {
            "file": str(file),
            "warnings": warnings,
            "tools": {
                pattern: {"limits": dict(entry.limits), "grants": _plain(entry.grants)}
                for pattern, entry in policy.tools.items()
            },
            "secrets": list(policy.secrets),
            "gates": list(policy.gates.on),
        }
    )
    granted = sorted({name for entry in policy.tools.values() for name in entry.grants})
    output.say(f"{file}: is a policy; it grants {', '.join(granted) or 'nothing'}", style="green")
    for warning in warnings:
        where = "" if warning["line"] is None else f"line {warning['line']}: "
        output.say(f"  {where}", str(warning["message"]), style="yellow")
    return WORKED


def explain(
    tool: Annotated[str, typer.Argument(metavar="TOOL", show_default=False)],
    policy: PolicyOption = None,
    store: _StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say what a policy comes to for a tool, line by line; with a store, what the tool that is live there has of it."""
    output = Output(as_json=as_json)
    rules = policy_of(policy)
    said = rules.explain(tool)
    live = None if store is None else _live(store, tool, rules)
    output.object(
        {
            "tool": tool,
            "policy": None if policy is None else str(policy),
            "said": [{"line": line, "text": words} for line, words in said],
            "limits": rules.limits_for(tool, Limits()).model_dump(),
            "granted": _plain(rules.grants_for(tool)),
            "live": live,
        }
    )
    if not said:
        output.say("the policy says nothing of it: no grants, and the limits that all have")
    for line, words in said:
        output.say("" if line is None else f"line {line}: ", words)
    if live is not None:
        _show_live(output, tool, live)
    elif store is not None:
        output.say(f"no tool {tool} is live in {store}", style="yellow")
    return WORKED


def _missing(policy: Policy) -> list[str]:
    """What a host that starts here would refuse, and one elsewhere need not: an extra, values of secrets."""
    found = []
    for look in (lambda: check_grants(policy, ()), lambda: secrets_of(policy, None)):
        try:
            look()
        except PolicyError as error:
            found.append(f"a host does not start here: {error.detail}")
    return found


def _names(store: Path) -> set[str]:
    """The tools that exist: core ones, live ones, and those of candidates."""
    existing_store(store)
    with Store.open(store, read_only=True) as opened:
        staged = [each.tools for each in opened.generations() if each.state in ("live", "candidate")]
    return {tool.name for tool in builtin_tools()}.union(*staged)


def _live(store: Path, tool: str, policy: Policy) -> dict[str, Any] | None:
    """What the live version of ``tool`` has of what ``policy`` grants, or None where there is none."""
    existing_store(store)
    with Store.open(store, read_only=True) as opened:
        generation = opened.live()
        version = generation.tools.get(tool)
        if version is None:
            return None
        declared = opened.artifact(version.artifact).manifest.capabilities
    return {"generation": generation.number, **_version(tool, version, declared, policy)}


def _version(tool: str, version: ToolVersion, declared: tuple[str, ...], policy: Policy) -> dict[str, Any]:
    has = _plain(effective_bounds(tool, version.grants, declared=declared, policy=policy, known=BOUNDS))
    today = {grant.capability: dict(grant.bounds) for grant in grants_to_stage(tool, declared, policy)}
    return {
        "artifact": version.artifact,
        "declared": list(declared),
        "staged": {grant.capability: dict(grant.bounds) for grant in version.grants},
        "has": has,
        "denied": [name for name in declared if name not in has],
        "undeclared": sorted(policy.grants_for(tool).keys() - set(declared)),
        "restage": today != has,
    }


def _plain(grants: Mapping[str, Bounds]) -> dict[str, Any]:
    return {name: bounds.model_dump(mode="json") for name, bounds in grants.items()}


def _show_live(output: Output, tool: str, live: Mapping[str, Any]) -> None:
    output.say(f"generation {live['generation']} is live with {tool} {live['artifact'][:12]}", style="bold")
    for name, bounds in live["has"].items():
        output.say(f"  has {name}: ", bounds_text(bounds), style="green")
    for name in live["denied"]:
        output.say(f"  may ask for {name} and is denied", style="yellow")
    for name in live["undeclared"]:
        output.say(f"  is granted {name}, which its manifest does not declare")
    if live["restage"]:
        output.say("  it was staged with less than the policy grants now: stage it again", style="yellow")


def add_to(app: typer.Typer) -> None:
    """Adds the verbs."""
    group = typer.Typer(
        name="policy",
        help="What an operator allows: check a file, explain it for a tool.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("check")(check)
    group.command("explain")(explain)
    app.add_typer(group)
