"""What a version is granted: at staging, at each offer, and how it differs from another's."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm.capabilities import Capability, CapabilityContext, capability
from rho_wasm.capabilities.granted import Granted
from rho_wasm.capabilities.random import random_capabilities
from rho_wasm.dynamic.granting import effective_bounds, effective_grants, grant_changes, grants_to_stage
from rho_wasm.dynamic.offer import hints
from rho_wasm.grants import BOUNDS, Bounds, Grant, HttpBounds, KvReadBounds, KvWriteBounds, RandomBounds
from rho_wasm.manifest import ToolDeclaration
from rho_wasm.policy import Policy


class Own(Bounds):
    most: int = 5


@capability("own.thing", bounds=Own, quick=True)
def own(context: CapabilityContext) -> None: ...


KNOWN: dict[str, Capability] = {each.name: each for each in (own, *random_capabilities())}
DECLARED = ("own.thing", "random.bytes", "kv.get")


def policy(**grants: Any) -> Policy:
    return Policy.parse({"tools": {"t": {"grants": grants}}}, capabilities=[own])


RICH = policy(**{"own.thing": {"most": 4}, "random.bytes": {"max_bytes": 10}, "clock.now": {}})


def effective(*given: Grant, rules: Policy = RICH, declared: tuple[str, ...] = DECLARED) -> dict[str, Bounds]:
    found = effective_grants("t", given, declared=declared, policy=rules, capabilities=KNOWN)
    return {name: grant.bounds for name, grant in found.items()}


def test_staging_takes_the_policys_grants_of_what_is_declared_with_every_bound() -> None:
    assert grants_to_stage("t", DECLARED, RICH) == (
        Grant(capability="own.thing", bounds={"most": 4}),
        Grant(capability="random.bytes", bounds={"max_bytes": 10}),
    )
    assert grants_to_stage("t", (), RICH) == ()
    assert grants_to_stage("other", DECLARED, RICH) == ()


def test_staging_narrows_and_never_widens() -> None:
    assert grants_to_stage("t", DECLARED, RICH, {"own.thing": {"most": 9}}) == (
        Grant(capability="own.thing", bounds={"most": 4}),
    )
    assert grants_to_stage("t", DECLARED, RICH, {"own.thing": {"most": 1}})[0].bounds == {"most": 1}
    assert grants_to_stage("t", DECLARED, RICH, {}) == ()
    wrong: list[dict[str, Any]] = [{"clock.now": {}}, {"kv.get": {}}, {"no.such": {}}, {"own.thing": {"least": 1}}]
    for narrowed in wrong:
        with pytest.raises(ValueError, match=r"no grant of|least"):
            grants_to_stage("t", DECLARED, RICH, narrowed)


def test_a_grant_holds_as_far_as_generation_policy_and_manifest_say() -> None:
    staged = Grant(capability="own.thing", bounds={"most": 3})
    assert effective(staged) == {"own.thing": Own(most=3)}
    assert effective(staged, rules=policy(**{"own.thing": {"most": 2}})) == {"own.thing": Own(most=2)}
    assert effective(staged, rules=policy()) == {}
    assert effective(staged, rules=Policy()) == {}
    assert effective(staged, declared=("random.bytes",)) == {}
    assert effective() == {}


def test_what_a_store_says_that_nobody_here_would_have_written_counts_for_nothing() -> None:
    forged = (
        Grant(capability="no.such"),
        Grant(capability="kv.get"),
        Grant(capability="own.thing", bounds={"most": "many"}),
        Grant(capability="random.bytes", bounds={"max_bytes": 10**9}),
    )
    assert effective(*forged) == {}
    wide = Grant(capability="random.bytes", bounds={"max_bytes": 1_000_000})
    assert effective(wide) == {"random.bytes": RandomBounds(max_bytes=10)}


def test_a_generation_that_was_staged_with_bounds_that_are_none_any_more_has_what_it_had() -> None:
    before = {"keys": 1_000, "bytes": 1_048_576, "value_bytes": 100, "key_bytes": 512}
    rules = Policy.parse({"tools": {"t": {"grants": {"kv.get": {"key_bytes": 50}, "kv.put": {"keys": 3}}}}})
    given = [Grant(capability=name, bounds=before) for name in ("kv.get", "kv.put")]
    assert effective_bounds("t", given, declared=("kv.get", "kv.put"), policy=rules, known=BOUNDS) == {
        "kv.get": KvReadBounds(value_bytes=100, key_bytes=50),
        "kv.put": KvWriteBounds(value_bytes=100, keys=3),
    }


def test_hints_follow_from_what_is_granted_and_a_manifest_only_makes_them_stricter() -> None:
    def made(*bounds: Bounds, read_only: bool = False, **declared: bool) -> tuple[bool, bool, bool]:
        thing = Capability(name="own.thing", arguments=own.arguments, bounds=Own, now=own.now, read_only=read_only)
        declaration = ToolDeclaration(name="t", description="T.", input_schema={"type": "object"}, **declared)
        found = hints(declaration, {str(n): Granted(thing, each) for n, each in enumerate(bounds)})
        return found["read_only"], found["destructive"], found["idempotent"]

    assert made() == (True, False, True)
    assert made(RandomBounds(), HttpBounds()) == (True, False, True)
    assert made(RandomBounds(), HttpBounds(methods=("POST",))) == (False, True, False)
    assert made(Own()) == (False, True, False)
    assert made(Own(), read_only=True) == (True, False, True)
    assert made(Own(), read_only=False, destructive=False, idempotent=True) == (False, True, False)
    assert made(RandomBounds(), destructive=True, idempotent=False) == (False, True, False)


def test_changes_of_grants_are_said_in_a_line_each() -> None:
    before = (Grant(capability="a.gone"), Grant(capability="a.kept", bounds={"n": 1}), Grant(capability="a.same"))
    after = (
        Grant(capability="a.kept", bounds={"n": 2, "hosts": ["https://a.example"]}),
        Grant(capability="a.new", bounds={"n": 1}),
        Grant(capability="a.same"),
    )
    changes = grant_changes(before, after)
    assert [change.words for change in changes] == [
        "a.gone is no longer granted",
        'a.kept changes: hosts null -> ["https://a.example"], n 1 -> 2',
        "a.new is granted: n 1",
    ]
    assert changes[1].as_json()["after"] == {"n": 2, "hosts": ["https://a.example"]}
    forged = Grant(capability="a.new", bounds={f"\x1b{n}": "x" * 9_999 for n in range(999)})
    (change,) = grant_changes((), (forged,))
    assert len(change.words) < 2_100
    assert change.words.isprintable()
