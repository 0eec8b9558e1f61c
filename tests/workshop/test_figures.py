"""The figure of the workshop has the shape that scripts read. Time is no test's matter."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks.guests import Absent
from tests.benchmarks.report import Report, table
from tests.benchmarks.workshop import first_answers

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_a_language_has_figures_or_says_why_not_in_table_and_json() -> None:
    report = Report(workshop={"wat": await first_answers("wat", 1), "c": "absent: no TinyCC"})
    told = json.loads(json.dumps(report.as_json()))["figures"]["workshop"]
    assert set(told["wat"]) == {"tools", "first_ms", "min_ms", "write_ms", "switch_ms", "call_ms"}
    lines = [line for line in table(report) if line.startswith("write_tool to first answer")]
    assert lines[1] == "write_tool to first answer, c: absent: no TinyCC"
    with pytest.raises(Absent):
        await first_answers("python_that_is_not", 1)
