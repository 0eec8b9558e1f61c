from __future__ import annotations

import os
import resource
import signal
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from rho_wasm.dynamic.database import Database
from rho_wasm.dynamic.generation import ToolVersion, VersionKey
from rho_wasm.dynamic.pruning import Pruned
from rho_wasm.dynamic.schema import SCHEMA_VERSION
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import Quarantine
from rho_wasm.errors import Closed, Corrupt, Locked, StoreError, UnknownGeneration, VersionMismatch
from rho_wasm.testing import FixedClock
from tests.dynamic.guests import artifact, declaration
from tests.dynamic.processes import SOMEBODY, WAIT_S, answer_of_process, become_somebody, begin


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def opened(
    folder: Path, *, read_only: bool = False, busy_ms: int = WAIT_S * 1_000, clock: Callable[[], float] = time.time
) -> Store:
    key_path = folder.parent / "keys" / "store.key"
    return Store.open(folder, read_only=read_only, busy_ms=busy_ms, key_path=key_path, clock=clock)


def go_live(store: Store, *tools: str, salt: int = 0) -> str:
    """Makes an artifact of ``tools`` live, without gates. Answers its hash."""
    built = artifact(*tools, salt=salt)
    store.put(built)
    version = ToolVersion(built.sha256)
    candidate = store.history.stage(dict.fromkeys(tools, version), (), author="model", note="")
    store.history.activate(candidate.number)
    return built.sha256


def file_of(folder: Path, sha256: str) -> Path:
    return folder / "artifacts" / sha256[:2] / f"{sha256}.wasm"


def statement(folder: Path, text: str) -> None:
    connection = sqlite3.connect(folder / "store.sqlite")
    connection.execute(text)
    connection.commit()
    connection.close()


def test_a_new_store_is_its_owners_alone(folder: Path) -> None:
    with opened(folder) as store:
        sha256 = go_live(store, "calc")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(file_of(folder, sha256).stat().st_mode) == 0o600


def test_the_database_is_in_wal_mode_and_a_switch_is_synced(folder: Path) -> None:
    with opened(folder) as store, store._database.write() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL


def test_everything_is_there_after_opening_again(folder: Path) -> None:
    with opened(folder) as store:
        sha256 = go_live(store, "calc")
        before = store.generations()
    with opened(folder) as store:
        assert store.generations() == before
        assert store.live().tools["calc"].artifact == sha256
        assert store.artifact(sha256).tools == ("calc",)


def test_a_store_in_memory_needs_no_folder() -> None:
    with Store.open(":memory:") as store:
        sha256 = go_live(store, "calc")
        assert store.folder is None
        assert store.artifact(sha256).sha256 == sha256


def test_a_closed_store_says_so(folder: Path) -> None:
    store = opened(folder)
    store.close()
    store.close()
    with pytest.raises(Closed, match="store is closed"):
        store.live()


def test_a_store_of_a_newer_version_is_left_as_it_is(folder: Path) -> None:
    opened(folder).close()
    statement(folder, "PRAGMA user_version = 99")
    before = (folder / "store.sqlite").read_bytes()
    with pytest.raises(VersionMismatch) as caught:
        opened(folder)
    assert (caught.value.found, caught.value.known, caught.value.reason) == (99, SCHEMA_VERSION, "version_mismatch")
    assert (folder / "store.sqlite").read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"this is no database, whatever it says" * 100, id="something else"),
        pytest.param(b"SQLite format 3\0" + b"\xff" * 5000, id="a damaged header"),
    ],
)
def test_a_database_that_is_none_is_corrupt(folder: Path, damage: bytes) -> None:
    opened(folder).close()
    (folder / "store.sqlite").write_bytes(damage)
    with pytest.raises(Corrupt) as caught:
        opened(folder)
    assert str(folder) in str(caught.value)


def test_a_damaged_page_is_corrupt(folder: Path) -> None:
    with opened(folder) as store:
        for salt in range(3):
            go_live(store, "calc", salt=salt)
    with (folder / "store.sqlite").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    with pytest.raises(Corrupt):
        opened(folder)


