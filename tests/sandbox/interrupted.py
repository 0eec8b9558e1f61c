"""Calls of guests in which a handler of a signal raises. Run in a process of its own, which must not die of it.

    python -m tests.sandbox.interrupted places|storm|depths asyncio|trio native|public|process GUEST

``places``: the handler is asked at each instruction at which Python looks for signals, and raises at one of those that
belong to a call, in the next call at another, until it raised at each. Where guests run in worker processes, it does
so with a worker that serves and then with none, and in this package's own code alone: what waits there for a worker is
an event loop, which does not bear it; nor does it where a guest waits for a capability. ``storm``: an alarm each 0.2 ms
raises.
``depths``: no signal, but calls from ever deeper in a recursion, until Python has no room for them.
"""

from __future__ import annotations

import _thread
import gc
import json
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import repeat, starmap
from types import CodeType, FrameType
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel

import rho_wasm
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import Sandbox, attempt, guest_call
from rho_wasm.sandbox.runtime import Runtime
from tests.sandbox.guests import Granting, Waiting, answering, asking

OURS = rho_wasm.__file__.removesuffix("__init__.py")
SLOTS = 1
"""One that was lost would be missed at once: of wasmtime's pool, and of the sandbox."""
STORM = {"native": 2_000, "public": 2_000, "process": 200}
PERIOD_S = 0.000_2
SOON = 400
"""Seconds: a bound for what must not hang. Most raises end a worker process, and starting another takes its time."""

LOGS = """(local.set $i (i32.const 0)) (loop $l
  (call $log (i32.const 20) (i32.const 0) (i32.const 0))
  (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3))))"""
LONG = """(loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 2000000))))"""
GUESTS = {
    **{name: answering({"ok": 1}, before=body) for name, body in (("short", LOGS), ("long", LONG + LOGS))},
    "trap": answering({"ok": 1}, before=LOGS + "unreachable"),
    "asks": asking("clock"),
    "waits": asking("clock"),
}


class Raised(BaseException):
    """What the handler raises."""


Place: TypeAlias = tuple[CodeType, int, CodeType | None, int]
"""An instruction, and the one that called its function."""


class Places:
    """A handler that finds the places where it is asked, and raises at one of them, once."""

    def __init__(self, *, own_code: bool) -> None:
        self._own_code = own_code
        self.found: dict[Place, bool] = {}
        """Each that was seen so far; whether it was raised there."""
        self.armed = False
        self.target: Place | None = None
        # A step trips the signal; unlike a call, it does so without a look at signals afterwards.
        self.trip = starmap(_thread.interrupt_main, repeat((signal.SIGUSR1,)))

    def aim(self) -> bool:
        """For the next call. False once there was a raise at each place."""
        self.target = next((place for place, raised in self.found.items() if not raised), None)
        self.armed = True
        return self.target is not None or not self.found

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.armed or frame is None:
            return
        if frame.f_code.co_filename.startswith(OURS) if self._own_code else ours(frame):
            caller = frame.f_back
            place = (frame.f_code, frame.f_lasti, caller and caller.f_code, caller.f_lasti if caller else 0)
            self.found.setdefault(place, False)
            if place == self.target:
                self.armed = False
                self.found[place] = True
                raise Raised
        trip = self.trip
        for _ in trip:
            return


def ours(frame: FrameType | None) -> bool:
    """Whether it runs for a call of the sandbox: this package's own code, or what that called. No destructor, where
    Python itself drops what is raised.
    """
    while frame is not None and frame.f_code.co_name != "__del__":
        if frame.f_code.co_filename.startswith(OURS):
            return True
        frame = frame.f_back
    return False


async def _later(capability: str, arguments: dict[str, Any]) -> Any:
    await anyio.lowlevel.checkpoint()
    return 1


class Calls:
    """A sandbox of few slots, and calls of one guest in it."""

    def __init__(self, sandbox: Sandbox, way: str, wasm: bytes, *, waits: bool) -> None:
        self.sandbox = sandbox
        self.way = way
        self._wasm = wasm
        self.waits = waits
        self._capabilities = Waiting(_later) if waits else Granting(lambda *_: 1)
        self.ended = Counter[str]()

    async def one(self) -> None:
        with await self.sandbox.load(self._wasm) as module:
            await self.of(module)

    async def of(self, module: Any) -> None:
        """One call: what it comes to is counted."""
        try:
            meter, limits = CallMeter(CallClock(60_000)), Limits(deadline_ms=60_000)
            given: dict[str, Any] = {"arguments": {}, "context": {}, "limits": limits, "meter": meter}
            given["capabilities"] = self._capabilities
            self.ended["ok" if await self.sandbox.call(module, tool="t", **given) == Ok(1) else "wrong"] += 1
        except Raised:
            self.ended["raised"] += 1
        except rho_wasm.ToolError as error:
            self.ended[error.reason] += 1

    async def all_slots(self) -> None:
        """More calls at once than there are slots."""
        async with anyio.create_task_group() as tasks:
            for _ in range(8 * SLOTS):
                tasks.start_soon(self.one)


