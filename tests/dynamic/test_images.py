"""Tools that are images over an engine: staged, offered, called and gone back to as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rho_wasm.calls import ToolCall
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.handler import GuestHandler
from rho_wasm.errors import GateRejected
from rho_wasm.host import Host
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import Manifest
from rho_wasm.policy import Policy
from rho_wasm.results import ToolResult
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.toolchains.standalone import standalone
from tests.sandbox.toy_engine import find, image_of, load, toy

pytestmark = pytest.mark.anyio

NO_GATES = Policy().without_gates()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def artifact(source: str, **more: Any) -> Artifact:
    """An image whose tool is named ``t``."""
    tool = {"name": "t", "description": "A tool.", "input_schema": {"type": "object"}, **more}
    async with Sandbox(engines=find) as sandbox:
        return Artifact.from_wasm(image_of(await load(sandbox, source), Manifest.from_json({"tools": [tool]})))


async def called(host: Host) -> ToolResult:
    return await host.runner.run(ToolCall(id="1", name="t", arguments={}))


def limits_of(host: Host) -> Limits:
    tool = host.source.lookup("t")
    assert tool is not None
    assert isinstance(tool.handler, GuestHandler)
    return tool.handler.limits


async def test_an_image_is_staged_called_replaced_and_rolled_back_to(tmp_path: Path) -> None:
    async with Host.open(tmp_path / "store", core=[], policy=NO_GATES, engines=find) as host:
        for source in ("--one", "--two"):
            await host.source.activate(await host.source.stage(add=[await artifact(source)], author="a"))
            assert (await called(host)).value == [source, 1, 1]
        await host.source.rollback()
        assert (await called(host)).value == ["--one", 1, 1]
    async with Host.open(tmp_path / "store", core=[], policy=NO_GATES, engines=find) as host:
        assert (await called(host)).value == ["--one", 1, 1]


async def test_a_candidate_waits_for_its_engine(tmp_path: Path) -> None:
    installed: dict[bytes, EngineBinary] = {}
    async with Host.open(tmp_path / "store", core=[], policy=NO_GATES, engines=installed.get) as host:
        candidate = await host.source.stage(add=[await artifact("--")], author="a")
        with pytest.raises(GateRejected) as refused:
            await host.source.activate(candidate)
        assert refused.value.waiting
        assert "rho-wasm engines install" in refused.value.problems[0]
        installed[toy().sha256] = toy()
        await host.source.activate(candidate)
        assert (await called(host)).value == ["--", 1, 1]


async def test_a_candidate_whose_engine_is_missing_is_reviewed_without_its_replays(tmp_path: Path) -> None:
    policy = Policy.parse({"gates": {"on": ["replay"]}, "recordings": {"on": True}})
    async with Host.open(tmp_path / "store", core=[], policy=policy, engines=find) as host:
        await host.source.activate(await host.source.stage(add=[await artifact("--")], author="a"))
        assert (await called(host)).ok
    async with Host.open(tmp_path / "store", core=[], policy=policy) as host:
        candidate = await host.source.stage(add=[await artifact("--two")], author="a")
        assert [(each.tool, each.replay) for each in (await host.source.review(candidate)).tools] == [("t", None)]


async def test_a_live_image_whose_engine_was_removed_is_not_found_and_no_strike(tmp_path: Path) -> None:
    async with Host.open(tmp_path / "store", core=[], policy=NO_GATES, engines=find) as host:
        await host.source.activate(await host.source.stage(add=[await artifact("--")], author="a"))
    async with Host.open(tmp_path / "store", core=[], policy=NO_GATES) as host:
        result = await called(host)
        assert result.reason == "not_found"
        assert "engines install" in result.text
        assert host.source.strikes() == ()


async def test_an_image_has_the_bounds_of_engines_unless_something_lower_was_said(tmp_path: Path) -> None:
    made = await artifact("--", timeout_ms=700)
    policy = Policy.model_validate({"gates": {"on": []}, "tools": {"t": {"limits": {"host_calls": 3}}}})
    async with Host.open(":memory:", core=[], policy=policy, engines=find) as host:
        await host.source.activate(await host.source.stage(add=[made], author="a"))
        assert limits_of(host) == Limits.for_engines().lowest({"deadline_ms": 700, "host_calls": 3})
    for given in (Limits(fuel=10**6), HostLimits(call=Limits(fuel=10**6))):
        async with Host.open(":memory:", core=[], policy=NO_GATES, engines=find, limits=given) as host:
            await host.source.activate(await host.source.stage(add=[made], author="a"))
            assert limits_of(host) == Limits.for_engines().lowest({"deadline_ms": 700, "fuel": 10**6})


async def test_examples_of_an_image_are_run_with_the_bounds_of_engines(tmp_path: Path) -> None:
    good = [{"arguments": {}, "answer": {"ok": ["--", 1, 1]}}]
    bad = [{"arguments": {}, "answer": {"ok": ["--", 2, 2]}}]
    policy = Policy.model_validate({"gates": {"on": ["examples"]}})
    async with Host.open(":memory:", core=[], policy=policy, engines=find) as host:
        with pytest.raises(GateRejected, match="expected"):
            await host.source.activate(await host.source.stage(add=[await artifact("--", examples=bad)], author="a"))
        await host.source.activate(await host.source.stage(add=[await artifact("--", examples=good)], author="a"))
        assert (await called(host)).value == ["--", 1, 1]


async def test_a_standalone_module_has_the_bounds_of_engines_where_it_proves_to_be_one(tmp_path: Path) -> None:
    examples = [{"arguments": {}, "answer": {"ok": ["--", 1, 1]}}]
    made = Artifact.from_wasm(standalone((await artifact("--", examples=examples)).wasm, toy().wasm))
    limits = HostLimits(call=Limits(fuel=1, deadline_ms=4_000), engine_call=Limits.for_engines())
    policy = Policy.model_validate({"gates": {"on": ["examples"]}})
    async with Host.open(tmp_path / "store", core=[], policy=policy, engines=find, limits=limits) as host:
        await host.source.activate(await host.source.stage(add=[made], author="a"))
        assert (await called(host)).value == ["--", 1, 1]
    async with Host.open(tmp_path / "store", core=[], policy=policy, limits=limits) as host:
        assert (await called(host)).reason == "out_of_fuel"


async def test_who_only_claims_to_be_standalone_has_the_bounds_of_guests(tmp_path: Path) -> None:
    joined = standalone((await artifact("--")).wasm, toy().wasm)
    other = joined.replace(b"\x80\xfd\x00", b"\x81\xfd\x00")
    assert other != joined, "a constant of its code is another"
    limits = HostLimits(call=Limits(fuel=1), engine_call=Limits.for_engines())
    async with Host.open(":memory:", core=[], policy=NO_GATES, engines=find, limits=limits) as host:
        await host.source.activate(await host.source.stage(add=[Artifact.from_wasm(other)], author="a"))
        assert (await called(host)).reason == "out_of_fuel"
