"""What counts as a change of a source, and what never does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from rho_wasm.cli.watching import changes, pause_s

_PATIENCE_S = 60


async def _next(watched: AsyncIterator[frozenset[Path]]) -> frozenset[Path]:
    with anyio.fail_after(_PATIENCE_S):
        return await anext(watched)


@asynccontextmanager
async def _watched(
    *paths: Path, apart_from: Sequence[Path] = ()
) -> AsyncIterator[Callable[[], Awaitable[frozenset[Path]]]]:
    """What waits for the next change."""
    async with aclosing(changes(paths, suffixes=(".c", ".manifest.json"), apart_from=apart_from)) as watched:
        yield lambda: _next(watched)


async def test_it_begins_with_one_and_goes_on_with_each_change(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("1")
    (tmp_path / "deep").mkdir()

    def write() -> None:
        (tmp_path / "a.c").write_text("22")

    def add() -> None:
        (tmp_path / "deep" / "b.c").write_text("new")

    def remove() -> None:
        (tmp_path / "a.c").unlink()

    for edit in (write, add, remove):
        async with _watched(tmp_path) as change:
            await change()
            edit()
            await change()


async def test_a_file_that_is_missing_is_waited_for(tmp_path: Path) -> None:
    async with _watched(tmp_path / "a.c") as change:
        await change()
        (tmp_path / "a.c").write_text("here")
        await change()


async def test_it_says_which_of_its_paths_changed(tmp_path: Path) -> None:
    source, given = tmp_path / "source", tmp_path / "given.json"
    source.mkdir()
    async with _watched(source, given) as change:
        assert await change() == {source, given}
        given.write_text("{}")
        assert await change() == {given}
        (source / "a.c").write_text("1")
        assert await change() == {source}


async def test_a_link_that_is_taken_away_is_a_change_for_the_build_refused_it(tmp_path: Path) -> None:
    (tmp_path / "a.c").symlink_to("nowhere")
    async with _watched(tmp_path) as change:
        await change()
        (tmp_path / "a.c").unlink()
        await change()


async def _nothing_changed(change: Callable[[], Awaitable[frozenset[Path]]]) -> bool:
    with anyio.move_on_after(0.5) as waited:
        await change()
    return waited.cancelled_caught


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    ["a.wasm", ".a.c", ".rho/x.c", "node_modules/x.c", "target/x.c", "zig-cache/x.c", "store/x.c", "a.o", "notes.md"],
)
async def test_what_is_made_of_a_source_is_no_change_of_it(tmp_path: Path, made: str) -> None:
    (tmp_path / "a.c").write_text("1")
    async with _watched(tmp_path, apart_from=[tmp_path / "store"]) as change:
        await change()
        (tmp_path / made).parent.mkdir(exist_ok=True)
        (tmp_path / made).write_text("made")
        assert await _nothing_changed(change)


@pytest.mark.slow
async def test_a_folder_to_skip_is_known_by_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    async with _watched(folder, apart_from=[tmp_path / "link" / "store"]) as change:
        await change()
        (folder / "store").mkdir()
        (folder / "store" / "x.c").write_text("made")
        assert await _nothing_changed(change)


@pytest.mark.slow
async def test_what_lies_outside_changes_nothing_whatever_links_to_it(tmp_path: Path) -> None:
    folder, outside = tmp_path / "demo", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "b.c").write_text("1")
    (folder / "a.c").symlink_to(outside / "b.c")
    (folder / "part").symlink_to(outside)
    async with _watched(folder) as change:
        await change()
        (outside / "b.c").write_text("22")
        (outside / "new.c").write_text("1")
        assert await _nothing_changed(change)


@pytest.mark.slow
async def test_a_file_that_never_rests_is_built_all_the_same(tmp_path: Path) -> None:
    async def restless() -> None:
        for number in range(10**9):
            (tmp_path / "a.c").write_text(str(number))
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as group:
        group.start_soon(restless)
        async with _watched(tmp_path) as change:
            await change()
            await change()
        group.cancel_scope.cancel()


@pytest.mark.slow
async def test_what_each_build_changes_itself_makes_builds_rare(tmp_path: Path) -> None:
    builds = 0
    async with _watched(tmp_path) as change:
        with anyio.move_on_after(3):
            while True:
                await change()
                builds += 1
                (tmp_path / "a.c").write_text(f"{builds}")
    assert builds <= 4


def test_builds_in_a_row_wait_longer_each_but_never_for_ever() -> None:
    assert [pause_s(each) for each in (0, 1, 2, 3, 4, 5, 6, 7, 10**6)] == [0, 0, 1, 2, 4, 8, 16, 30, 30]
