"""The tools know of no event loop but by what is tested below them, so trio's turn is the slow suite's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


@pytest.fixture
def engines(made_engines: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is of a user who installed the engines. Only for tests marked ``slow``."""
    for name, value in made_engines.items():
        monkeypatch.setenv(name, value)
