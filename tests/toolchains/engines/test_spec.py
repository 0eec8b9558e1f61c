"""An engine's file is the pinned one of an installed distribution, or there is no engine."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rho_wasm.errors import BuildError
from tests.toolchains.engines.toy import TOY_WASM, install_toy, toy_spec


def test_the_pinned_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install_toy(tmp_path)
    assert toy_spec().read() == TOY_WASM
    assert toy_spec().title == "toy (revision 1, toy-engine 1.0)"


def test_a_file_that_an_installer_linked_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install_toy(tmp_path)
    linked = tmp_path / "toy_engine" / "toy.wasm"
    linked.rename(tmp_path / "kept.wasm")
    linked.symlink_to(tmp_path / "kept.wasm")
    assert toy_spec().read() == TOY_WASM


def test_a_missing_distribution_says_the_pip_command() -> None:
    with pytest.raises(BuildError) as missing:
        toy_spec(distribution="no-such-engine").read()
    assert (missing.value.reason, missing.value.hint) == ("missing_extra", "pip install 'rho-wasm[toy]'")


def test_another_hash_is_refused_with_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install_toy(tmp_path, wasm=TOY_WASM + b"\0")
    with pytest.raises(BuildError) as refused:
        toy_spec().read()
    assert refused.value.reason == "engine_mismatch"
    assert toy_spec().sha256 in str(refused.value)
    assert hashlib.sha256(TOY_WASM + b"\0").hexdigest() in str(refused.value)
    assert refused.value.hint == "pip install --force-reinstall 'toy-engine==1.0'"


def test_a_file_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install_toy(tmp_path)
    (tmp_path / "toy_engine" / "toy.wasm").unlink()
    with pytest.raises(BuildError) as refused:
        toy_spec().read()
    assert refused.value.reason == "engine_unreadable"
