"""A host finds the engines of its user's shelf, and says of an image what its own build of the source says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rho_wasm import Host, Policy, ToolCall
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import GateRejected
from rho_wasm.policy import GatePolicy
from rho_wasm.sandbox import NativeCache
from rho_wasm.toolchains import EngineShelf, ImageBuilder
from rho_wasm.toolchains.engines import EngineSpec, cpython
from tests.toolchains.engines.toy import install_toy, toy_spec

pytestmark = pytest.mark.anyio

_NO_GATES = Policy(gates=GatePolicy(on=()))


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EngineSpec:
    """The only engine for Python here. Its package is installed."""
    made = toy_spec(languages=("python",))
    monkeypatch.setattr(cpython, "SPEC", made)
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    install_toy(tmp_path / "site")
    return made


@pytest.fixture
def shelf(tmp_path: Path, shared_cache: NativeCache) -> EngineShelf:
    return EngineShelf(tmp_path / "engines", tmp_path / "key" / "host.key", cache=shared_cache)


async def _built(shelf: EngineShelf, tmp_path: Path) -> Artifact:
    # The toy engine knows file names of one letter.
    (tmp_path / "t").write_text("--hi")
    async with ImageBuilder(shelf=shelf) as builder:
        return await builder.build(tmp_path / "t", language="python")


async def test_an_image_is_offered_where_its_engine_is(spec: EngineSpec, shelf: EngineShelf, tmp_path: Path) -> None:
    artifact = await _built(shelf, tmp_path)
    async with Host.open(tmp_path / "tools.rho", core=[], policy=_NO_GATES, engines=shelf) as host:
        await host.source.activate(await host.source.stage(add=[artifact], author="somebody"))
        result = await host.runner.run(ToolCall(id="1", name="t", arguments={}))
        assert result.value == ["--hi", 1, 1]
    empty = EngineShelf(tmp_path / "none", shelf.key_path)
    async with Host.open(":memory:", core=[], policy=_NO_GATES, engines=empty) as host:
        with pytest.raises(GateRejected) as refused:
            await host.source.activate(await host.source.stage(add=[artifact], author="somebody"))
    assert "rho-wasm engines install" in str(refused.value)


async def test_a_claimed_image_is_believed_if_its_source_makes_it(
    spec: EngineSpec, shelf: EngineShelf, tmp_path: Path
) -> None:
    built = await _built(shelf, tmp_path)
    claimed = Artifact.from_wasm(built.wasm, source=built.source, language="python")
    other = Artifact.from_wasm(built.wasm, source="--another", language="python")
    for artifact, engines, provenance in (
        (claimed, shelf, "built here"),
        (other, shelf, "claimed"),
        (claimed, EngineShelf(tmp_path / "none", shelf.key_path), "claimed"),
    ):
        async with Host.open(":memory:", core=[], policy=_NO_GATES, engines=engines) as host:
            review = await host.source.review(await host.source.stage(add=[artifact], author="somebody"))
        assert [each.provenance for each in review.tools] == [provenance]
    assert not (tmp_path / "none").exists()
