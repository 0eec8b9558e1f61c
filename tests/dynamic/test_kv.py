from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import anyio
import pytest

from rho_wasm.capabilities.kv_backend import KvRoom
from rho_wasm.dynamic.folder import DATABASE_NAME
from rho_wasm.dynamic.generation import ToolVersion
from rho_wasm.dynamic.kv import KvTable, StoreKv
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import CapabilityError, StoreError
from rho_wasm.testing import FixedClock
from tests.dynamic.guests import artifact
from tests.dynamic.processes import WAIT_S, answer_of_process, begin
from tests.helpers import until

ROOM = KvRoom(keys=1_000, bytes=1_000_000)
ALL = 10_000_000


def opened(folder: Path, *, read_only: bool = False, busy_ms: int = WAIT_S * 1_000) -> Store:
    return Store.open(folder, read_only=read_only, busy_ms=busy_ms, key_path=folder.parent / "keys" / "store.key")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with opened(folder, busy_ms=50) as store:
        yield store


@pytest.fixture
def table(store: Store) -> KvTable:
    return store.kv


def put(table: KvTable, tool: str, key: str, value: bytes = b"v", *, room: KvRoom = ROOM) -> None:
    assert table.put(tool, key, value, room=room, all_bytes=ALL)


def counted(store: Store, tool: str) -> KvRoom | None:
    """What the tool keeps, counted anew."""
    assert store.folder is not None
    with closing(sqlite3.connect(store.folder / DATABASE_NAME)) as connection:
        keys, size = connection.execute(
            "SELECT count(*), sum(length(CAST(key AS BLOB)) + length(value)) FROM kv WHERE tool = ?", (tool,)
        ).fetchone()
    return KvRoom(keys, size) if keys else None


def test_a_value_is_there_after_opening_again(folder: Path) -> None:
    with opened(folder) as store:
        put(store.kv, "t", "ключ", b"\0\xff")
    with opened(folder) as store:
        assert store.kv.get("t", "ключ") == b"\0\xff"
        assert store.kv.get("t", "no") is None


@pytest.mark.parametrize("key", ["../u/k", "u", "u\N{FULLWIDTH SOLIDUS}k", "u' OR '1'='1", "%", "_"])
def test_whatever_a_key_looks_like_it_is_one_of_its_own_tool(table: KvTable, key: str) -> None:
    put(table, "u", "k", b"theirs")
    put(table, "t", key, b"mine")
    assert (table.get("t", key), table.get("t", "k")) == (b"mine", None)
    assert (table.keys("t", limit=9), table.keys("u", limit=9)) == ((key,), ("k",))
    assert table.delete("t", key)
    assert table.get("u", "k") == b"theirs"


def test_sizes_are_those_of_what_is_there_whatever_was_put_and_deleted(store: Store, table: KvTable) -> None:
    for key, value in [("a", b"12"), ("bü", b""), ("a", b"1"), ("c", b"x" * 5_000), ("a", b"123")]:
        put(table, "t", key, value)
        assert table.sizes() == {"t": counted(store, "t")}
    for key in ("c", "c", "a"):
        table.delete("t", key)
        assert table.sizes() == {"t": counted(store, "t")}
    assert table.sizes() == {"t": KvRoom(1, 3)}
    assert table.delete("t", "bü")
    assert (table.sizes(), counted(store, "t")) == ({}, None)


def test_a_put_beyond_the_room_changes_nothing(store: Store, table: KvTable) -> None:
    room = KvRoom(keys=2, bytes=10)
    put(table, "t", "a", b"1234", room=room)
    put(table, "t", "b", b"1234", room=room)  # exactly all of it
    for key, value, told in [("c", b"", "2 keys already"), ("a", b"12345", "11 bytes, over the 10")]:
        with pytest.raises(CapabilityError, match=told) as caught:
            table.put("t", key, value, room=room, all_bytes=ALL)
        assert caught.value.kind == "quota"
    assert table.get("t", "a") == b"1234"
    assert table.sizes() == {"t": KvRoom(2, 10)}
    put(table, "u", "c", room=room)  # another tool's room is its own


def test_a_tool_whose_room_was_made_smaller_may_shrink(table: KvTable) -> None:
    put(table, "t", "a", b"12345678")
    put(table, "t", "a", b"1234567", room=KvRoom(keys=0, bytes=2))
    with pytest.raises(CapabilityError):
        put(table, "t", "a", b"12345678", room=KvRoom(keys=0, bytes=2))


def test_all_tools_together_have_a_bound_that_is_nobodys_fault(table: KvTable) -> None:
    assert table.put("t", "a", b"1234", room=ROOM, all_bytes=8)
    with pytest.raises(CapabilityError, match="no more room") as caught:
        table.put("u", "a", b"1234", room=ROOM, all_bytes=8)
    assert caught.value.kind == "unavailable"
    assert table.put("u", "a", b"12", room=ROOM, all_bytes=8)


