"""The guests of ``fixtures/`` are what their sources say, and each is let in, or not, as the table says."""

from __future__ import annotations

import pytest

from rho_wasm.errors import ModuleRejected
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.admission import admit
from tests.fixture_build import FIXTURES, built, names
from tests.fixture_table import ENDINGS, REFUSED


def wasm(name: str) -> bytes:
    return (FIXTURES / f"{name}.wasm").read_bytes()


def test_the_table_names_every_guest_in_webassembly_text() -> None:
    assert sorted([*ENDINGS, *REFUSED]) == names(".wat")


@pytest.mark.parametrize("name", names(".wat"))
def test_a_guest_in_webassembly_text_builds_to_the_committed_bytes(name: str) -> None:
    assert built(name) == wasm(name)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", names(".c"))
def test_a_guest_in_c_builds_to_the_committed_bytes(name: str) -> None:
    pytest.importorskip("ziglang")
    assert built(name) == wasm(name)


@pytest.mark.parametrize("name", [*ENDINGS, *names(".c")])
def test_a_guest_that_may_run_is_admitted(name: str) -> None:
    admitted = admit(wasm(name))
    ending = ENDINGS.get(name)
    assert admitted.manifest.tool((ending and ending.tool) or admitted.manifest.tools[0].name)
    text = (FIXTURES / f"{name}.manifest.json").read_text(encoding="utf-8")
    assert admitted.manifest.tools == Manifest.from_json(text).tools


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_a_guest_that_may_not_run_is_refused(name: str, reason: str) -> None:
    with pytest.raises(ModuleRejected) as caught:
        admit(wasm(name))
    assert caught.value.reason == reason
    assert caught.value.name == "env.system"


def test_the_data_is_there() -> None:
    lines = (FIXTURES / "data" / "stations.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 61
    assert "Four score" in (FIXTURES / "data" / "gettysburg.txt").read_text(encoding="utf-8")
