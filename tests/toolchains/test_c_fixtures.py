"""The C guests that the demo uses do what their manifests say, on real files, in the sandbox."""

from __future__ import annotations

import csv
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rho_wasm import envelope, resources
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.errors import ToolError
from rho_wasm.limits import Limits
from rho_wasm.results import HandlerResult, Ok
from rho_wasm.sandbox import Sandbox

pytestmark = pytest.mark.anyio

GUESTS = ["word_count", "word_count_v2", "csv_stats"]


async def call(
    sandbox: Sandbox, guest: str, arguments: Mapping[str, Any], *, fuel: int = 1_000_000_000
) -> HandlerResult:
    """Calls the one tool of ``fixtures/GUEST.wasm``."""
    with await sandbox.load(resources.fixture(f"{guest}.wasm").read_bytes()) as module:
        [tool] = module.manifest.tools
        return await sandbox.call(
            module,
            tool=tool.name,
            arguments=arguments,
            context={},
            limits=Limits(fuel=fuel),
            meter=CallMeter(CallClock(5_000)),
        )


@pytest.mark.parametrize("guest", GUESTS)
async def test_every_example_is_answered_as_the_manifest_says(sandbox: Sandbox, guest: str) -> None:
    with await sandbox.load(resources.fixture(f"{guest}.wasm").read_bytes()) as module:
        [tool] = module.manifest.tools
    assert len(tool.examples) >= 3
    for example in tool.examples:
        assert envelope.answer_of(await call(sandbox, guest, example.arguments)) == example.answer


def words_of(text: str) -> list[str]:
    """What word_count takes for words, said another way."""
    folded = "".join(c.lower() if c.isascii() else c for c in text)
    apart = "".join(c if c == "'" or not c.isascii() or c.isalnum() else " " for c in folded)
    return [word for word in (part.lstrip("'") for part in apart.split()) if word]


@pytest.mark.parametrize("file", ["fixtures/data/gettysburg.txt", "guest_sdk/c/rho.h", "pyproject.toml", "LICENSE"])
async def test_word_count_counts_real_files(sandbox: Sandbox, file: str) -> None:
    text = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
    result = await call(sandbox, "word_count", {"text": text, "top": 3})
    words = words_of(text)
    assert isinstance(result, Ok)
    found = result.value
    assert (found["words"], found["distinct"]) == (len(words), len(set(words)))
    assert (found["lines"], found["characters"]) == (len(text.splitlines()), len(text))
    assert [(entry["word"], entry["count"]) for entry in found["top"]] == Counter(words).most_common(3)


@pytest.mark.parametrize(
    "file", ["fixtures/data/gettysburg.txt", "fixtures/data/stations.csv", "LICENSE", "guest_sdk/c/README.md"]
)
async def test_the_second_version_spins_on_any_ordinary_text(sandbox: Sandbox, file: str) -> None:
    text = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
    with pytest.raises(ToolError) as caught:
        await call(sandbox, "word_count_v2", {"text": text}, fuel=50_000_000)
    assert caught.value.reason == "out_of_fuel"


async def test_csv_stats_agrees_with_the_standard_library_on_real_data(sandbox: Sandbox) -> None:
    files = sorted(resources.fixture("data").glob("*.csv"))
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        result = await call(sandbox, "csv_stats", {"csv": text})
        assert isinstance(result, Ok)
        header, *rows = csv.reader(text.splitlines(keepends=True))
        assert result.value["rows"] == len(rows)
        for position, (name, found) in enumerate(zip(header, result.value["columns"], strict=True)):
            cells = [row[position] for row in rows if row[position]]
            assert (found["name"], found["filled"], found["distinct"]) == (name, len(cells), len(set(cells)))
            assert found["empty"] == len(rows) - len(cells)
            if "mean" in found:
                numbers = [float(cell) for cell in cells]
                assert (found["min"], found["max"]) == (min(numbers), max(numbers))
                assert found["mean"] == pytest.approx(statistics.fmean(numbers), rel=1e-12)
            elif cells:
                assert len(found["longest"]) == max(map(len, cells))


@pytest.mark.parametrize(
    ("text", "row"),
    [('a,b\n1,"2\n', 1), ('a,b\n"1"x,2\n', 1), ("a,b\n1\n", 1), ("a,b\n1,2,3\n", 1), ("a\n\n1,2\n", 2)],
)
async def test_csv_stats_names_the_row_that_is_no_csv(sandbox: Sandbox, text: str, row: int) -> None:
    result = await call(sandbox, "csv_stats", {"csv": text})
    assert envelope.answer_of(result)["error"]["row"] == row


NUMBERS = ["1", "-1.5", "+.5e-3", "1e22", "12345678.25", "007"]
NO_NUMBERS = ["1e309", "1e", ".", "0x10", "nan", "1 ", "-", "0e99999999999999999999", "1,5", "--1", "1e+"]


async def test_csv_stats_takes_decimal_numbers_and_nothing_else_for_numbers(sandbox: Sandbox) -> None:
    cells = [*NUMBERS, *NO_NUMBERS]
    header, row = ",".join(f"c{n}" for n in range(len(cells))), ",".join(f'"{cell}"' for cell in cells)
    result = await call(sandbox, "csv_stats", {"csv": f"{header}\n{row}\n"})
    assert isinstance(result, Ok)
    means = {cell: column.get("mean") for cell, column in zip(cells, result.value["columns"], strict=True)}
    assert means == {cell: float(cell) for cell in NUMBERS} | dict.fromkeys(NO_NUMBERS)