def test_the_tools_of_one_artifact_leave_most_of_the_room_to_others(table: KvTable) -> None:
    room, tools = KvRoom(9, 12), [f"t{number}" for number in range(9)]

    def fill(tools: list[str]) -> int:
        kept = 0
        with suppress(CapabilityError):
            for tool in tools:
                table.put(tool, "k", b"v" * 9, room=room, siblings=tools, all_bytes=160)
                kept += 10
        with pytest.raises(CapabilityError, match="the tools of this module") as caught:
            table.put(tools[-1], "k", b"v" * 9, room=room, siblings=tools, all_bytes=160)
        assert caught.value.kind == "quota"
        return kept

    assert fill(tools) == 40
    assert fill([f"u{number}" for number in range(9)]) == 30  # a quarter of what was left
    assert table.put("other", "k", b"v" * 11, room=room, siblings=["other"], all_bytes=160)
    assert table.put("t0", "k", b"w" * 9, room=room, siblings=tools, all_bytes=160)  # it does not grow
    assert table.delete("t0", "k")
    assert table.delete("t1", "k")
    assert table.put("t8", "k", b"v", room=room, siblings=tools, all_bytes=160)


def test_the_tools_of_one_artifact_may_keep_what_one_of_them_may(table: KvTable) -> None:
    room, tools = KvRoom(9, 10), ["a", "b"]
    assert table.put("a", "k", b"1234", room=room, siblings=tools, all_bytes=20)
    assert table.put("b", "k", b"1234", room=room, siblings=tools, all_bytes=20)
    with pytest.raises(CapabilityError, match="11 bytes, over the 10 that they may together"):
        table.put("b", "k", b"12345", room=room, siblings=tools, all_bytes=20)


def test_a_condition_is_held_before_anything_is_counted(table: KvTable) -> None:
    def conditional(value: bytes, only_if: object) -> bool:
        return table.put("t", "k", value, room=KvRoom(1, 3), only_if=only_if, all_bytes=ALL)  # type: ignore[arg-type]

    assert not conditional(b"1", b"0")
    assert conditional(b"1", "absent")
    assert not conditional(b"22", "absent")
    assert not conditional(b"far too large", b"2")
    assert conditional(b"22", b"1")
    assert table.get("t", "k") == b"22"


def test_keys_come_in_the_order_of_their_bytes_page_by_page(table: KvTable) -> None:
    keys = ["a", "a/", "a/1", "a/\N{MICRO SIGN}", "a/\uffff", "a/\U0001f600", "a/\U0010ffff", "a/\U0010ffffx", "b", "ä"]
    for key in reversed(keys):
        put(table, "t", key)
    assert table.keys("t", limit=99) == tuple(keys)
    assert table.keys("t", prefix="a/", limit=99) == tuple(keys[1:8])
    assert table.keys("t", prefix="a/", after="a/1", limit=2) == tuple(keys[3:5])
    assert table.keys("t", after="ä", limit=9) == ()
    assert table.keys("t", prefix="\U0010ffff", limit=9) == ()


def _puts(folder: Path, name: str, keys: int, room: KvRoom) -> int:
    """How many of so many keys there was room for."""
    stored = 0
    with opened(folder) as store:
        for number in range(keys):
            with suppress(CapabilityError):
                stored += store.kv.put("t", f"{name}{number:03}", b"1234", room=room, all_bytes=ALL)
    return stored


def _count(folder: Path, times: int) -> None:
    with opened(folder) as store:
        for _ in range(times):
            while True:
                now = store.kv.get("t", "n")
                then = b"%d" % (int(now or 0) + 1)
                if store.kv.put("t", "n", then, room=ROOM, only_if="absent" if now is None else now, all_bytes=ALL):
                    break


@pytest.mark.parametrize(
    "room",
    [
        pytest.param(KvRoom(10_000, 37 * 8), id="bytes"),
        pytest.param(KvRoom(37, 10_000), id="keys", marks=pytest.mark.slow),
    ],
)
def test_two_processes_together_store_exactly_what_there_is_room_for(folder: Path, room: KvRoom) -> None:
    with opened(folder) as store:
        process, there = begin(_told, _puts, folder, "a", 30, room)
        here = _puts(folder, "b", 30, room)
        assert there.poll(WAIT_S)
        assert here + there.recv() == 37
        process.join(WAIT_S)
        assert store.kv.sizes()["t"] == counted(store, "t")


