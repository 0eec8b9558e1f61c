"""What a handler may answer, and what a caller gets back."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError

import pytest

from rho_wasm.results import KINDS, AskUser, CallLog, Failed, Halt, Image, LogLine, Ok, ToolResult

# the design page "behaviour", "Every result has a kind and a reason".
TABLE = {
    "failed": {"failed"},
    "refused": {"not_found", "invalid_arguments", "blocked", "gate_failed", "quarantined"},
    "crashed": {
        "handler_raised",
        "handler_exit",
        "invalid_return",
        "deadline",
        "killed",
        "trapped",
        "out_of_fuel",
        "out_of_memory",
        "bad_answer",
        "too_many_host_calls",
    },
    "host": {"cancelled", "overloaded", "capability_fault"},
}


@pytest.mark.parametrize("kind", TABLE)
def test_every_reason_has_the_kind_of_the_design(kind: str) -> None:
    assert {reason for reason, its_kind in KINDS.items() if its_kind == kind} == TABLE[kind]


def test_no_reason_is_of_another_kind() -> None:
    assert set(KINDS.values()) == set(TABLE)


def test_answers_do_not_change() -> None:
    for answer, field in ((Ok(1), "value"), (AskUser("?"), "question"), (Halt("r"), "value")):
        with pytest.raises(FrozenInstanceError):
            setattr(answer, field, 2)


def test_failed_can_be_returned_or_raised() -> None:
    failed = Failed({"a": 1}, details=[2])
    with pytest.raises(Failed) as caught:
        raise failed
    assert caught.value is failed
    assert (failed.reason, failed.details) == ({"a": 1}, [2])


def test_failed_is_equal_by_reason_and_details() -> None:
    assert Failed("a") == Failed("a")
    assert Failed("a") != Failed("b")
    assert Failed("a", details=1) != Failed("a")
    assert Failed("a") != "a"
    assert len({Failed("a"), Failed("a")}) == 2
    assert repr(Failed("a")) == "Failed('a')"
    assert repr(Failed("a", details=1)) == "Failed('a', details=1)"


def test_failed_keeps_its_details_when_copied_or_pickled() -> None:
    failed = Failed("a", details={"b": 1})
    assert copy.deepcopy(failed) == failed
    assert pickle.loads(pickle.dumps(failed)) == failed


def test_a_log_is_read_line_by_line() -> None:
    log = CallLog((LogLine(20, "a"), LogLine(40, "b")), dropped_bytes=7)
    assert [line.text for line in log] == ["a", "b"]
    assert len(log) == 2
    assert log.as_json() == {
        "lines": [{"level": 20, "text": "a"}, {"level": 40, "text": "b"}],
        "dropped_bytes": 7,
    }


def test_a_result_is_ok_unless_its_status_is_error() -> None:
    for status, ok in (("ok", True), ("ask_user", True), ("halt", True), ("error", False)):
        assert ToolResult(call_id="1", tool="t", status=status, kind="ok").ok is ok  # type: ignore[arg-type]


def test_a_result_as_json_has_the_keys_that_scripts_rely_on() -> None:
    result = ToolResult(
        call_id="1",
        tool="t",
        status="ok",
        kind="ok",
        value={"b": b"\xfb\xff", "n": math.nan, "t": (1, {2})},
        details={"d": math.inf},
        images=(Image("image/png", b"\xfb\xff\x00"),),
        duration_ms=1.23456,
        fuel_used=5,
    )
    told = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert told["value"] == {"b": "-_8", "n": None, "t": [1, [2]]}
    assert told["details"] == {"d": None}
    assert told["images"] == [{"mime_type": "image/png", "data": "-_8A"}]
    assert told["duration_ms"] == 1.235
    assert told["log"] == {"lines": [], "dropped_bytes": 0}
    assert {
        "status", "kind", "reason", "text", "value", "options", "details", "images", "fuel_used", "duration_ms",
        "generation", "log",
    } <= set(told)  # fmt: skip
