"""One call in a fresh instance: the ABI's steps, and each way in which it can go wrong."""

from __future__ import annotations

import pytest

from rho_wasm.limits import Limits
from rho_wasm.results import Failed, Halt, Ok
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.guest_call import HOST_CALL_FUEL
from tests.sandbox.guests import ECHO, MEBIBYTE, answering, called, data, guest, run

SPIN = "(loop $l (br $l)) unreachable"
ENDLESS_FUEL = 10**15


async def test_the_answer_of_a_guest_is_the_result(sandbox: Sandbox) -> None:
    assert (await called(sandbox, answering({"ok": [1, "two", b"3"]}))).result == Ok([1, "two", b"3"])
    assert (await called(sandbox, answering({"error": "no"}))).result == Failed("no")
    assert (await called(sandbox, answering({"halt": "done", "value": 7}))).result == Halt("done", 7)


async def test_each_call_starts_from_a_fresh_memory(sandbox: Sandbox) -> None:
    # The guest traps if the byte that it writes is there already.
    wasm = answering(
        {"ok": 1}, before="(if (i32.load8_u (i32.const 9)) (then unreachable)) (i32.store8 (i32.const 9) (i32.const 1))"
    )
    for _ in range(3):
        assert (await called(sandbox, wasm)).result == Ok(1)


async def test_initialize_runs_once_before_anything_else(sandbox: Sandbox) -> None:
    wasm = answering(
        {"ok": 1},
        before="(if (i32.ne (global.get $began) (i32.const 1)) (then unreachable))",
        extra="""(global $began (mut i32) (i32.const 0))
                 (func (export "_initialize") (global.set $began (i32.add (global.get $began) (i32.const 1))))""",
        alloc="(if (i32.eqz (global.get $began)) (then unreachable)) i32.const 1024",
    )
    assert (await called(sandbox, wasm)).result == Ok(1)


async def test_a_panic_is_trapped_and_names_its_functions(sandbox: Sandbox) -> None:
    ended = await run(sandbox, "(call $inner) (i64.const 0)", extra="(func $inner unreachable)")
    assert ended.reason == "trapped"
    assert [line.split(" ")[0] for line in ended.meter.backtrace] == ["inner", "call"]
    assert ended.error is not None
    assert ended.error.backtrace == ended.meter.backtrace


async def test_a_loop_without_end_runs_out_of_fuel(sandbox: Sandbox) -> None:
    ended = await run(sandbox, SPIN, limits=Limits(fuel=1_000_000))
    assert ended.reason == "out_of_fuel"
    assert ended.error is not None
    assert (ended.error.limit, ended.error.value) == ("fuel", 1_000_000)
    assert ended.meter.fuel_used == 1_000_000


async def test_a_loop_without_end_meets_its_deadline(sandbox: Sandbox) -> None:
    ended = await run(sandbox, SPIN, limits=Limits(fuel=ENDLESS_FUEL, deadline_ms=50))
    assert ended.reason == "deadline"
    assert ended.error is not None
    assert (ended.error.limit, ended.error.value) == ("deadline_ms", 50)
    assert ended.error.detail == "its time was over, perhaps by a loop that does not end"
    assert ended.meter.guest_ms >= 50
    assert ended.meter.fuel_used is None, "a number would be one of long before"
    assert ended.meter.backtrace


async def test_the_lower_of_limits_and_clock_is_the_deadline(sandbox: Sandbox) -> None:
    ended = await called(sandbox, guest(SPIN), limits=Limits(fuel=ENDLESS_FUEL), timeout_ms=30)
    assert ended.error is not None
    assert (ended.error.reason, ended.error.value) == ("deadline", 30)


@pytest.mark.parametrize("where", ["alloc", "initialize"])
async def test_fuel_and_deadline_cover_what_runs_before_the_call_too(sandbox: Sandbox, where: str) -> None:
    spin = "(loop $l (br $l)) unreachable"
    wasm = guest(ECHO, alloc=spin) if where == "alloc" else guest(ECHO, extra=f'(func (export "_initialize") {spin})')
    assert (await called(sandbox, wasm, limits=Limits(fuel=100_000))).reason == "out_of_fuel"
    assert (await called(sandbox, wasm, limits=Limits(fuel=ENDLESS_FUEL, deadline_ms=20))).reason == "deadline"