def test_a_counter_of_two_processes_and_two_threads_loses_nothing(folder: Path) -> None:
    with opened(folder) as store:
        process, there = begin(_told, _count, folder, 25)
        threads = [threading.Thread(target=_count, args=(folder, 25)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert there.poll(WAIT_S)
        process.join(WAIT_S)
        assert store.kv.get("t", "n") == b"75"


def _told(connection: object, work: object, *arguments: object) -> None:
    connection.send(work(*arguments))  # type: ignore[attr-defined, operator]


@pytest.mark.slow
def test_a_process_killed_in_a_put_leaves_all_of_it_or_nothing(folder: Path) -> None:
    with opened(folder) as store:
        process, there = begin(_put_for_ever, folder)
        assert there.poll(WAIT_S)
        process.kill()
        process.join(WAIT_S)
        assert store.kv.sizes()["t"] == counted(store, "t")
        put(store.kv, "t", "after")


def _put_for_ever(connection: object, folder: Path) -> None:
    with opened(folder) as store:
        for number in range(10**9):
            store.kv.put("t", f"{number % 50}", bytes(number % 999), room=ROOM, all_bytes=ALL)
            if number == 20:
                connection.send(None)  # type: ignore[attr-defined]


def _read(folder: Path) -> tuple[bytes | None, str]:
    with opened(folder, read_only=True) as store:
        try:
            put(store.kv, "t", "b")
        except StoreError as error:
            return store.kv.get("t", "a"), error.reason
    return None, "it was written"


def test_a_store_for_reading_only_is_read(store: Store, folder: Path) -> None:
    put(store.kv, "t", "a", b"1")
    assert answer_of_process(_read, folder) == (b"1", "read_only")


async def test_a_backend_answers_what_the_table_has(store: Store) -> None:
    kv = StoreKv(store.kv)
    assert await kv.put("t", "a", b"1", room=ROOM)
    assert not await kv.put("t", "a", b"2", room=ROOM, only_if="absent")
    assert await kv.get("t", "a") == b"1"
    assert await kv.keys("t", prefix="", after="", limit=9) == ("a",)
    with pytest.raises(CapabilityError, match="quota"):
        await kv.put("t", "b", b"1", room=KvRoom(1, 100))
    assert await kv.delete("t", "a")
    with pytest.raises(CapabilityError, match="no more room"):
        await StoreKv(store.kv, max_bytes=1).put("t", "a", b"1", room=ROOM)


async def test_a_store_that_another_process_holds_is_unavailable(store: Store) -> None:
    kv = StoreKv(store.kv)
    assert store.folder is not None
    with closing(sqlite3.connect(store.folder / DATABASE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CapabilityError) as caught:
            await kv.put("t", "a", b"1", room=ROOM)
        assert (caught.value.kind, caught.value.message) == ("unavailable", "the store is busy: try again")
        assert await kv.get("t", "a") is None  # a reader waits for nobody


async def test_a_store_that_is_held_stops_nobody_and_a_call_that_is_cancelled_leaves_it(folder: Path) -> None:
    with opened(folder) as store:
        kv = StoreKv(store.kv)
        with closing(sqlite3.connect(folder / DATABASE_NAME, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with anyio.fail_after(WAIT_S / 2):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(partial(kv.put, "t", "a", b"1", room=ROOM))
                    await until(lambda: kv._threads.statistics().running == 1)
                    tasks.cancel_scope.cancel()
            assert kv._threads.statistics().abandoned == 1
            other.execute("ROLLBACK")
        with anyio.fail_after(WAIT_S):
            await kv.put("t", "b", b"", room=ROOM)
        # The first one happens all the same, as a whole.
        await until(lambda: kv._threads.statistics().abandoned == 0)
        assert store.kv.sizes() == {"t": KvRoom(2, 3)}


async def test_no_fault_of_the_store_names_a_folder_of_the_host(store: Store, folder: Path) -> None:
    kv = StoreKv(store.kv)
    pages = store._database._writer.execute("PRAGMA page_count").fetchone()[0]
    store._database._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(CapabilityError) as full:
        await kv.put("t", "a", bytes(100_000), room=ROOM)
    with opened(folder, read_only=True) as other, pytest.raises(CapabilityError) as read_only:
        await StoreKv(other.kv).put("t", "a", b"1", room=ROOM)
    store.close()
    with pytest.raises(CapabilityError) as closed:
        await kv.get("t", "a")
    told = ["the disk of the store is full", "the store is open for reading only", "the store is closed"]
    assert [caught.value.message for caught in (full, read_only, closed)] == told
    assert {(caught.value.kind, caught.value.fault) for caught in (full, read_only, closed)} == {("unavailable", True)}


def _go_live(store: Store, tools: list[str], *, remove: tuple[str, ...] = ()) -> None:
    versions = {}
    if tools:
        built = artifact(*tools)
        store.put(built)
        versions = dict.fromkeys(tools, ToolVersion(built.sha256))
    candidate = store.history.stage(versions, remove, author="model", note="")
    store.history.activate(candidate.number)


def test_what_a_removed_tool_kept_goes_with_the_last_generation_that_can_return(folder: Path) -> None:
    clock = FixedClock()
    key_path = folder.parent / "keys" / "store.key"
    with Store.open(folder, key_path=key_path, clock=clock) as store:
        _go_live(store, ["old"])
        _go_live(store, ["new"], remove=("old",))
        for tool in ("old", "new", "nobody"):
            put(store.kv, tool, "k")
        clock.advance(4_000)
        assert store.prune(keep=1).namespaces == ("nobody",)  # the generation that had "old" can be returned to
        for tool in ("a", "b"):
            _go_live(store, [tool])
        assert store.prune(keep=1).namespaces == ("old",)
        assert store.kv.get("old", "k") is None
        assert store.kv.sizes() == {"new": KvRoom(1, 2)}
