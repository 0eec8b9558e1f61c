"""Verbs about a policy: whether a file is one, and what it comes to for a tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from rho_wasm.builtin import builtin_tools
from rho_wasm.capability_names import misnamed
from rho_wasm.cli.options import CapabilityOption, JsonOption, PolicyOption, own_capabilities, policy_of
from rho_wasm.cli.output import REFUSED, USAGE, WORKED, Output
from rho_wasm.cli.policy_advice import Advice, advice, advice_here, missing_here, not_shipped
from rho_wasm.cli.which_store import existing_store
from rho_wasm.dynamic.generation import ToolVersion
from rho_wasm.dynamic.granting import bounds_text, effective_bounds, grants_to_stage
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import StoreError
from rho_wasm.frozen import thaw
from rho_wasm.grants import BOUNDS, Bounds, UncheckedBounds
from rho_wasm.limits import HostLimits
from rho_wasm.patterns import matches
from rho_wasm.policy import Policy
from rho_wasm.policy_example import policy_example

__all__ = ["add_to"]

_RESTAGE: Final = "was staged with less than the policy grants now: stage it again"

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
    capability: CapabilityOption = None,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="It is for another machine: no extra, secret or folder is looked for.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Say whether a file is a policy, and what in it means nothing; with a store, which rules mean no tool of it.

    Exit code 3 if it is none, or if a host would not start here because a secret has no value; 2 if only an extra is
    missing. What can be written in one: rho-wasm policy example.
    """
    output = Output(as_json=as_json)
    policy = policy_of(file, capability)
    warnings = [*advice(policy, own=own_capabilities(capability))]
    missing: list[Advice] = []
    if not elsewhere:
        warnings += advice_here(policy)
        missing += missing_here(policy)
    if store is not None:
        warnings += [*_unmatched(store, policy), *_to_restage(store, policy)]
    output.object(
        {
            "file": str(file),
            "warnings": [each.as_json() for each in warnings],
            "missing": [each.as_json() for each in missing],
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
    for each in warnings:
        output.say(f"warning: {_place(file, each)}: ", each.message, style="yellow")
    for each in missing:
        output.say(f"a host does not start here: {_place(file, each)}: ", each.message, style="red")
    if any(each.reason != "missing_extra" for each in missing):
        return REFUSED
    return USAGE if missing else WORKED


def explain(
    tool: Annotated[str, typer.Argument(metavar="TOOL", show_default=False)],
    policy: PolicyOption = None,
    store: _StoreOption = None,
    capability: CapabilityOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say what a policy comes to for a tool, line by line; with a store, what the tool that is live there has of it."""
    output = Output(as_json=as_json)
    rules = policy_of(policy, capability)
    said = rules.explain(tool)
    own = own_capabilities(capability)
    foreign = [
        not_shipped(name)
        for name, bounds in rules.grants_for(tool).items()
        if isinstance(bounds, UncheckedBounds) and name not in own
    ]
    live = None if store is None else _live(store, tool, rules)
    host = HostLimits()
    native, engines = (rules.limits_for(tool, each).model_dump() for each in (host.call, host.engine_call))
    output.object(
        {
            "tool": tool,
            "policy": None if policy is None else str(policy),
            "said": [{"line": line, "text": words} for line, words in said],
            "limits": native,
            "engine_limits": engines,
            "granted": _plain(rules.grants_for(tool)),
            "warnings": foreign,
            "live": live,
        }
    )
    if not said:
        output.say("the policy says nothing of it: no grants, and the limits that all have")
    for line, words in said:
        output.say("" if line is None else f"line {line}: ", words)
    named = {name for pattern, entry in rules.tools.items() if matches(pattern, tool) for name in entry.limits}
    if named:
        values = [_in_force(name, native[name], engines[name]) for name in sorted(named)]
        output.say(f"in force in a host with default limits: {', '.join(values)}")
    for words in foreign:
        output.say("warning: ", words, style="yellow")
    if live is not None:
        _show_live(output, tool, live)
    elif store is not None:
        output.say(f"no tool {tool} is live in {store}", style="yellow")
    return WORKED


def example(as_json: JsonOption = False) -> int:
    """Print everything that a policy can say, with comments: all keys, their bounds and their defaults. It is TOML."""
    output, text = Output(as_json=as_json), policy_example()
    output.object({"example": text})
    output.lines(text)
    return WORKED


def _in_force(name: str, native: int, of_engines: int) -> str:
    both = native == of_engines
    return f"{name} {native}" if both else f"{name} {native} (for Python and JavaScript {of_engines})"


def _place(file: Path, about: Advice) -> str:
    return str(file) if about.line is None else f"{file}, line {about.line}"


def _unmatched(store: Path, policy: Policy) -> Iterator[Advice]:
    """Rules that mean no tool that exists: a core one, a live one, one of a candidate."""
    existing_store(store)
    with Store.open(store, read_only=True) as opened:
        staged = [each.tools for each in opened.generations() if each.state in ("live", "candidate")]
    names = {tool.name for tool in builtin_tools()}.union(*staged)
    yield from (Advice(line, words) for line, words in policy.unmatched(names))


def _to_restage(store: Path, policy: Policy) -> Iterator[Advice]:
    """Live tools that have less than the policy grants now."""
    with Store.open(store, read_only=True) as opened:
        for tool, version in opened.live().tools.items():
            try:
                declared = opened.artifact(version.artifact).manifest.capabilities
            except StoreError:
                continue  # A damaged tool is not offered at all, and `tools` says so.
            if _version(tool, version, declared, policy)["restage"]:
                yield Advice(None, f"{tool} {_RESTAGE}")


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
    known: dict[str, type[Bounds]] = {**BOUNDS, **{name: UncheckedBounds for _, name in policy.elsewhere}}
    has = _plain(effective_bounds(tool, version.grants, declared=declared, policy=policy, known=known))
    today = {grant.capability: thaw(grant.bounds) for grant in grants_to_stage(tool, declared, policy)}
    return {
        "artifact": version.artifact,
        "declared": list(declared),
        "staged": {grant.capability: thaw(grant.bounds) for grant in version.grants},
        "has": has,
        "denied": [name for name in declared if name not in has],
        "undeclared": sorted(policy.grants_for(tool).keys() - set(declared)),
        "restage": _has_less(has, today),
    }


def _has_less(has: Mapping[str, Mapping[str, Any]], today: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether staging again would bring more. Of a program's own capability only what the policy says is compared."""
    return any(
        name not in has or any(has[name].get(bound) != value for bound, value in bounds.items())
        for name, bounds in today.items()
    )


def _plain(grants: Mapping[str, Bounds]) -> dict[str, Any]:
    return {name: bounds.model_dump(mode="json") for name, bounds in grants.items()}


def _show_live(output: Output, tool: str, live: Mapping[str, Any]) -> None:
    output.say(f"generation {live['generation']} is live with {tool} {live['artifact'][:12]}", style="bold")
    for name, bounds in live["has"].items():
        output.say(f"  has {name}: ", bounds_text(bounds), style="green")
    for name in live["denied"]:
        output.say(f"  may ask for {name} and is denied", f": {why}" if (why := misnamed(name)) else "", style="yellow")
    for name in live["undeclared"]:
        output.say(f"  is granted {name}, which its manifest does not declare")
    if live["restage"]:
        output.say(f"  it {_RESTAGE}", style="yellow")


def add_to(app: typer.Typer) -> None:
    """Adds the verbs."""
    group = typer.Typer(
        name="policy",
        help="What an operator allows: check a file, explain it for a tool, print all that can be said.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("check")(check)
    group.command("explain")(explain)
    group.command("example")(example)
    app.add_typer(group)
