"""What becomes of native code: only what has the right exports is linked, and it lives as long as it is held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import wasmtime

from rho_wasm.errors import Closed, ModuleRejected
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.guest_call import GuestCall
from rho_wasm.sandbox.module import GuestModule, NativeModule
from rho_wasm.sandbox.runtime import Runtime
from rho_wasm.sandbox.state import CallState
from tests.sandbox.guests import ECHO, wat

MANIFEST = Manifest.from_json(
    {"abi": 1, "tools": [{"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}]}
)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    opened = Runtime(HostLimits())
    yield opened
    opened.close()


def native(runtime: Runtime, text: str | bytes) -> bytes:
    return bytes(wasmtime.Module(runtime.engine, text).serialize())


def test_code_of_no_or_another_engine_is_refused(runtime: Runtime) -> None:
    other = bytes(wasmtime.Module(wasmtime.Engine(), wat(ECHO)).serialize())
    for code in (b"", b"junk", other):
        with pytest.raises(ValueError, match="native code"):
            runtime.link(code)


@pytest.mark.parametrize(
    "text",
    [
        '(module (memory (export "memory") 1))',
        '(module (memory (export "memory") 1) (func (export "rho_alloc") (result i32) (i32.const 0)))',
        '(module (global (export "memory") i32 (i32.const 0)))',
    ],
)
def test_exports_of_other_types_than_the_abis_are_refused(runtime: Runtime, text: str) -> None:
    with pytest.raises(ModuleRejected) as caught:
        runtime.link(native(runtime, text))
    assert caught.value.reason == "export_type"


def test_a_closed_runtime_runs_nothing(runtime: Runtime) -> None:
    linked = runtime.link(native(runtime, wat(ECHO)))
    runtime.close()
    with pytest.raises(Closed):
        GuestCall(runtime, linked, CallState(limits=Limits()), deadline_ms=1_000).run(b"x")


def test_native_code_ends_once_with_its_last_holder(runtime: Runtime) -> None:
    ended: list[NativeModule] = []
    shared = NativeModule("00", MANIFEST, runtime.link(native(runtime, wat(ECHO))), names=b"", on_end=ended.append)
    guest = GuestModule(shared)
    held = guest.held()
    guest.close()
    guest.close()
    with pytest.raises(Closed):
        guest.held()
    assert ended == []
    held.release()
    assert ended == [shared]
    assert not shared.hold()
