"""Answers against the output schema that their tool declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rho_wasm import Host, ToolCall
from rho_wasm.errors import SchemaInvalid
from rho_wasm.results import AskUser, Failed, Ok
from rho_wasm.testing import guest
from tests.helpers import answering, call, runner_of

TOTAL: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "number"}, "rows": {"type": "array", "items": {"type": "string", "maxLength": 5}}},
    "required": ["total"],
    "additionalProperties": False,
}


@dataclass
class Total:
    total: float


@pytest.mark.parametrize("value", [{"total": 1}, {"total": 1.5, "rows": ["a", b"abc"]}, Total(2.0)])
async def test_an_answer_that_fits_passes_as_it_is(value: Any) -> None:
    result = await runner_of(answering(Ok(value), output_schema=TOTAL)).run(call())
    assert (result.kind, result.value) == ("ok", value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"rows": []}, "total: missing, wanted a number"),
        ({"total": "1"}, 'total: got text "1", wanted a number'),
        ({"total": 1, "more": 2}, "more: unknown key, allowed: rows, total"),
        ({"total": 1, "rows": ["a", 2]}, "rows[1]: got the integer 2, wanted a string"),
        ({"total": float("nan")}, "total: got null, wanted a number"),
        ([1], "the answer: got a list of 1, wanted a map"),
        (None, "the answer: got null, wanted a map"),
    ],
)
async def test_an_answer_that_does_not_fit_is_an_invalid_return_that_says_where(value: Any, problem: str) -> None:
    result = await runner_of(answering(Ok(value), output_schema=TOTAL)).run(call())
    assert (result.kind, result.reason, result.value) == ("crashed", "invalid_return", None)
    assert f"it does not fit the tool's own output_schema: {problem}" in result.text


@pytest.mark.parametrize("answer", [Failed("no total today"), AskUser("which total?")])
async def test_what_is_no_value_is_not_held_to_the_schema(answer: Any) -> None:
    result = await runner_of(answering(answer, output_schema=TOTAL)).run(call())
    assert result.kind in ("ok", "failed")


async def test_an_answer_that_takes_long_to_check_is_checked_all_the_same() -> None:
    schema = {"type": "array", "items": {"anyOf": [{"type": "string", "pattern": "^a*b$"}, {"type": "integer"}]}}
    runner = runner_of(answering(Ok(["a" * 50] * 400 + [1.5]), output_schema=schema))
    assert "output_schema" in (await runner.run(call())).text


def test_a_schema_of_answers_that_is_none_lets_no_tool_in() -> None:
    with pytest.raises(SchemaInvalid, match="answers"):
        runner_of(answering(Ok(1), output_schema={"type": "nothing"}))


async def test_a_guests_answer_is_held_to_what_its_manifest_declares() -> None:
    declared = {"name": "sum", "description": "d", "input_schema": {"type": "object"}}
    async with Host.open(":memory:", core=[]) as host:
        for number, (answer, schema) in enumerate(((1, {"type": "integer"}), ("1", {"type": "integer"})), 1):
            made = guest({**declared, "output_schema": schema}, answer=answer)
            await host.source.activate(await host.source.stage(add=[made], author="model"))
            result = await host.runner.run(ToolCall(id=str(number), name="sum"))
            assert (result.value, result.reason) == ((1, None), (None, "invalid_return"))[number - 1]
            assert result.fuel_used
