"""The SDK keeps both event loops apart from its users, so trio's turn is the slow suite's."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio
