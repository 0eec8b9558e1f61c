"""What counts as a change of a source, and what never does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from rho_wasm.cli.watching import changes

_PATIENCE_S = 30


async def _next(watched: AsyncIterator[None]) -> None:
    with anyio.fail_after(_PATIENCE_S):
        await anext(watched)


async def test_it_begins_with_one_and_goes_on_with_each_change(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("1")
    watched = changes([tmp_path])
    await _next(watched)
    (tmp_path / "a.c").write_text("22")
    await _next(watched)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.c").write_text("new")
    await _next(watched)
    (tmp_path / "a.c").unlink()
    await _next(watched)


async def test_a_file_that_is_missing_is_waited_for(tmp_path: Path) -> None:
    watched = changes([tmp_path / "a.c"])
    await _next(watched)
    (tmp_path / "a.c").write_text("here")
    await _next(watched)


@pytest.mark.slow
@pytest.mark.parametrize(
    "made", ["a.wasm", ".a.wasm.part", ".rho/x", "node_modules/x", "target/x", "store/x.db", "a.o"]
)
async def test_what_is_made_of_a_source_is_no_change_of_it(tmp_path: Path, made: str) -> None:
    (tmp_path / "a.c").write_text("1")
    watched = changes([tmp_path], apart_from=[tmp_path / "store"])
    await _next(watched)
    (tmp_path / made).parent.mkdir(exist_ok=True)
    (tmp_path / made).write_text("made")
    with anyio.move_on_after(0.5) as waited:
        await anext(watched)
    assert waited.cancelled_caught