async def test_endless_recursion_is_trapped(sandbox: Sandbox) -> None:
    ended = await run(sandbox, "(call $call (local.get $p) (local.get $n))")
    assert ended.reason == "trapped"
    assert ended.error is not None
    assert "stack overflowed" in ended.error.detail
    assert 0 < len(ended.meter.backtrace) <= 32


async def test_proc_exit_is_handler_exit(sandbox: Sandbox) -> None:
    ended = await run(sandbox, "(call $proc_exit (i32.const 0)) (i64.const 0)")
    assert ended.reason == "handler_exit"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("(i64.const 0x100000000)", "empty"),
        ("(i64.const 0)", "empty"),
        ("(i64.const 0x0001000000000001)", "leave a memory"),  # begins at the end of the one page
        ("(i64.const 0x0000ffff00000002)", "leave a memory"),  # ends one byte behind it
        ("(i64.const 0xffffffff00000010)", "leave a memory"),  # would wrap at 4 GiB
        ("(i64.const 0x00000000ffffffff)", "too large"),
        (ECHO, ""),  # the request is no answer
    ],
)
async def test_an_answer_out_of_bounds_or_of_no_shape_is_a_bad_answer(sandbox: Sandbox, body: str, detail: str) -> None:
    ended = await run(sandbox, body)
    assert ended.reason == "bad_answer"
    assert ended.error is not None
    assert detail in ended.error.detail


async def test_an_answer_may_lie_where_there_was_no_memory_before_the_call(sandbox: Sandbox) -> None:
    # {"ok": 1} at 70,000, behind the one page that the guest starts with.
    writes = "(i32.store (i32.const 70000) (i32.const 0x6b6f62a1)) (i32.store8 (i32.const 70004) (i32.const 1))"
    body = f"(drop (memory.grow (i32.const 1))) {writes} (i64.const 0x1117000000005)"
    assert (await run(sandbox, body)).result == Ok(1)
    beyond = await run(sandbox, "(drop (memory.grow (i32.const 1))) (i64.const 0x1ffff00000005)")
    assert beyond.reason == "bad_answer"
    assert beyond.error is not None
    assert "leave a memory of 131072 bytes" in beyond.error.detail


async def test_an_answer_over_the_limit_is_not_even_copied(sandbox: Sandbox) -> None:
    limits = Limits(answer_bytes=100, images_bytes=0)
    ended = await run(sandbox, "(i64.const 101)", limits=limits)
    assert ended.error is not None
    assert (ended.error.reason, ended.error.limit, ended.error.value) == ("bad_answer", "answer_bytes", 100)


@pytest.mark.parametrize("pointer", ["65535", "-1", "0x7fffffff"])
async def test_a_place_for_the_request_out_of_bounds_is_a_bad_answer(sandbox: Sandbox, pointer: str) -> None:
    ended = await run(sandbox, ECHO, alloc=f"i32.const {pointer}")
    assert ended.reason == "bad_answer"
    assert ended.error is not None
    assert "rho_alloc" in ended.error.detail


async def test_a_handler_that_crashed_in_the_guest_is_handler_raised(sandbox: Sandbox) -> None:
    raised = {"raised": {"message": "no such key", "type": "KeyError", "trace": ["tool.py:3"]}}
    ended = await called(sandbox, answering(raised))
    assert ended.error is not None
    assert ended.error.reason == "handler_raised"
    assert "KeyError: no such key" in ended.error.detail
    assert ended.meter.backtrace == ("tool.py:3",)


