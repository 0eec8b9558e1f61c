"""An engine follows from its pinned file alone: not from which of wasmtime's compilers started it, nor from when."""

from __future__ import annotations

import pytest

from rho_wasm.errors import BuildError
from rho_wasm.sandbox.boot import HostCall
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.engines import cpython
from rho_wasm.toolchains.module_edits import stub_imports
from rho_wasm.toolchains.snapshot import boot_module, snapshot

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]

_SCRIPT = "import time, json, math; print('ready', math.inf - math.inf, flush=True); time.time()"


@pytest.fixture(scope="module")
def pinned() -> bytes:
    try:
        return cpython.SPEC.read()
    except BuildError as missing:
        pytest.skip(str(missing))


def _is_ready(call: HostCall) -> bool:
    return call.name == "clock_time_get" and call.output.startswith(b"ready")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_both_compilers_start_the_same_interpreter(pinned: bytes) -> None:
    module = read_module(pinned)
    stub_imports(module)
    made = []
    for baseline in (True, False):
        booted = await boot_module(
            module, on_host_call=_is_ready, arguments=["python", "-I", "-S", "-c", _SCRIPT], baseline=baseline
        )
        assert booted.stopped is not None
        made.append(snapshot(module, booted))
    assert made[0] == made[1]


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_cpython_is_made_the_same_twice(pinned: bytes) -> None:
    assert await cpython.SPEC.build(pinned) == await cpython.SPEC.build(pinned)