def test_a_truncated_database_is_corrupt(folder: Path) -> None:
    with opened(folder) as store:
        go_live(store, "calc")
    os.truncate(folder / "store.sqlite", 5000)
    with pytest.raises(Corrupt):
        opened(folder)


@pytest.mark.parametrize("read_only", [False, True])
def test_an_emptied_database_beside_artifacts_is_not_a_fresh_store(folder: Path, read_only: bool) -> None:
    with opened(folder) as store:
        go_live(store, "calc")
    for name in ("store.sqlite", "store.sqlite-wal", "store.sqlite-shm"):
        (folder / name).unlink(missing_ok=True)
    (folder / "store.sqlite").touch()
    with pytest.raises(Corrupt, match="restore it"):
        opened(folder, read_only=read_only)
    assert (folder / "store.sqlite").stat().st_size == 0


def test_a_database_without_its_tables_is_corrupt(folder: Path) -> None:
    opened(folder).close()
    statement(folder, "DROP TABLE strikes")
    with opened(folder) as store, pytest.raises(Corrupt, match="tables"):
        store.strikes()


def test_another_programs_database_is_not_taken_over(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    connection = sqlite3.connect(folder / "store.sqlite")
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(Corrupt, match="another program"):
        opened(folder)


def test_a_folder_of_other_things_is_not_taken_over(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreError) as caught:
        opened(folder)
    assert caught.value.reason == "not_a_store"
    assert stat.S_IMODE(folder.stat().st_mode) != 0o700


def test_a_file_is_no_store(folder: Path) -> None:
    folder.write_text("")
    with pytest.raises(StoreError) as caught:
        opened(folder)
    assert caught.value.reason == "not_a_store"


def test_a_store_below_a_file_cannot_be_made(folder: Path) -> None:
    folder.write_text("")
    with pytest.raises(StoreError):
        opened(folder / "below")


def test_an_empty_folder_becomes_a_store_of_its_owner_alone(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    opened(folder).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_in_which_others_may_write_is_refused(folder: Path, mode: int) -> None:
    opened(folder).close()
    folder.chmod(mode)
    with pytest.raises(StoreError) as caught:
        opened(folder)
    assert caught.value.reason == "unsafe"
    assert f"{mode:04o}" in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    opened(folder).close()
    os.chown(folder, 4321, 4321)
    with pytest.raises(StoreError, match="another user \\(4321\\)"):
        opened(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_another_user_is_refused(folder: Path, tmp_path: Path) -> None:
    opened(folder).close()
    link = tmp_path / "link"
    link.symlink_to(folder)
    os.lchown(link, 4321, 4321)
    with pytest.raises(StoreError, match="another user"):
        opened(link)


def test_an_own_link_to_a_store_is_followed(folder: Path, tmp_path: Path) -> None:
    opened(folder).close()
    link = tmp_path / "link"
    link.symlink_to(folder)
    opened(link).close()


def test_a_store_that_another_process_keeps_is_locked(folder: Path) -> None:
    with opened(folder, busy_ms=20) as store, Database(folder / "store.sqlite").write():
        assert store.live().number == 0  # reading waits for nobody
        with pytest.raises(Locked, match="20 ms"):
            store.put(artifact("calc"))


def test_a_truncated_artifact_is_corrupt_and_named(folder: Path) -> None:
    with opened(folder) as store:
        sha256 = go_live(store, "calc")
        os.truncate(file_of(folder, sha256), 30)
        with pytest.raises(Corrupt) as caught:
            store.artifact(sha256)
    assert sha256 in str(caught.value)
    assert "30 bytes" in str(caught.value)


def test_a_flipped_bit_in_an_artifact_is_corrupt(folder: Path) -> None:
    with opened(folder) as store:
        sha256 = go_live(store, "calc")
        path = file_of(folder, sha256)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        with pytest.raises(Corrupt):
            store.artifact(sha256)


def test_a_missing_artifact_is_corrupt(folder: Path) -> None:
    with opened(folder) as store:
        sha256 = go_live(store, "calc")
        file_of(folder, sha256).unlink()
        with pytest.raises(Corrupt, match="missing"):
            store.artifact(sha256)
        with pytest.raises(Corrupt, match="missing"):
            store.artifact("0" * 64)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_an_artifact_that_is_no_file_is_corrupt_and_never_waited_for(folder: Path, kind: str) -> None:
    with opened(folder) as store:
        sha256 = go_live(store, "calc")
        path = file_of(folder, sha256)
        kept = path.rename(folder / "elsewhere")
        if kind == "link":
            path.symlink_to(kept)
        else:
            os.mkfifo(path)
        with pytest.raises(Corrupt):
            store.artifact(sha256)


def test_staging_an_artifact_again_mends_its_file(folder: Path) -> None:
    with opened(folder) as store:
        sha256 = go_live(store, "calc")
        os.truncate(file_of(folder, sha256), 30)
        store.put(artifact("calc"))
        assert store.artifact(sha256).sha256 == sha256


def test_what_a_killed_host_left_behind_is_swept_away(folder: Path) -> None:
    with opened(folder) as store:
        sha256 = go_live(store, "calc")
    kept = file_of(folder, sha256)
    half, orphan, young = kept.with_name(".1234.tmp"), kept.with_name(f"{'1' * 64}.wasm"), kept.with_name(".5678.tmp")
    for path in (half, orphan, young):
        path.write_bytes(b"\0asm")
    for path in (kept, half, orphan):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    opened(folder).close()
    assert [path.exists() for path in (kept, half, orphan, young)] == [True, False, False, True]


def test_the_artifacts_of_old_rejected_candidates_are_swept_away(folder: Path, clock: FixedClock) -> None:
    with opened(folder, clock=clock) as store:
        live = go_live(store, "calc")
        old, young = artifact("calc", salt=1), artifact("calc", salt=2)
        for built, wait_s in ((old, 3_000), (young, 700)):
            store.put(built)
            candidate = store.history.stage({"calc": ToolVersion(built.sha256)}, (), author="model", note="")
            store.reject(candidate.number, by="ada")
            os.utime(file_of(folder, built.sha256), (1_000_000_000, 1_000_000_000))
            clock.advance(wait_s)
        store.sweep()
        assert [file_of(folder, sha256).exists() for sha256 in (live, old.sha256, young.sha256)] == [True, False, True]
        with pytest.raises(Corrupt, match="missing: stage it again"):
            store.artifact(old.sha256)
        store.put(old)
        assert store.artifact(old.sha256).wasm == old.wasm


def test_a_rejected_artifact_that_is_put_again_is_not_swept_away_before_it_is_staged(clock: FixedClock) -> None:
    with Store.open(":memory:", clock=clock) as store:
        built = artifact("calc")
        store.put(built)
        candidate = store.history.stage({"calc": ToolVersion(built.sha256)}, (), author="model", note="")
        store.reject(candidate.number, by="ada")
        clock.advance(4_000)
        store.put(built)
        store.sweep()
        assert store.artifact(built.sha256).wasm == built.wasm
        clock.advance(4_000)
        store.sweep()
        assert store.artifact_if_whole(built.sha256) is None


def test_nothing_is_swept_away_beside_a_damaged_generation(folder: Path, clock: FixedClock) -> None:
    with opened(folder, clock=clock) as store:
        built = artifact("calc")
        store.put(built)
        for _ in range(2):
            candidate = store.history.stage({"calc": ToolVersion(built.sha256)}, (), author="model", note="")
            store.reject(candidate.number, by="ada")
        statement(folder, f"UPDATE generations SET body = 'damaged' WHERE number = {candidate.number}")
        clock.advance(4_000)
        store.sweep()
        assert store.artifact(built.sha256).wasm == built.wasm
        store.history.check_room("model")


def test_pruning_keeps_what_can_be_returned_to_and_lets_go_of_the_rest(folder: Path, clock: FixedClock) -> None:
    with opened(folder, clock=clock) as store:
        steady = go_live(store, "steady")
        hashes = [go_live(store, "calc", salt=salt) for salt in range(6)]
        waiting = artifact("text")
        store.put(waiting)
        store.history.stage({"text": ToolVersion(waiting.sha256)}, (), author="model", note="")
        for path in folder.rglob("*.wasm"):
            os.utime(path, (0, 0))
        assert store.prune(keep=2).artifacts == ()  # all of them are young
        clock.advance(4_000)
        assert store.prune(keep=2) == Pruned((), tuple(sorted(hashes[:3])))
        kept = {steady, waiting.sha256, *hashes[3:]}
        assert {path.stem for path in folder.rglob("*.wasm")} == kept
        assert all(store.artifact_if_whole(sha256) for sha256 in kept)
        assert [generation.why for generation in store.generations()] == ["", "", *["pruned"] * 3, "", "", "", ""]
        with pytest.raises(UnknownGeneration, match="pruned"):
            store.history.roll_back(3, author="operator", note="")
        assert store.prune(keep=1) == Pruned((5,), (hashes[3],))
        assert store.history.roll_back(None, author="operator", note="").live.number == 6
        with pytest.raises(ValueError, match="keep"):
            store.prune(keep=0)


def test_pruning_keeps_the_version_that_an_automatic_return_would_bring_back(folder: Path, clock: FixedClock) -> None:
    with opened(folder, clock=clock) as store:
        first = go_live(store, "calc")
        second = go_live(store, "calc", salt=1)
        for salt in range(4):
            go_live(store, "text", salt=salt)
        clock.advance(4_000)
        assert first not in store.prune(keep=1).artifacts
        held = Quarantine(version=VersionKey("calc", second), generation=2, at=0.0, reasons=("trapped",))
        switched = store.quarantine(held)
        assert switched is not None
        assert switched.live.tools["calc"].artifact == first
        assert store.artifact_if_whole(first) is not None


def test_nothing_is_pruned_beside_a_damaged_generation(folder: Path, clock: FixedClock) -> None:
    with opened(folder, clock=clock) as store:
        hashes = [go_live(store, "calc", salt=salt) for salt in range(4)]
        statement(folder, "UPDATE generations SET body = 'damaged' WHERE number = 2")
        clock.advance(4_000)
        with pytest.raises(Corrupt, match="generation 2 "):
            store.prune(keep=1)
        assert store.artifact_if_whole(hashes[0]) is not None


def test_a_store_opened_read_only_offers_what_is_live_and_changes_nothing(folder: Path) -> None:
    with opened(folder) as store:
        sha256 = go_live(store, "calc")
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with opened(folder, read_only=True) as store:
        assert store.read_only
        assert store.artifact(store.live().tools["calc"].artifact).sha256 == sha256
        for change in (
            lambda: store.put(artifact("calc", salt=1)),
            lambda: store.history.stage({}, ("calc",), author="model", note=""),
            lambda: store.history.roll_back(None, author="operator", note=""),
            lambda: store.records.pardon("calc"),
        ):
            with pytest.raises(StoreError) as caught:
                change()
            assert caught.value.reason == "read_only"
    after = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {name: after[name] for name in before} == before


def test_there_is_nothing_to_open_read_only_in_an_empty_folder(folder: Path) -> None:
    with pytest.raises(StoreError) as caught:
        opened(folder, read_only=True)
    assert caught.value.reason == "not_a_store"
    assert not folder.exists()


def give_away(folder: Path) -> None:
    """Gives the folder and what is beside it to somebody who is not root, and lets them come in."""
    if os.geteuid() != 0:
        return
    for path in (folder.parent, *folder.parent.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY)
    for parent in folder.parents:
        # Only the temporary folders of this run are as closed as that.
        if parent.stat().st_uid == 0 and stat.S_IMODE(parent.stat().st_mode) == 0o700:
            parent.chmod(0o711)


def go_live_and_die(connection: Connection, folder: Path) -> None:
    go_live(opened(folder), "calc")
    os.kill(os.getpid(), signal.SIGKILL)


def look_and_try_to_write(folder: Path) -> tuple[int, tuple[str, ...], bool, str]:
    become_somebody()
    with opened(folder) as store:
        live = store.live()
        tools = store.artifact(live.tools["calc"].artifact).tools
        with pytest.raises(StoreError) as caught:
            store.put(artifact("calc", salt=1))
        return live.number, tools, store.read_only, caught.value.reason


@pytest.mark.parametrize("left", ["closed", "killed"])
def test_a_folder_that_cannot_be_written_still_offers_what_is_live(folder: Path, left: str) -> None:
    if left == "closed":
        with opened(folder) as store:
            go_live(store, "calc")
    else:
        process, _ = begin(go_live_and_die, folder)
        process.join(WAIT_S)
        assert (folder / "store.sqlite-wal").exists()
    give_away(folder)
    folder.chmod(0o500)
    try:
        assert answer_of_process(look_and_try_to_write, folder) == (1, ("calc",), True, "read_only")
    finally:
        folder.chmod(0o700)


def reason_of_opening(folder: Path) -> str:
    become_somebody()
    with pytest.raises(StoreError) as caught:
        opened(folder)
    return caught.value.reason


def test_a_folder_that_cannot_be_made_is_read_only(folder: Path) -> None:
    give_away(folder)
    folder.parent.chmod(0o555)
    try:
        assert answer_of_process(reason_of_opening, folder) == "read_only"
    finally:
        folder.parent.chmod(0o755)


def test_a_full_database_says_so_and_changes_nothing(folder: Path) -> None:
    with opened(folder) as store:
        go_live(store, "calc")
        before = store.generations()
        with store._database.write() as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError) as caught:
            store.history.stage({}, ("calc",), author="model", note="x" * 500_000)
        assert caught.value.reason == "disk_full"
        assert store.generations() == before
        assert store.history.roll_back(None, author="operator", note="").live.number == 0


def fill_the_disk(*, bytes_left: int) -> None:
    """As far as this process can tell: no file may be longer."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, bytes_left))


def put_on_a_full_disk(folder: Path) -> str:
    large = artifact(declaration("calc") | {"description": "x" * 4_000})
    with opened(folder) as store:
        fill_the_disk(bytes_left=2_000)
        with pytest.raises(StoreError) as caught:
            store.put(large)
        return caught.value.reason


def test_a_full_disk_leaves_no_half_written_artifact(folder: Path) -> None:
    opened(folder).close()
    assert answer_of_process(put_on_a_full_disk, folder) == "disk_full"
    assert [path for path in (folder / "artifacts").rglob("*") if path.is_file()] == []
    with opened(folder) as store:
        assert [generation.number for generation in store.generations()] == [0]


def look_on_a_full_disk(folder: Path) -> tuple[int, tuple[str, ...], str]:
    fill_the_disk(bytes_left=0)
    with opened(folder) as store:
        live = store.live()
        tools = store.artifact(live.tools["calc"].artifact).tools
        with pytest.raises(StoreError) as caught:
            store.history.roll_back(None, author="operator", note="")
        return live.number, tools, caught.value.reason


def test_a_store_on_a_full_disk_still_offers_what_is_live(folder: Path) -> None:
    with opened(folder) as store:
        go_live(store, "calc")
    assert answer_of_process(look_on_a_full_disk, folder) == (1, ("calc",), "read_only")
    with opened(folder) as store:
        assert store.live().number == 1


def open_when_told(connection: Connection, folder: Path) -> None:
    connection.recv()
    with opened(folder) as store:
        connection.send(len(store.generations()))


def test_of_many_that_make_a_store_at_the_same_moment_none_is_turned_away(tmp_path: Path) -> None:
    # SQLite waits for nobody where two turn the write-ahead log on: one of some fifty such moments failed.
    together = threading.Barrier(4)

    def open_all() -> None:
        for number in range(20):
            together.wait(WAIT_S)
            opened(tmp_path / f"{number}").close()

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(open_all) for _ in range(4)]:
            done.result()


def test_processes_that_make_one_store_at_once_all_open_it(folder: Path) -> None:
    others = [begin(open_when_told, folder) for _ in range(4)]
    for _, connection in others:
        connection.send("now")
    for process, connection in others:
        assert connection.poll(WAIT_S)
        assert connection.recv() == 1
        process.join(WAIT_S)
        connection.close()