@pytest.mark.parametrize(
    ("arguments", "limit"),
    [({"a": "x" * 200}, "request_bytes"), ({"a": [[[[1]]]]}, "depth"), ({"a": [1] * 50}, "items")],
)
async def test_a_request_over_a_bound_is_refused_before_anything_runs(
    sandbox: Sandbox, arguments: dict[str, object], limit: str
) -> None:
    limits = Limits(request_bytes=200, depth=4, items=40)
    ended = await called(sandbox, guest("unreachable"), arguments=arguments, limits=limits)
    assert ended.error is not None
    assert (ended.error.reason, ended.error.limit) == ("invalid_arguments", limit)
    assert ended.meter.fuel_used == 0


async def test_a_value_that_is_not_plain_is_refused_before_anything_runs(sandbox: Sandbox) -> None:
    assert (await called(sandbox, guest("unreachable"), arguments={"a": object()})).reason == "invalid_arguments"


async def test_the_same_request_costs_the_same_fuel_and_reads_the_same_randomness(sandbox: Sandbox) -> None:
    # The answer is the request's place with 8 random bytes as a byte string: {"ok": h'........'}
    body = """(i32.store (i32.const 200) (i32.const 0x6b6f62a1)) (i32.store8 (i32.const 204) (i32.const 0x48))
              (drop (call $random_get (i32.const 205) (i32.const 8))) (i64.const 0xc80000000d)"""
    one, two = await run(sandbox, body), await run(sandbox, body)
    assert one.result == two.result
    assert one.meter.fuel_used == two.meter.fuel_used
    other = await called(sandbox, guest(body), arguments={"seed": 2})
    assert isinstance(other.result, Ok)
    assert other.result != one.result
    assert "not random" in one.meter.log.lines[0].text


async def test_a_storm_of_host_calls_ends_on_fuel(sandbox: Sandbox) -> None:
    storm = "(loop $l (call $log (i32.const 20) (i32.const 0) (i32.const 0)) (br $l)) unreachable"
    ended = await run(sandbox, storm, limits=Limits(fuel=100 * HOST_CALL_FUEL))
    assert ended.reason == "out_of_fuel"
    assert 90 <= len(ended.meter.log) <= 101


async def test_what_a_host_call_reads_costs_fuel(sandbox: Sandbox) -> None:
    def logging(length: int) -> bytes:
        return answering({"ok": 1}, before=f"(call $log (i32.const 20) (i32.const 0) (i32.const {length}))")

    small, large = await called(sandbox, logging(10)), await called(sandbox, logging(1_010))
    assert large.meter.fuel_used is not None
    assert small.meter.fuel_used is not None
    assert large.meter.fuel_used - small.meter.fuel_used >= 1_000


async def test_a_pointer_of_a_host_call_out_of_bounds_is_trapped(sandbox: Sandbox) -> None:
    ended = await run(sandbox, "(call $log (i32.const 20) (i32.const -8) (i32.const 20)) (i64.const 0)")
    assert ended.reason == "trapped"
    assert ended.error is not None
    assert "20 bytes at 4294967288 leave a memory of 65536 bytes" in ended.error.detail


async def test_a_huge_log_costs_what_fits_and_the_rest_is_counted(sandbox: Sandbox) -> None:
    wasm = answering(
        {"ok": 1}, before=f"(call $log (i32.const 40) (i32.const 0) (i32.const {60 * MEBIBYTE}))", memory="960"
    )
    ended = await called(sandbox, wasm, limits=Limits(log_bytes=16))
    assert ended.result == Ok(1)
    assert ended.meter.log.dropped_bytes == 60 * MEBIBYTE - 16


async def test_a_segment_that_does_not_fit_is_trapped(sandbox: Sandbox) -> None:
    assert (await run(sandbox, ECHO, extra=data(65_530, bytes(10)))).reason == "trapped"


async def test_names_of_functions_are_inert_and_bounded(sandbox: Sandbox) -> None:
    hostile = "\\1b[31m" + "x" * 5_000
    ended = await run(sandbox, f'(call $"{hostile}") (i64.const 0)', extra=f'(func $"{hostile}" unreachable)')
    line = ended.meter.backtrace[0]
    assert len(line) < 160
    assert "\x1b" not in line
    assert line.isprintable()
