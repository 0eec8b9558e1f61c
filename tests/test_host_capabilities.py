"""Guests of a host ask for what its operator granted: own capabilities, policies, generations, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from rho_wasm import (
    Artifact,
    Bounds,
    CapabilityContext,
    CapabilityError,
    CapabilityFailed,
    Host,
    NameInvalid,
    Policy,
    PolicyError,
    Store,
    ToolCall,
    ToolResult,
    capability,
)
from rho_wasm.capabilities import Capability
from rho_wasm.host_capabilities import check_grants, needs_of_calls
from rho_wasm.sandbox.ways import Way, why_not_native
from rho_wasm.testing import asking_guest

pytestmark = pytest.mark.anyio


class Invoices(Bounds):
    most: int = 3


@capability("invoice.lookup", bounds=Invoices, read_only=True)
async def lookup(number: str, context: CapabilityContext) -> dict[str, Any]:
    context.used["invoices"] = context.used.get("invoices", 0) + 1
    if context.used["invoices"] > context.bounds.most:
        raise CapabilityError("quota", f"{context.bounds.most} invoices in a call")
    return {"number": number, "by": context.tool, "from": context.context.context}


@capability("invoice.broken", quick=True)
def broken() -> None:
    raise ValueError("the password is hunter2")


OWN = (lookup, broken)


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


@pytest.fixture(params=["native", "public"])
def way(request: pytest.FixtureRequest) -> Way:
    if request.param == "native" and (why := why_not_native()):
        pytest.skip(why)
    made: Way = request.param
    return made


def policy(tools: dict[str, Any]) -> Policy:
    return Policy.parse({"tools": {name: {"grants": grants} for name, grants in tools.items()}}, capabilities=OWN)


@asynccontextmanager
async def host(
    store: Path | Store | str, rules: Policy | Path, *artifacts: Artifact, way: Way | None = None, **options: Any
) -> AsyncIterator[Host]:
    async with Host.open(store, core=[], policy=rules, capabilities=OWN, way=way, **options) as opened:
        if artifacts:
            await opened.source.activate(await opened.source.stage(add=artifacts, author="model"))
        yield opened


async def ask(opened: Host, name: str, **arguments: Any) -> ToolResult:
    offered = opened.registry.snapshot()
    return await opened.runner.run(ToolCall("1", name, arguments), tools=offered, context="the host's own")


def denied(result: ToolResult) -> tuple[str, str]:
    error = result.value["error"]
    return error["kind"], error["message"]


async def test_a_guest_asks_for_what_its_host_made(tmp_path: Path, way: Way) -> None:
    rules = policy({"ask": {"invoice.lookup": {}}})
    async with host(tmp_path, rules, asking_guest("ask", "invoice.lookup"), way=way) as opened:
        answer = await ask(opened, "ask", number="7")
        assert answer.value == {"ok": {"number": "7", "by": "ask", "from": "the host's own"}}
        assert denied(await ask(opened, "ask", number=7)) == (
            "invalid_arguments",
            "number: Input should be a valid string",
        )


@pytest.mark.slow
async def test_bounds_and_counters_are_those_of_one_call(tmp_path: Path, way: Way) -> None:
    rules = policy({"ask*": {"invoice.lookup": {"most": 2}}})
    guests = (asking_guest("ask", "invoice.lookup", times=2), asking_guest("ask_more", "invoice.lookup", times=3))
    async with host(tmp_path, rules, *guests, way=way) as opened:
        for _ in range(2):
            assert "ok" in (await ask(opened, "ask", number="7")).value
        assert denied(await ask(opened, "ask_more", number="7")) == ("quota", "2 invoices in a call")


async def test_who_guesses_names_learns_nothing(tmp_path: Path) -> None:
    guesses = ("invoice.lookup", "no.such", "kv.get", "http.fetch")
    guests = [asking_guest(f"ask_{n}", name, declared=guesses) for n, name in enumerate(guesses)]
    async with host(tmp_path, policy({"*": {"clock.now": {}}}), *guests) as opened:
        said = [denied(await ask(opened, f"ask_{n}", number="7")) for n in range(len(guesses))]
        assert said == [("denied", f"{name} is not granted") for name in guesses]


@pytest.mark.slow
async def test_what_the_manifest_does_not_declare_is_undeclared_however_much_is_granted(tmp_path: Path) -> None:
    rules = policy({"*": {"invoice.lookup": {}, "clock.now": {}}})
    async with host(tmp_path, rules, asking_guest("ask", "invoice.lookup", declared=["clock.now"])) as opened:
        assert denied(await ask(opened, "ask", number="7"))[0] == "undeclared"


@pytest.mark.slow
async def test_a_capability_that_fails_tells_the_guest_nothing_and_is_no_strike(tmp_path: Path, way: Way) -> None:
    rules = policy({"*": {"invoice.broken": {}}})
    guests = (asking_guest("ask", "invoice.broken"), asking_guest("trap", "invoice.broken", then="unreachable"))
    told: list[Any] = []
    async with host(tmp_path, rules, *guests, way=way, on_event=told.append) as opened:
        kind, message = denied(await ask(opened, "ask"))
        assert kind == "unavailable"
        assert "hunter2" not in message
        for _ in range(4):
            result = await ask(opened, "trap")
            assert (result.kind, result.reason) == ("host", "capability_fault")
            assert "hunter2" not in result.text
        assert opened.source.strikes() == ()
        with anyio.fail_after(60):
            while len(failed := [each for each in told if isinstance(each, CapabilityFailed)]) < 5:
                await anyio.lowlevel.checkpoint()
    assert {(each.capability, each.error) for each in failed} == {
        ("invoice.broken", "ValueError: the password is hunter2")
    }
    assert [each.tool for each in failed] == ["ask"] + 4 * ["trap"]


@pytest.mark.slow
async def test_hints_follow_from_grants(tmp_path: Path) -> None:
    rules = policy({"reads": {"invoice.lookup": {}}, "writes": {"kv.put": {}}})
    guests = (asking_guest("reads", "invoice.lookup"), asking_guest("writes", "kv.put"), asking_guest("none", "kv.put"))
    async with host(tmp_path, rules, *guests) as opened:
        tools = {tool.name: (tool.read_only, tool.destructive, tool.idempotent) for tool in opened.source.list()}
        told = {tool.name: tool.metadata["rho_wasm"].get("grants") for tool in opened.source.list()}
    assert told == {"reads": ["invoice.lookup"], "writes": ["kv.put"], "none": None}
    assert tools == {
        "reads": (True, False, True),
        "writes": (False, True, False),
        "none": (True, False, True),
    }


async def test_todays_policy_narrows_what_a_generation_was_given_and_a_restage_takes_what_is_new(
    tmp_path: Path,
) -> None:
    guest = asking_guest("ask", "invoice.lookup", times=3)
    async with host(tmp_path, policy({"ask": {"invoice.lookup": {"most": 3}}}), guest) as opened:
        assert "ok" in (await ask(opened, "ask", number="7")).value
    async with host(tmp_path, policy({"ask": {"invoice.lookup": {"most": 1}}})) as opened:
        assert denied(await ask(opened, "ask", number="7"))[0] == "quota"
    async with host(tmp_path, policy({"ask": {}})) as opened:
        assert denied(await ask(opened, "ask", number="7"))[0] == "denied"
        candidate = await opened.source.stage(add=[guest], author="model")
        review = await opened.source.review(candidate)
        (tool,) = review.tools
        assert (tool.grants, tool.not_granted) == ((), ("invoice.lookup",))
        assert [change.words for change in tool.grant_changes] == ["invoice.lookup is no longer granted"]
        await opened.source.activate(candidate)
    async with host(tmp_path, policy({"ask": {"invoice.lookup": {}}})) as opened:
        assert denied(await ask(opened, "ask", number="7"))[0] == "denied"
        await opened.source.activate(await opened.source.stage(add=[guest], author="model"))
        assert "ok" in (await ask(opened, "ask", number="7")).value


@pytest.mark.slow
async def test_stage_narrows_grants_for_a_candidate(tmp_path: Path) -> None:
    rules = policy({"ask": {"invoice.lookup": {"most": 3}}})
    async with host(tmp_path, rules) as opened:
        guest = asking_guest("ask", "invoice.lookup", times=2)
        narrowed = {"ask": {"invoice.lookup": {"most": 1}}}
        await opened.source.activate(await opened.source.stage(add=[guest], author="model", grants=narrowed))
        assert denied(await ask(opened, "ask", number="7"))[0] == "quota"
        with pytest.raises(ValueError, match=r"no grant of 'clock.now'"):
            await opened.source.stage(add=[guest], author="model", grants={"ask": {"clock.now": {}}})
        with pytest.raises(NameInvalid, match="no added artifact"):
            await opened.source.stage(add=[guest], author="model", grants={"other": {}})


@pytest.mark.slow
async def test_a_grant_that_is_taken_from_a_version_is_gone_in_snapshots_too(tmp_path: Path) -> None:
    rules = policy({"ask": {"invoice.lookup": {}}})
    guest = asking_guest("ask", "invoice.lookup", times=2)
    async with host(tmp_path, rules, guest) as opened:
        before = opened.registry.snapshot()

        async def ask_old() -> ToolResult:
            return await opened.runner.run(ToolCall("1", "ask", {"number": "7"}), tools=before)

        assert "ok" in (await ask_old()).value
        for grants, kind in (({"invoice.lookup": {"most": 1}}, "quota"), ({}, "denied")):
            candidate = await opened.source.stage(add=[guest], author="model", grants={"ask": grants})
            await opened.source.activate(candidate)
            assert denied(await ask_old())[0] == kind
        another = asking_guest("ask", "invoice.lookup", salt=1)
        await opened.source.activate(await opened.source.stage(add=[another], author="model", grants={"ask": {}}))
        assert "ok" in (await ask_old()).value  # Another version's grants are not this one's.
        assert denied(await ask(opened, "ask", number="7"))[0] == "denied"


async def test_a_policys_file_names_the_hosts_own_capabilities(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[tools.ask]\ngrants."invoice.lookup" = { most = 1 }\n')
    async with host(tmp_path / "store", file, asking_guest("ask", "invoice.lookup")) as opened:
        assert "ok" in (await ask(opened, "ask", number="7")).value
    with pytest.raises(PolicyError, match=r"policy.toml, line 2: .*unknown capability 'invoice.lookup'"):
        async with Host.open(tmp_path / "other", policy=file):
            pass
    assert not (tmp_path / "other").exists()


async def test_a_host_does_not_start_with_less_than_its_policy_grants(tmp_path: Path) -> None:
    rules = policy({"ask": {"invoice.lookup": {}}})
    with pytest.raises(PolicyError, match="this host has no capability of this name") as caught:
        async with Host.open(tmp_path / "none", policy=rules):
            pass
    assert caught.value.reason == "policy_unknown_capability"
    named_alike = capability("invoice.lookup", quick=True)(lambda: None)
    with pytest.raises(PolicyError, match="bounds are those of another"):
        async with Host.open(tmp_path / "other", policy=rules, capabilities=[named_alike]):
            pass


async def test_what_was_staged_elsewhere_is_denied_there_and_granted_by_the_program_that_has_it(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[tools.ask]\ngrants."invoice.lookup" = { most = 1 }\n')
    rules, guest = Policy.load(file, elsewhere=True), asking_guest("ask", "invoice.lookup", times=2)
    async with Host.open(tmp_path / "s", core=[], policy=rules, elsewhere=True) as opened:
        live = await opened.source.activate(await opened.source.stage(add=[guest], author="operator"))
        assert [grant.capability for grant in live.tools["ask"].grants] == ["invoice.lookup"]
        assert denied(await ask(opened, "ask", number="7"))[0] == "denied"
    async with host(tmp_path / "s", file) as opened:
        assert denied(await ask(opened, "ask", number="7")) == ("quota", "1 invoices in a call")
    with pytest.raises(PolicyError, match=r"line 2: .*this host has no capability of this name"):
        async with Host.open(tmp_path / "s", policy=rules):
            pass
    with pytest.raises(PolicyError, match="bounds are those of another"):
        async with host(tmp_path / "s", rules):
            pass


async def test_a_host_for_another_program_looks_for_no_secret_and_has_those_that_it_is_given(tmp_path: Path) -> None:
    grants = {"http.fetch": {"hosts": ["https://api.example"], "secrets": ["key"]}}
    secrets = {"key": {"origin": "https://api.example", "env": "NOWHERE_SET"}, "other": {"origin": "https://a.example"}}
    rules = Policy.parse({"tools": {"t": {"grants": grants}}, "secrets": secrets})
    async with Host.open(":memory:", policy=rules, elsewhere=True):
        pass
    async with Host.open(":memory:", policy=rules, elsewhere=True, secrets={"key": "hunter2-hunter2"}):
        pass
    with pytest.raises(PolicyError, match=r"no \[secrets\] says"):
        async with Host.open(":memory:", policy=rules, elsewhere=True, secrets={"nil": "hunter2-hunter2"}):
            pass
    with pytest.raises(PolicyError, match="NOWHERE_SET is not set"):
        needs_of_calls(rules)


def test_what_calls_need_is_the_values_of_secrets_here(monkeypatch: pytest.MonkeyPatch) -> None:
    grants = {"http.fetch": {"hosts": ["https://api.example"], "secrets": ["key"]}, "own.thing": {}}
    secrets = {"key": {"origin": "https://api.example", "env": "THE_KEY"}, "other": {"origin": "https://a.example"}}
    rules = Policy.parse({"tools": {"t": {"grants": grants}}, "secrets": secrets}, elsewhere=True)
    monkeypatch.setenv("THE_KEY", "hunter2-hunter2")
    assert needs_of_calls(rules) == {"key": "hunter2-hunter2"}
    monkeypatch.setattr("rho_wasm.capabilities.http.find_spec", lambda name: None)
    with pytest.raises(PolicyError, match=r"'rho-wasm\[http\]'"):
        needs_of_calls(rules)


@pytest.mark.slow
async def test_a_secret_that_is_granted_and_has_no_value_keeps_the_host_from_starting(tmp_path: Path) -> None:
    grants = {"http.fetch": {"hosts": ["https://api.example"], "secrets": ["key"]}}
    rules = Policy.parse({"tools": {"t": {"grants": grants}}, "secrets": {"key": {"origin": "https://api.example"}}})
    with pytest.raises(PolicyError, match=r"secrets\.key has no value"):
        async with Host.open(tmp_path / "none", policy=rules):
            pass
    async with Host.open(tmp_path / "given", policy=rules, secrets={"key": "hunter2-hunter2"}) as opened:
        assert "hunter2" not in repr(opened.__dict__)
    with pytest.raises(PolicyError, match="no \\[secrets\\] says"):
        async with Host.open(
            tmp_path / "unknown", policy=rules, secrets={"key": "hunter2-hunter2", "other": "hunter2-hunter2"}
        ):
            pass


def test_a_grant_of_a_missing_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rho_wasm.capabilities.http.find_spec", lambda name: None)
    rules = Policy.parse({"tools": {"t": {"grants": {"http.fetch": {}}}}})
    with pytest.raises(PolicyError, match=r"'rho-wasm\[http\]'") as caught:
        check_grants(rules, ())
    assert caught.value.reason == "missing_extra"


@pytest.mark.parametrize(
    ("own", "kind", "words"),
    [
        ([lambda: None], TypeError, "make one with @capability"),
        ([lookup, lookup], ValueError, "one name"),
        ([Capability(name="kv.own", arguments=lookup.arguments, later=lookup.later)], ValueError, "host's own"),
    ],
)
async def test_what_is_no_capability_of_a_hosts_own_is_refused(own: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        async with Host.open(":memory:", capabilities=own):
            pass


@pytest.mark.slow
async def test_a_tools_clock_and_chance_are_its_own_until_they_are_granted(tmp_path: Path) -> None:
    guests = (asking_guest("ask", "clock.now"), asking_guest("chance", "random.bytes"))
    async with host(tmp_path, policy({"*": {"clock.now": {}, "random.bytes": {}}}), *guests) as opened:
        now = (await ask(opened, "ask")).value["ok"]
        assert now > 1_700_000_000
        one, other = [(await ask(opened, "chance", count=16)).value["ok"] for _ in range(2)]
        assert one != other


async def test_a_rule_that_means_no_tool_is_warned_of_once_there_are_tools(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = policy({"ask": {"invoice.lookup": {}}, "aks": {"tool.call": {"tools": ["read_artifact", "rea_*"]}}})
    async with host(tmp_path, rules, asking_guest("ask", "invoice.lookup")):
        assert caplog.messages == []
    async with Host.open(tmp_path, policy=rules, capabilities=OWN):
        assert caplog.messages == [
            "policy: tools.aks: no tool matches 'aks'",
            "policy: tools.aks.grants.tool.call.tools: no tool of the store and no core tool here matches 'rea_*'; "
            "a program may have more",
        ]
        caplog.clear()
    async with Host.open(tmp_path, policy=rules, capabilities=OWN, elsewhere=True):
        assert caplog.messages == []
