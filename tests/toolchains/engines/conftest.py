"""What the tests of the engines run: each engine is made once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from rho_wasm.errors import BuildError
from rho_wasm.sandbox import NativeCache
from rho_wasm.toolchains import EngineShelf
from rho_wasm.toolchains.engines import cpython as cpython_engine
from rho_wasm.toolchains.engines import quickjs as quickjs_engine
from tests.toolchains.engines.cpython_host import Python, opened
from tests.toolchains.engines.quickjs_bench import Bench


@pytest.fixture(scope="session")
def quickjs_wasm() -> bytes:
    try:
        given = quickjs_engine.SPEC.read()
    except BuildError as missing:
        pytest.skip(str(missing))
    return anyio.run(quickjs_engine.build_engine, given)


@pytest.fixture(scope="session")
def quickjs(quickjs_wasm: bytes) -> Bench:
    return Bench(quickjs_wasm)


@pytest.fixture(scope="session")
def cpython_shelf(tmp_path_factory: pytest.TempPathFactory) -> EngineShelf:
    """A shelf with CPython on it, and its native code in a cache: half a minute of work."""
    key = tmp_path_factory.mktemp("key") / "host.key"
    cache = NativeCache(tmp_path_factory.mktemp("native"), key)
    shelf = EngineShelf(tmp_path_factory.mktemp("engines"), key, cache=cache)
    try:
        anyio.run(shelf.get, cpython_engine.SPEC)
    except BuildError as missing:
        if missing.reason != "missing_extra":
            raise
        pytest.skip(str(missing))
    return shelf


@pytest.fixture(scope="module")
async def python(cpython_shelf: EngineShelf, anyio_backend: str) -> AsyncIterator[Python]:
    """Of one module's tests, which choose a backend for all of them."""
    async with opened(cpython_shelf) as python:
        yield python
