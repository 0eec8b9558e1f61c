"""One call that is tried: an example as the gate asks and judges it, anything else as a call would be."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm import Policy
from rho_wasm.dynamic.examples import example_problem
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import Example
from rho_wasm.repair import MAX_LOOKS
from rho_wasm.sandbox import Sandbox
from rho_wasm.testing import guest
from rho_wasm.workshop.trying import Case, trial
from tests.workshop.shop import SPEAKING

pytestmark = pytest.mark.anyio

WHOLE = {"ok": "done", "details": 1}


@pytest.mark.parametrize(
    ("arguments", "answer", "passes"),
    [
        ({"text": ""}, WHOLE, True),
        # It says nothing of the details, and the gate wants the whole answer.
        ({"text": ""}, {"ok": "done"}, False),
        # The gate asks a tool with the arguments as they are, whatever its schema says.
        ({"text": 3}, WHOLE, True),
    ],
)
async def test_an_example_passes_a_trial_where_it_passes_the_gate(
    arguments: dict[str, Any], answer: dict[str, Any], passes: bool
) -> None:
    tool = guest({"name": "tool", "description": "A tool.", "input_schema": SPEAKING}, answer=WHOLE)
    async with Sandbox() as sandbox:
        module = await sandbox.load(tool.wasm)
        example = Example(arguments=arguments, answer=answer)
        problem = await example_problem(sandbox, module, "tool", example, number=1, limits=Limits())
        module.close()
        async with trial(sandbox, tool, "tool", policy=Policy(), limits=HostLimits()) as trying:
            tried = await trying.run(Case(arguments=arguments, expect=answer, exact=True))
    assert (problem is None, tried.passed) == (passes, passes)
    assert "arguments_repaired" not in tried.told


async def test_arguments_that_take_too_long_to_mend_are_refused_as_they_are() -> None:
    schema = {"type": "object", "properties": {"numbers": {"type": "array", "items": {"type": "integer"}}}}
    tool = guest({"name": "tool", "description": "A tool.", "input_schema": schema})
    async with Sandbox() as sandbox, trial(sandbox, tool, "tool", policy=Policy(), limits=HostLimits()) as trying:
        tried = await trying.run(Case(arguments={"numbers": ["1"] * (MAX_LOOKS + 1)}))
    assert (tried.passed, tried.told["refused"]) == (False, "invalid_arguments")
