"""What counts as a change of a source, and what never does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from rho_wasm.cli.watching import changes

_PATIENCE_S = 30


async def _next(watched: AsyncIterator[None]) -> None:
    with anyio.fail_after(_PATIENCE_S):
        await anext(watched)


@asynccontextmanager
async def _watched(*paths: Path, apart_from: Sequence[Path] = ()) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """What waits for the next change."""
    async with aclosing(changes(paths, apart_from=apart_from)) as watched:
        yield lambda: _next(watched)


async def test_it_begins_with_one_and_goes_on_with_each_change(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("1")
    async with _watched(tmp_path) as change:
        await change()
        (tmp_path / "a.c").write_text("22")
        await change()
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "b.c").write_text("new")
        await change()
        (tmp_path / "a.c").unlink()
        await change()


async def test_a_file_that_is_missing_is_waited_for(tmp_path: Path) -> None:
    async with _watched(tmp_path / "a.c") as change:
        await change()
        (tmp_path / "a.c").write_text("here")
        await change()


@pytest.mark.slow
@pytest.mark.parametrize(
    "made", ["a.wasm", ".a.wasm.part", ".rho/x", "node_modules/x", "target/x", "store/x.db", "a.o"]
)
async def test_what_is_made_of_a_source_is_no_change_of_it(tmp_path: Path, made: str) -> None:
    (tmp_path / "a.c").write_text("1")
    async with _watched(tmp_path, apart_from=[tmp_path / "store"]) as change:
        await change()
        (tmp_path / made).parent.mkdir(exist_ok=True)
        (tmp_path / made).write_text("made")
        with anyio.move_on_after(0.5) as waited:
            await change()
        assert waited.cancelled_caught
