"""What the tests of the dynamic source share: a clock that stands still, a host's key, compiled code kept for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from rho_wasm.sandbox import NativeCache
from rho_wasm.testing import FixedClock


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def key_path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "store.key"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> NativeCache:
    """The guests of these tests are few and small, so each is compiled once."""
    folder = tmp_path_factory.mktemp("native")
    return NativeCache(folder / "cache", folder / "keys" / "host.key")
