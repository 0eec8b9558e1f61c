"""host_call, host_take and log as a guest sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.errors import CapabilityError
from rho_wasm.limits import Limits
from rho_wasm.results import LogLine, Ok
from rho_wasm.sandbox import Sandbox
from tests.sandbox.guests import Ended, Granting, answering, called, data, guest, run

REQUEST_AT, REPLY_AT = 100, 4_096
# Answers {"ok": the reply's bytes}: a map of one, "ok", a byte string of two length bytes.
TAKE_AND_ANSWER = f"""
  (local.set $i (call $host_take (i32.const {REPLY_AT}) (i32.const 60000)))
  (i32.store (i32.const {REPLY_AT - 7}) (i32.const 0x6b6f62a1))
  (i32.store8 (i32.const {REPLY_AT - 3}) (i32.const 0x59))
  (i32.store8 (i32.const {REPLY_AT - 2}) (i32.shr_u (local.get $i) (i32.const 8)))
  (i32.store8 (i32.const {REPLY_AT - 1}) (local.get $i))
  (i64.or (i64.const {REPLY_AT - 7 << 32}) (i64.extend_i32_u (i32.add (local.get $i) (i32.const 7))))
"""


def asking(request: bytes, *, length: int | None = None, capabilities: tuple[str, ...] = (), before: str = "") -> bytes:
    """A guest that makes one host call and answers the reply that it took."""
    size = len(request) if length is None else length
    body = f"{before} (drop (call $host_call (i32.const {REQUEST_AT}) (i32.const {size}))) {TAKE_AND_ANSWER}"
    return guest(body, extra=data(REQUEST_AT, request), capabilities=capabilities)


def request(capability: str = "clock", **arguments: Any) -> bytes:
    return plain.encode({"capability": capability, "arguments": arguments})


def reply(ended: Ended) -> Any:
    assert isinstance(ended.result, Ok), ended.error
    return plain.decode(ended.result.value)


def kind(ended: Ended) -> str:
    return str(reply(ended)["error"]["kind"])


async def test_a_capability_that_is_not_declared_is_undeclared(sandbox: Sandbox) -> None:
    assert kind(await called(sandbox, asking(request()))) == "undeclared"


async def test_a_declared_capability_without_a_grant_is_denied(sandbox: Sandbox) -> None:
    assert kind(await called(sandbox, asking(request(), capabilities=("clock",)))) == "denied"


@pytest.mark.parametrize(
    "asked",
    [
        b"",
        b"\xff",
        plain.encode([]),
        plain.encode({"capability": "clock"}),
        plain.encode({"capability": "clock", "arguments": {}, "more": 1}),
        plain.encode({"capability": 1, "arguments": {}}),
        plain.encode({"capability": "clock", "arguments": []}),
    ],
)
async def test_a_host_request_of_another_shape_is_invalid(sandbox: Sandbox, asked: bytes) -> None:
    assert kind(await called(sandbox, asking(asked, capabilities=("clock",)))) == "invalid_arguments"


async def test_a_host_request_over_the_limit_is_not_read(sandbox: Sandbox) -> None:
    ended = await called(sandbox, asking(b"", length=2**31))
    assert kind(ended) == "invalid_arguments"


async def test_host_calls_before_rho_call_are_denied(sandbox: Sandbox) -> None:
    asked = request()
    wasm = guest(
        TAKE_AND_ANSWER,
        extra=f"""{data(REQUEST_AT, asked)} (func (export "_initialize")
                  (drop (call $host_call (i32.const {REQUEST_AT}) (i32.const {len(asked)}))))""",
        capabilities=("clock",),
    )
    granted = await called(sandbox, wasm, capabilities=Granting(lambda capability, arguments: 1))
    assert kind(granted) == "denied"


async def test_a_granted_capability_is_answered_with_what_it_was_asked(sandbox: Sandbox) -> None:
    seen: list[tuple[str, Mapping[str, Any]]] = []

    def capabilities(capability: str, arguments: Mapping[str, Any]) -> Any:
        seen.append((capability, arguments))
        return {"now": 12}

    wasm = asking(request(zone="UTC"), capabilities=("clock",))
    assert reply(await called(sandbox, wasm, capabilities=Granting(capabilities))) == {"ok": {"now": 12}}
    assert seen == [("clock", {"zone": "UTC"})]


async def test_a_capability_says_no_with_its_own_kind(sandbox: Sandbox) -> None:
    def capabilities(capability: str, arguments: Mapping[str, Any]) -> Any:
        raise CapabilityError("unavailable", "the clock is broken")

    wasm = asking(request(), capabilities=("clock",))
    told = reply(await called(sandbox, wasm, capabilities=Granting(capabilities)))
    assert told == {"error": {"kind": "unavailable", "message": "the clock is broken"}}


async def test_a_capability_that_breaks_is_not_available_and_says_nothing(sandbox: Sandbox) -> None:
    def capabilities(capability: str, arguments: Mapping[str, Any]) -> Any:
        raise ZeroDivisionError("secret")

    ended = await called(sandbox, asking(request(), capabilities=("clock",)), capabilities=Granting(capabilities))
    told = reply(ended)["error"]
    assert (told["kind"], "secret" in told["message"]) == ("unavailable", False)


async def test_a_guest_that_ends_for_want_of_a_capability_is_not_to_blame(sandbox: Sandbox) -> None:
    fault = ZeroDivisionError("secret")

    def capabilities(capability: str, arguments: Mapping[str, Any]) -> Any:
        raise fault

    ask = f"(drop (call $host_call (i32.const {REQUEST_AT}) (i32.const {len(request())})))"
    for end in ("unreachable", "(call $proc_exit (i32.const 1)) unreachable"):
        wasm = guest(f"{ask} {end}", extra=data(REQUEST_AT, request()), capabilities=("clock",))
        ended = await called(sandbox, wasm, capabilities=Granting(capabilities))
        assert ended.error is not None
        assert (ended.reason, ended.error.cause) == ("capability_fault", fault)
        assert "clock was not available" in ended.error.detail
        assert "secret" not in str(ended.error)
    raises = answering({"raised": {"message": "no clock"}}, before=ask, extra=data(REQUEST_AT, request()))
    assert (await called(sandbox, raises)).reason == "handler_raised", "nothing was granted"


async def test_a_capability_that_answers_what_is_not_plain_is_not_available(sandbox: Sandbox) -> None:
    broken = Granting(lambda capability, arguments: object())
    assert kind(await called(sandbox, asking(request(), capabilities=("clock",)), capabilities=broken)) == "unavailable"


async def test_an_interrupt_inside_a_host_call_reaches_the_caller(sandbox: Sandbox) -> None:
    def capabilities(capability: str, arguments: Mapping[str, Any]) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await called(sandbox, asking(request(), capabilities=("clock",)), capabilities=Granting(capabilities))


async def test_host_calls_over_the_limit_are_answered_quota(sandbox: Sandbox) -> None:
    two = f"(drop (call $host_call (i32.const {REQUEST_AT}) (i32.const 0)))" * 2
    wasm = asking(request(), before=two, capabilities=("clock",))
    assert kind(await called(sandbox, wasm, limits=Limits(host_calls=2))) == "quota"
    assert kind(await called(sandbox, wasm, limits=Limits(host_calls=3))) == "denied"


async def test_a_guest_that_goes_on_asking_is_stopped(sandbox: Sandbox) -> None:
    storm = "(loop $l (drop (call $host_call (i32.const 0) (i32.const 0))) (br $l)) unreachable"
    ended = await run(sandbox, storm, limits=Limits(host_calls=3))
    assert ended.error is not None
    assert (ended.error.reason, ended.error.limit, ended.error.value) == ("too_many_host_calls", "host_calls", 3)
    assert ended.meter.backtrace


async def test_taking_a_reply_when_none_waits_is_trapped(sandbox: Sandbox) -> None:
    take = "(drop (call $host_take (i32.const 0) (i32.const 10)))"
    assert (await run(sandbox, f"{take} (i64.const 0)")).reason == "trapped"
    ask = "(drop (call $host_call (i32.const 0) (i32.const 0)))"
    twice = await run(sandbox, f"{ask} {take} {take} (i64.const 0)")
    assert twice.reason == "trapped"
    assert twice.error is not None
    assert "no reply" in twice.error.detail


async def test_a_reply_is_cut_to_what_the_guest_takes_and_then_gone(sandbox: Sandbox) -> None:
    check = "(if (i32.ne (call $host_take (i32.const 0) (i32.const 5)) (i32.const 5)) (then unreachable))"
    ask = "(drop (call $host_call (i32.const 0) (i32.const 0)))"
    assert (await called(sandbox, answering({"ok": 1}, before=f"{ask} {check}"))).result == Ok(1)


async def test_log_lines_have_the_nearest_level_and_inert_text(sandbox: Sandbox) -> None:
    text = b"red \x1b[31m \xff"
    lines = "".join(
        f"(call $log (i32.const {level}) (i32.const 500) (i32.const {len(text)}))" for level in (10, 33, -5)
    )
    ended = await called(sandbox, answering({"ok": 1}, before=lines, extra=data(500, text)))
    assert [line.level for line in ended.meter.log] == [10, 30, 10]
    assert {line.text.isprintable() for line in ended.meter.log} == {True}
    assert "\\x1b" in ended.meter.log.lines[0].text


async def test_the_log_is_kept_however_the_call_ends(sandbox: Sandbox) -> None:
    ended = await run(
        sandbox, "(call $log (i32.const 20) (i32.const 500) (i32.const 2)) unreachable", extra=data(500, b"hi")
    )
    assert ended.reason == "trapped"
    assert list(ended.meter.log) == [LogLine(20, "hi")]
