"""What the tests of the engines run: each engine is made once."""

from __future__ import annotations

import anyio
import pytest

from rho_wasm.errors import BuildError
from rho_wasm.toolchains.engines import quickjs as quickjs_engine
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
