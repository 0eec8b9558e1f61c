"""One cache of native code for the whole session: the same guest on the other event loop does not compile again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rho_wasm.sandbox import NativeCache, Sandbox


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> NativeCache:
    return NativeCache(tmp_path_factory.mktemp("native"), tmp_path_factory.mktemp("key") / "host.key")


@pytest.fixture
async def sandbox(anyio_backend: str, shared_cache: NativeCache) -> AsyncIterator[Sandbox]:
    async with Sandbox(cache=shared_cache) as opened:
        yield opened
