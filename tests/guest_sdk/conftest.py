"""The guests of these tests are built once, by the toolchain that authors use."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.toolchains import build
from tests.sandbox.conftest import sandbox, shared_cache, way, with_workers

__all__ = ["asking_artifact", "sandbox", "shared_cache", "values_artifact", "way", "with_workers"]

GUESTS = Path(__file__).parent / "guests"


def _build(name: str, *tools: str) -> Artifact:
    declared = [{"name": tool, "description": "Of a test.", "input_schema": {"type": "object"}} for tool in tools]

    async def run() -> Artifact:
        return await build(GUESTS / name, manifest={"tools": declared, "capabilities": ["some.capability"]})

    return anyio.run(run)


@pytest.fixture(scope="session")
def values_artifact() -> Artifact:
    return _build("values.c", "echo", "copy", "getters", "answers", "misuse", "allocate", "interleave")


@pytest.fixture(scope="session")
def asking_artifact() -> Artifact:
    return _build("asks_host.c", "asks_host")
