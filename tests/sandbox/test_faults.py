"""Traps and errors as reasons."""

from __future__ import annotations

import pytest

from rho_wasm.limits import Limits
from rho_wasm.results import KINDS
from rho_wasm.sandbox.capi import Frame, GuestFault
from rho_wasm.sandbox.faults import CallFailed, backtrace, explain, stopped, time_was_over
from rho_wasm.sandbox.interpreter_frames import Function, Place, Stopped
from rho_wasm.sandbox.state import GuestTrap
from tests.sandbox.test_names import name_section

LIMITS = Limits()


def explained(
    code: int | None,
    message: str = "",
    *,
    cause: GuestTrap | None = None,
    refused: bool = False,
    instantiating: bool = False,
) -> CallFailed:
    fault = GuestFault(code, message, (Frame(1, 2),))
    return explain(fault, cause=cause, limits=LIMITS, memory_refused=refused, instantiating=instantiating)


@pytest.mark.parametrize("code", range(54))
def test_every_trap_code_has_a_reason_that_results_know(code: int) -> None:
    assert explained(code).reason == ("out_of_fuel" if code == 11 else "trapped")
    assert KINDS[explained(code).reason] == "crashed"
    assert explained(code).trace == ("function 1 (+0x2)",)


def test_after_a_refused_grow_a_trap_is_out_of_memory_but_an_overflowed_stack_is_not() -> None:
    assert explained(9, refused=True).reason == "out_of_memory"
    assert explained(1, refused=True).reason == "out_of_memory"
    assert explained(0, refused=True).reason == "trapped"
    assert explained(11, refused=True).reason == "out_of_fuel"


def test_why_the_host_stopped_a_guest_goes_before_what_wasmtime_saw() -> None:
    cause = GuestTrap("deadline", limit="deadline_ms", value=7)
    failed = explained(9, cause=cause, refused=True)
    assert (failed.reason, failed.limit, failed.value) == ("deadline", "deadline_ms", 7)
    assert failed.detail


@pytest.mark.parametrize(
    ("deadline_s", "waited_s", "detail"),
    [
        (5.0, 0.0, "its time was over, perhaps by a loop that does not end"),
        (5.0, 4.0, "its time was over, most of which it had waited for the host"),
        (0.0, 0.0, "its time was over before it began"),
    ],
)
def test_a_loop_is_named_at_a_deadline_only_where_the_guest_took_the_time(
    deadline_s: float, waited_s: float, detail: str
) -> None:
    failed = stopped(time_was_over(deadline_s, waited_s=waited_s))
    assert (failed.reason, failed.detail, failed.value) == ("deadline", detail, deadline_s * 1000)


def test_an_error_that_is_no_trap_is_the_hosts() -> None:
    failed = explained(None, "mmap failed\x1b[31m" + "x" * 1_000)
    assert KINDS[failed.reason] == "host"
    assert failed.detail.isprintable()
    assert len(failed.detail) < 300


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("memory minimum size of 17 pages exceeds memory limits", "memory_bytes"),
        ("table minimum size of 100 elements exceeds table limits", "table_elements"),
    ],
)
def test_what_a_module_starts_with_over_a_limit_is_out_of_memory(message: str, limit: str) -> None:
    failed = explained(None, message, instantiating=True)
    assert (failed.reason, failed.limit) == ("out_of_memory", limit)
    assert KINDS[explained(None, message).reason] == "host"


def test_frames_without_a_name_have_a_number() -> None:
    names = name_section({8: b""})
    assert backtrace([Frame(7, 255), Frame(8, 0)], names) == ("function 7 (+0xff)", "function 8 (+0x0)")


def test_a_hostile_name_is_inert_and_bounded() -> None:
    names = name_section({1: "\x1b[2J\u202e".encode() + b"x" * 90_000})
    (line,) = backtrace([Frame(1, 0)], names)
    assert line.isprintable()
    assert len(line) <= 128 + len(" (+0x0)")


@pytest.mark.parametrize("code", [None, 0, 9, 11])
def test_a_tools_own_frames_stand_in_the_place_of_its_interpreters(code: int | None) -> None:
    fault = GuestFault(code, "", (Frame(1452, 1),))
    for where, trace in (
        (Stopped(), ()),
        (Stopped((Place(Function("tool.py", "t", 3, b"", 0), 0),)), ("tool.py:3 in t",)),
    ):
        failed = explain(fault, cause=None, limits=LIMITS, memory_refused=False, interpreted=where)
        assert failed.trace == trace
        assert failed.reason == explained(code).reason
