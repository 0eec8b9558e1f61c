"""A guest's fault never ends the host, whoever enables faulthandler, and when. Each case needs a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere wasmtime does not use signals"),
]

SETUP = """
    import faulthandler, sys
    import wasmtime
    from rho_wasm.limits import HostLimits, Limits
    from rho_wasm.sandbox.faults import CallFailed
    from rho_wasm.sandbox.guest_call import GuestCall
    from rho_wasm.sandbox.runtime import Runtime
    from rho_wasm.sandbox.capi import make_engine
    from rho_wasm.sandbox.state import CallState

    OUT_OF_BOUNDS = '''(module (memory (export "memory") 1)
      (func (export "rho_alloc") (param i32) (result i32) (i32.const 1024))
      (func (export "rho_call") (param i32 i32) (result i64) (i64.load (i32.const 0x7fffffff))))'''

    def reason(runtime):
        native = wasmtime.Module(runtime.engine, OUT_OF_BOUNDS).serialize()
        linked = runtime.link(bytes(native))
        call = GuestCall(runtime, linked, CallState(limits=Limits()), deadline_ms=60_000)
        try:
            call.run(b"x")
        except CallFailed as failed:
            return failed.reason

    def signals(runtime):
        return bool(runtime.config["signals_based_traps"])
"""


def outcome(code: str, *, close_stderr: bool = False) -> str:
    """What ``code`` prints in a fresh process. Fails if the process dies."""
    script = textwrap.dedent(SETUP) + textwrap.dedent(code)
    argv = [sys.executable, "-c", script]
    if close_stderr:
        argv = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *argv]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.defpath},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_faulthandler_enabled_afterwards_does_no_harm() -> None:
    code = """
        runtime = Runtime(HostLimits())
        faulthandler.enable()
        print(signals(runtime), reason(runtime), faulthandler.is_enabled())
    """
    assert outcome(code) == "True trapped True"


def test_faulthandler_enabled_before_does_no_harm() -> None:
    code = """
        faulthandler.enable()
        runtime = Runtime(HostLimits())
        print(signals(runtime), reason(runtime))
    """
    assert outcome(code) == "True trapped"


def test_an_engine_of_somebody_else_before_ours_is_left_alone() -> None:
    # Enabling faulthandler now would break that engine, so ours does without signals.
    code = """
        theirs = wasmtime.Engine()
        runtime = Runtime(HostLimits())
        print(signals(runtime), faulthandler.is_enabled(), reason(runtime))
        faulthandler.enable()
        print(reason(runtime))
    """
    assert outcome(code).split() == ["False", "False", "trapped", "trapped"]


def test_faulthandler_enabled_between_their_engine_and_ours_is_noticed() -> None:
    code = """
        theirs = wasmtime.Engine()
        faulthandler.enable()
        runtime = Runtime(HostLimits())
        print(signals(runtime), reason(runtime))
    """
    assert outcome(code) == "False trapped"


def test_without_standard_error_guests_do_without_signals() -> None:
    code = """
        runtime = Runtime(HostLimits())
        faults = reason(runtime)
        print(signals(runtime), faults)
    """
    assert outcome(code, close_stderr=True) == "False trapped"


def test_a_handler_that_was_replaced_refuses_calls_in_place_of_dying() -> None:
    code = """
        runtime = Runtime(HostLimits())
        before = reason(runtime)
        faulthandler.disable()
        print(before, reason(runtime))
    """
    assert outcome(code) == "trapped capability_fault"


def test_a_second_sandbox_in_the_process_uses_signals_too() -> None:
    code = """
        first, second = Runtime(HostLimits()), Runtime(HostLimits())
        first.close()
        print(signals(second), reason(second))
    """
    assert outcome(code) == "True trapped"
