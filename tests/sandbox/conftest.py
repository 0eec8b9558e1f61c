"""One cache of native code for the whole session, and a sandbox on each way of calling guests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.ways import Way, why_not_native


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> NativeCache:
    return NativeCache(tmp_path_factory.mktemp("native"), tmp_path_factory.mktemp("key") / "host.key")


@pytest.fixture(params=["native", "public"])
def way(request: pytest.FixtureRequest) -> Way:
    """Each way of calling guests that there is here: what a call comes to must be the same on both."""
    if request.param == "native" and (reason := why_not_native()) is not None:
        pytest.skip(reason)
    chosen: Way = request.param
    return chosen


@pytest.fixture
async def sandbox(anyio_backend: str, shared_cache: NativeCache, way: Way) -> AsyncIterator[Sandbox]:
    async with Sandbox(cache=shared_cache, way=way) as opened:
        yield opened
