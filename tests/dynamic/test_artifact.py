from __future__ import annotations

import hashlib
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import wasmtime

from rho_wasm.dynamic.artifact import MAX_LOG_CHARS, MAX_SOURCE_CHARS, Artifact
from rho_wasm.dynamic.seal import Seal, default_key_path
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import ModuleRejected
from tests.dynamic.guests import artifact


def built_here(source: str = "(source)", *, salt: int = 0) -> Artifact:
    wasm = artifact("calc", salt=salt).wasm
    return Artifact.built(wasm, source=source, language="wat", toolchain="wat 1.0", log="fine")


def test_an_artifact_is_named_by_its_bytes_and_read_from_them() -> None:
    made = artifact("calc", "text")
    assert made.sha256 == hashlib.sha256(made.wasm).hexdigest()
    assert made.tools == ("calc", "text")
    assert made.as_json() == {
        "sha256": made.sha256,
        "bytes": len(made.wasm),
        "tools": ["calc", "text"],
        "language": None,
        "toolchain": None,
        "provenance": "claimed",
        "has_source": False,
    }


def test_what_comes_from_a_file_is_claimed() -> None:
    assert Artifact.from_wasm(built_here().wasm, source="(source)", language="wat").provenance == "claimed"
    assert built_here().provenance == "built here"


@pytest.mark.parametrize(
    ("wasm", "reason"),
    [
        (b"", "header"),
        (b"not wasm at all", "header"),
        (wasmtime.wat2wasm("(module)"), "manifest_missing"),
        (wasmtime.wat2wasm('(module (@custom "rho.manifest" "\\ff"))'), "manifest_malformed"),
        (bytes(16 * 1024 * 1024 + 1), "module_bytes"),
    ],
)
def test_bytes_that_hold_no_manifest_are_refused(wasm: bytes, reason: str) -> None:
    with pytest.raises(ModuleRejected) as caught:
        Artifact.from_wasm(wasm)
    assert caught.value.reason == reason


def test_source_is_shown_whole_or_refused_and_logs_are_cut() -> None:
    wasm = artifact("calc").wasm
    assert Artifact(wasm=wasm, source="x" * MAX_SOURCE_CHARS).source == "x" * MAX_SOURCE_CHARS
    with pytest.raises(ModuleRejected) as caught:
        Artifact(wasm=wasm, source="x" * (MAX_SOURCE_CHARS + 1))
    assert caught.value.reason == "source_too_large"
    with pytest.raises(ModuleRejected) as caught:
        Artifact(wasm=wasm, source="\ud800")
    assert caught.value.reason == "source_not_text"
    made = Artifact(wasm=wasm, log="\ud800" + "x" * MAX_LOG_CHARS, language="l" * 500)
    assert len(made.log) == MAX_LOG_CHARS
    made.log.encode()
    assert made.language == "l" * 128


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_a_store_vouches_for_what_was_built_on_its_host(folder: Path, key_path: Path) -> None:
    made = built_here()
    with Store.open(folder, key_path=key_path) as store:
        store.put(made)
        store.put(Artifact.from_wasm(made.wasm, source="(a lie)"))  # does not take the place of what is known
    with Store.open(folder, key_path=key_path) as store:
        assert store.artifact(made.sha256) == made
    assert stat.S_IMODE(key_path.stat().st_mode) == 0o600


def test_another_host_takes_the_same_store_as_a_claim(folder: Path, key_path: Path, tmp_path: Path) -> None:
    made = built_here()
    with Store.open(folder, key_path=key_path) as store:
        store.put(made)
    with Store.open(folder, key_path=tmp_path / "another" / "key") as store:
        assert store.artifact(made.sha256) == replace(made, provenance="claimed")


def test_source_that_was_changed_in_the_store_is_a_claim(folder: Path, key_path: Path) -> None:
    made = built_here()
    with Store.open(folder, key_path=key_path) as store:
        store.put(made)
        with store._database.write() as connection:
            connection.execute("UPDATE artifacts SET source = '(a lie)'")
        assert store.artifact(made.sha256).provenance == "claimed"


def test_a_build_takes_the_place_of_a_claim(folder: Path, key_path: Path) -> None:
    made = built_here()
    with Store.open(folder, key_path=key_path) as store:
        store.put(Artifact.from_wasm(made.wasm))
        store.put(Artifact.from_wasm(made.wasm, source="(first claim)"))
        store.put(Artifact.from_wasm(made.wasm, source="(second claim)"))
        assert store.artifact(made.sha256).source == "(first claim)"
        store.put(made)
        assert store.artifact(made.sha256) == made


def test_a_seal_is_over_exactly_its_fields() -> None:
    seal = Seal.random()
    mac = seal.over("a", "bc")
    assert seal.holds(mac, "a", "bc")
    assert not seal.holds(mac, "ab", "c")
    assert not seal.holds(mac, "a", "bc", "")
    assert not seal.holds(None, "a", "bc")
    assert not Seal.random().holds(mac, "a", "bc")


def test_without_a_key_nothing_is_vouched_for() -> None:
    seal = Seal(None)
    assert seal.over("a") is None
    assert not seal.holds(None, "a")


def test_a_host_without_a_key_of_its_own_vouches_for_nothing(key_path: Path) -> None:
    mac = Seal.of_host(key_path).over("a")
    assert mac is not None
    assert Seal.of_host(key_path).holds(mac, "a")
    key_path.chmod(0o644)
    assert Seal.of_host(key_path).over("a") is None


def test_the_hosts_key_lies_in_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_key_path() == tmp_path / "rho_wasm" / "store.key"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_key_path() == Path.home() / ".local" / "state" / "rho_wasm" / "store.key"