async def places(calls: Calls) -> dict[str, Any]:
    pool = calls.sandbox._pool
    handler = Places(own_code=pool is not None or calls.waits)
    signal.signal(signal.SIGUSR1, handler)
    signal.set_wakeup_fd(-1)  # Of the event loop, which would read what is written there as fast as it comes.
    gc.disable()  # It runs destructors of others.
    with await calls.sandbox.load(calls._wasm) as module:
        await at_each(handler, calls, module)
        if pool is not None:
            await at_each(handler, calls, module, without_workers=True)
    raised = [place[0].co_qualname for place, raised in handler.found.items() if raised]
    return {"raised": len(raised), "places": sorted({*raised})}


async def at_each(handler: Places, calls: Calls, module: Any, *, without_workers: bool = False) -> None:
    pool = calls.sandbox._pool
    again = True
    while handler.aim() or again:
        again = False  # No place is known yet of those that are not passed before.
        if without_workers and pool is not None:
            for worker in pool._workers:
                worker.doomed = True
            pool._wake()
        _thread.interrupt_main(signal.SIGUSR1)
        try:
            await calls.of(module)
        finally:
            handler.armed = False
        if (target := handler.target) is not None and not handler.found[target]:
            del handler.found[target]  # Some places are passed now and then only.
        await anyio.lowlevel.checkpoint()
        while calls.sandbox._threads.statistics().abandoned:
            await anyio.lowlevel.checkpoint()  # Where there is one slot, more than two would be too many.


async def depths(calls: Calls) -> dict[str, Any]:
    async def from_depth(module: Any, frames: int) -> None:
        if frames:
            await from_depth(module, frames - 1)
        else:
            await calls.of(module)

    refused = 0
    with await calls.sandbox.load(calls._wasm) as module:
        for frames in range(sys.getrecursionlimit() - 120, sys.getrecursionlimit()):
            try:
                await from_depth(module, frames)
            except RecursionError:
                refused += 1
    return {"raised": refused}


async def storm(calls: Calls) -> dict[str, Any]:
    raised = 0

    def alarm(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        if frame is not None and frame.f_code.co_filename.startswith(OURS):  # An event loop does not bear it.
            raised += 1
            raise Raised

    with await calls.sandbox.load(calls._wasm) as module:
        signal.signal(signal.SIGALRM, alarm)
        signal.setitimer(signal.ITIMER_REAL, PERIOD_S, PERIOD_S)
        while raised < STORM[calls.way]:
            overloaded = calls.ended["overloaded"]
            await calls.of(module)
            if calls.ended["overloaded"] > overloaded:  # A thread has the slot still, and needs a core to give it back.
                await anyio.sleep(0.001)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return {"raised": raised}


host_call = Runtime.host_call


def ticking(runtime: Runtime, call_id: int, index: int, arguments: Sequence[int]) -> int | None:
    """A host call after which the guest is asked whether to go on."""
    runtime.tick()
    return host_call(runtime, call_id, index, arguments)


async def main(what: str, way: Any, guest: str) -> None:
    # Looking at each place takes its time, and a slice is short: calls are to end where they would without.
    attempt._MAX_OVERRUNS = 1_000_000
    if what == "places" and way != "process" and guest != "long":
        guest_call.SLICE_S = 10.0
        setattr(Runtime, "host_call", ticking)  # noqa: B010 - no type allows it
    limits = HostLimits(max_concurrent_calls=SLOTS, max_concurrent_per_tool=SLOTS)
    made: dict[str, Any] = {"workers": SLOTS} if way == "process" else {"way": way}
    with anyio.fail_after(SOON):
        async with Sandbox(limits=limits, **made) as sandbox:
            calls = Calls(sandbox, way, GUESTS[guest], waits=guest == "waits")
            await calls.one()
            calls.ended.clear()
            found = await {"places": places, "storm": storm, "depths": depths}[what](calls)
            ended = dict(calls.ended)
            calls.ended.clear()
            await calls.all_slots()
            if sandbox._pool is not None:
                found["workers"] = len(sandbox._pool._workers)
            seen = sandbox.statistics()
            print(
                json.dumps(
                    found
                    | {"ended": ended, "afterwards": dict(calls.ended)}
                    | {"running": seen.running, "waiting": seen.waiting, "modules": seen.modules, "way": seen.way}
                    | {"entered": len(sandbox._runtime.calls)}
                )
            )


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[3], sys.argv[4], backend=sys.argv[2])
