"""A handler of a signal may raise anywhere in a call: it reaches whoever called, nothing is lost, and nothing dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from rho_wasm.sandbox.ways import why_not_native
from tests.sandbox.interrupted import STORM

pytestmark = pytest.mark.timeout(600)  # More than the bounds within.
UNLESS_NATIVE = pytest.mark.skipif(why_not_native() is not None, reason=str(why_not_native()))
EVERYWHERE = [
    *(pytest.param(backend, "native", "short", marks=UNLESS_NATIVE) for backend in ("asyncio", "trio")),
    *(
        pytest.param(backend, "native", guest, marks=[pytest.mark.slow, UNLESS_NATIVE])
        for backend in ("asyncio", "trio")
        for guest in ("long", "trap", "asks", "waits")
    ),
    *(
        pytest.param(backend, way, guest, marks=pytest.mark.slow)
        for backend in ("asyncio", "trio")
        for way, guest in (("public", "short"), ("public", "waits"), ("process", "asks"))
    ),
]


def interrupted(*arguments: str) -> dict[str, Any]:
    """What tests/sandbox/interrupted.py found. Fails if its process dies."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.interrupted", *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.defpath},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("backend", "way", "guest"), EVERYWHERE)
@pytest.mark.slow
def test_what_is_raised_anywhere_in_a_call_reaches_its_caller_and_the_sandbox_serves_on(
    backend: str, way: str, guest: str
) -> None:
    found = interrupted("places", backend, way, guest)
    end = "trapped" if guest == "trap" else "ok"
    # Python itself swallows what is raised while an object is collected, wherever that happens to be.
    assert 50 < found["ended"]["raised"] <= found["raised"] <= found["ended"]["raised"] + 2
    assert {*found["ended"]} <= {"raised", end}, "nothing else came of it"
    assert found["afterwards"] == {end: 8}
    assert (found["running"], found["waiting"], found["entered"], found["modules"]) == (0, 0, 0, 0)
    assert found["way"] == way
    if guest in ("asks", "waits") and way == "native":
        assert {"SuspendingTrampolines._suspending", "AskingCall._replied", "Asking.go_on"} <= {*found["places"]}
        assert {"SuspendingFiber.go_on", "SuspendingFiber.instantiate"} <= {*found["places"]}
    elif way == "native":
        # In what wasmtime calls, in what gives back, and on the way from one to the other.
        assert {"FiberInstance.go_on", "GuestCall.go_on", "Sandbox.call"} <= {*found["places"]}
    if (way, guest) == ("native", "short"):
        assert {"Trampolines._host", "Runtime.epoch", "GuestCall.host_call", "GuestCall.ask"} <= {*found["places"]}
        assert {"GuestCall._end", "FiberInstance.let_go", "FiberInstance.close", "Slots.take_now"} <= {*found["places"]}
    if way == "process":
        assert found["workers"] == 1
        # On the way to a worker that is there or is started, where it is heard, and where it is answered.
        assert {"WorkerPool._take_idle", "WorkerPool._start_one", "WorkerProcess.ready"} <= {*found["places"]}
        assert {"WorkerProcess.flush", "WorkerProcess.hear", "WorkerCall._reply"} <= {*found["places"]}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("way", "guest"),
    [
        *(pytest.param("native", guest, marks=UNLESS_NATIVE) for guest in ("short", "long", "trap", "asks")),
        ("public", "short"),
        ("process", "asks"),
    ],
)
def test_alarms_that_raise_in_every_call_are_survived(backend: str, way: str, guest: str) -> None:
    found = interrupted("storm", backend, way, guest)
    end = "trapped" if guest == "trap" else "ok"
    assert found["raised"] >= STORM[way]
    # A thread that ends what two alarms left may hold the only slot of wasmtime's pool on a busy machine: the next call
    # is then told so, which counts against no tool.
    assert {*found["ended"]} <= {"raised", end, "overloaded"}
    assert found["ended"].get("overloaded", 0) < found["raised"] / 100
    assert found["afterwards"] == {end: 8}
    assert (found["running"], found["waiting"], found["entered"]) == (0, 0, 0)


@UNLESS_NATIVE
@pytest.mark.slow
def test_a_call_for_which_python_has_no_room_is_refused_before_its_guest_runs() -> None:
    found = interrupted("depths", "asyncio", "native", "short")
    assert found["raised"] > 10
    assert {*found["ended"]} <= {"ok", "capability_fault"}
    assert found["ended"]["ok"] > 10
    assert found["afterwards"] == {"ok": 8}
    assert (found["running"], found["entered"]) == (0, 0)
