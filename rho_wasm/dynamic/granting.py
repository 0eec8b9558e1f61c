"""What a version is granted: taken from the policy when it is staged, met with today's policy when it is offered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from rho_wasm.capabilities.capability import Capability
from rho_wasm.capabilities.granted import Granted
from rho_wasm.frozen import FrozenMap, thaw
from rho_wasm.grants import Bounds, Grant
from rho_wasm.policy import Policy
from rho_wasm.untrusted import inert

__all__ = [
    "NOTHING_GRANTED",
    "GrantChange",
    "both_granted",
    "bounds_text",
    "effective_bounds",
    "effective_grants",
    "grant_changes",
    "grants_to_stage",
]

NOTHING_GRANTED: Mapping[str, Granted] = MappingProxyType({})
_RETIRED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    dict.fromkeys(("kv.get", "kv.list"), frozenset({"keys", "bytes"}))
)
"""Bounds that generations may still have been staged with. They never bounded anything, and are none any more."""


def grants_to_stage(
    tool: str, declared: Iterable[str], policy: Policy, narrowed: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Grant, ...]:
    """The policy's grants for ``tool`` of what its manifest declares, sorted by name, every bound said.

    ``narrowed`` leaves only the capabilities that it names, each within its bounds too. Raises ValueError for bounds
    that are none, and for a capability that is not granted or not declared: narrowing grants nothing.
    """
    allowed = policy.grants_for(tool)
    granted = {name: allowed[name] for name in sorted(set(declared)) if name in allowed}
    if narrowed is not None:
        for name in narrowed.keys() - granted.keys():
            shown = inert(name, limit=80)
            raise ValueError(f"{tool} has no grant of {shown!r} to narrow: the policy or the manifest does not name it")
        granted = {
            name: bounds.meet(type(bounds).model_validate(narrowed[name]))
            for name, bounds in granted.items()
            if name in narrowed
        }
    return tuple(
        Grant(capability=name, bounds=FrozenMap(bounds.model_dump(mode="json"))) for name, bounds in granted.items()
    )


def effective_bounds(
    tool: str,
    given: Iterable[Grant],
    *,
    declared: Iterable[str],
    policy: Policy,
    known: Mapping[str, type[Bounds]],
) -> dict[str, Bounds]:
    """What a call of ``tool`` has, by name. ``given`` is what its generation says, ``declared`` its manifest.

    A store is a foreign file: what it says counts only as far as the manifest declares, today's policy allows, the
    capability is one of those ``known`` here, and the bounds are bounds. The rest is left out.
    """
    allowed, asked = policy.grants_for(tool), frozenset(declared)
    effective: dict[str, Bounds] = {}
    for grant in given if allowed and asked else ():
        name = grant.capability
        model, today = known.get(name), allowed.get(name)
        if model is None or today is None or name not in asked or type(today) is not model:
            continue
        try:
            effective[name] = today.meet(model.model_validate(_without_retired(grant)))
        except ValueError:  # A ValidationError is one.
            continue
    return effective


def _without_retired(grant: Grant) -> dict[str, Any]:
    retired = _RETIRED.get(grant.capability, frozenset())
    return {name: value for name, value in grant.bounds.items() if name not in retired}


def effective_grants(
    tool: str,
    given: Iterable[Grant],
    *,
    declared: Iterable[str],
    policy: Policy,
    capabilities: Mapping[str, Capability],
) -> Mapping[str, Granted]:
    """The same with the capabilities that answer."""
    known = {name: capability.bounds for name, capability in capabilities.items()}
    bounds = effective_bounds(tool, given, declared=declared, policy=policy, known=known)
    if not bounds:
        return NOTHING_GRANTED
    return MappingProxyType({name: Granted(capabilities[name], each) for name, each in bounds.items()})


def both_granted(one: Mapping[str, Granted], other: Mapping[str, Granted]) -> Mapping[str, Granted]:
    """What stands in both, where both allow it."""
    if one is other:
        return one
    both = {}
    for name in one.keys() & other.keys():
        try:
            both[name] = Granted(one[name].capability, one[name].bounds.meet(other[name].bounds))
        except ValueError:
            continue
    return both


@dataclass(frozen=True, slots=True)
class GrantChange:
    """How what a version is granted of one capability differs from another version's. None: nothing."""

    capability: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def words(self) -> str:
        """One line: what is new, gone, or bounded otherwise. Bounds are an operator's words."""
        if self.after is None:
            return f"{self.capability} is no longer granted"
        if self.before is None:
            return f"{self.capability} is granted: {bounds_text(self.after)}"
        differing = [
            f"{name} {_bound_text(self.before.get(name))} -> {_bound_text(self.after.get(name))}"
            for name in sorted(self.before.keys() | self.after.keys())
            if self.before.get(name) != self.after.get(name)
        ]
        return inert(f"{self.capability} changes: {', '.join(differing)}")

    def as_json(self) -> dict[str, Any]:
        return {"capability": self.capability, "before": thaw(self.before), "after": thaw(self.after)}


def grant_changes(before: Iterable[Grant], after: Iterable[Grant]) -> tuple[GrantChange, ...]:
    """What changes from the grants of one version to another's, by capability."""
    old = {grant.capability: grant.bounds for grant in before}
    new = {grant.capability: grant.bounds for grant in after}
    return tuple(
        GrantChange(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    )


def bounds_text(bounds: Mapping[str, Any]) -> str:
    """Bounds in a line for a person, inert."""
    return inert(", ".join(f"{name} {_bound_text(value)}" for name, value in sorted(bounds.items()))) or "no bounds"


def _bound_text(value: Any) -> str:
    return inert(json.dumps(thaw(value), ensure_ascii=False, default=str), limit=300)
