"""One cache of native code for the whole session, and a sandbox on each way of calling guests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import anyio
import pytest

from rho_wasm.sandbox import NativeCache, Sandbox, worker_call, worker_process
from rho_wasm.sandbox.ways import Way, why_not_native
from tests.sandbox.guests import answering, called
from tests.sandbox.toy_engine import find


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> NativeCache:
    return NativeCache(tmp_path_factory.mktemp("native"), tmp_path_factory.mktemp("key") / "host.key")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has to wait long for its core is taken neither for a deaf one nor for one that does not end."""
    monkeypatch.setattr(worker_call, "_GRACE_S", 30.0)
    monkeypatch.setattr(worker_process, "_EXIT_S", 30.0)


@pytest.fixture(params=["native", "public"])
def way(request: pytest.FixtureRequest) -> Way:
    """Each way of calling guests in this process that there is here: what a call comes to must be the same on both."""
    if request.param == "native" and (reason := why_not_native()) is not None:
        pytest.skip(reason)
    chosen: Way = request.param
    return chosen


@pytest.fixture
async def here(anyio_backend: str, shared_cache: NativeCache, way: Way) -> AsyncIterator[Sandbox]:
    """A sandbox of this process's own."""
    async with Sandbox(cache=shared_cache, way=way, engines=find) as opened:
        yield opened


@pytest.fixture(scope="session")
def with_workers(shared_cache: NativeCache) -> Iterator[Sandbox]:
    """One for the whole session, on whichever event loop: starting a process takes longer than most tests."""
    sandbox = Sandbox(cache=shared_cache, workers=2, engines=find)

    async def until_all_serve() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(called, sandbox, answering({"ok": 1}))

    # In a thread: the first that asks for it may be a fixture on an event loop.
    with ThreadPoolExecutor(1) as aside:
        aside.submit(anyio.run, until_all_serve).result()
        yield sandbox
        aside.submit(anyio.run, sandbox.aclose).result()


@pytest.fixture(params=["native", "public", "process"])
async def sandbox(
    request: pytest.FixtureRequest, anyio_backend: str, shared_cache: NativeCache
) -> AsyncIterator[Sandbox]:
    """The three ways of calling guests."""
    async with _opened(request, shared_cache) as opened:
        yield opened


@pytest.fixture(params=["native", *(pytest.param(each, marks=pytest.mark.slow) for each in ("public", "process"))])
async def native_first(
    request: pytest.FixtureRequest, anyio_backend: str, shared_cache: NativeCache
) -> AsyncIterator[Sandbox]:
    """The same, of which the fast suite looks at one."""
    async with _opened(request, shared_cache) as opened:
        yield opened


@asynccontextmanager
async def _opened(request: pytest.FixtureRequest, cache: NativeCache) -> AsyncIterator[Sandbox]:
    if request.param == "process":
        sandbox = request.getfixturevalue("with_workers")
        yield sandbox
        assert sandbox.statistics().modules == 0, "the next test has this sandbox too, and would count what is left"
        return
    if request.param == "native" and (reason := why_not_native()) is not None:
        pytest.skip(reason)
    async with Sandbox(cache=cache, way=request.param, engines=find) as opened:
        yield opened
