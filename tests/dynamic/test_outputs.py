from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from rho_wasm.dynamic.outputs import StoreOutputs
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import Closed, TooLarge, VersionMismatch


@pytest.fixture
def store(tmp_path: Path, key_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", key_path=key_path) as store:
        yield store


@pytest.fixture
def outputs(store: Store) -> Iterator[StoreOutputs]:
    outputs = StoreOutputs(store, max_bytes=100)
    yield outputs
    outputs.close()


def test_a_text_is_read_back_under_an_id_that_nobody_guesses(outputs: StoreOutputs) -> None:
    ids = {outputs.keep("grüße\n", session_id="s1") for _ in range(3)}
    assert len(ids) == 3
    for output_id in ids:
        assert re.fullmatch("out_[0-9a-f]{32}", output_id)
        assert outputs.read(output_id, session_id="s1") == "grüße\n"


def test_another_sessions_output_is_as_unknown_as_none(outputs: StoreOutputs) -> None:
    mine, nobodys = outputs.keep("mine", session_id="s1"), outputs.keep("nobody's", session_id=None)
    assert outputs.read(mine, session_id="s2") is None
    assert outputs.read(mine, session_id=None) is None
    assert outputs.read(nobodys, session_id="s1") is None
    assert outputs.read(nobodys, session_id=None) == "nobody's"
    assert outputs.read("out_" + "0" * 32, session_id="s1") is None


def test_the_oldest_are_let_go_when_there_is_no_room(outputs: StoreOutputs) -> None:
    ids = [outputs.keep(letter * 40, session_id="s1") for letter in "abc"]
    assert [outputs.read(output_id, session_id="s1") for output_id in ids] == [None, "b" * 40, "c" * 40]


def test_a_text_larger_than_all_room_is_refused_and_costs_no_other(outputs: StoreOutputs) -> None:
    kept = outputs.keep("a" * 100, session_id="s1")
    with pytest.raises(TooLarge):
        outputs.keep("ä" * 51, session_id="s1")
    assert outputs.read(kept, session_id="s1") == "a" * 100


def test_lone_surrogates_do_not_keep_a_text_from_being_kept(outputs: StoreOutputs) -> None:
    assert outputs.read(outputs.keep("a\ud800b", session_id="s"), session_id="s") == "a?b"


def test_outputs_outlive_the_process_and_its_store_is_not_changed_by_them(store: Store) -> None:
    before = store.data_version()
    first = StoreOutputs(store)
    kept = first.keep("kept", session_id="s1")
    first.close()
    again = StoreOutputs(store)
    assert again.read(kept, session_id="s1") == "kept"
    again.close()
    assert store.data_version() == before


def test_a_damaged_file_of_outputs_is_begun_anew(store: Store) -> None:
    StoreOutputs(store).close()
    assert store.folder is not None
    (store.folder / "outputs.sqlite").write_bytes(b"this is no database" * 1000)
    outputs = StoreOutputs(store)
    assert outputs.read(outputs.keep("new", session_id=None), session_id=None) == "new"
    outputs.close()


def test_a_newer_file_of_outputs_is_left_as_it_is(store: Store) -> None:
    StoreOutputs(store).close()
    assert store.folder is not None
    connection = sqlite3.connect(store.folder / "outputs.sqlite")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(VersionMismatch):
        StoreOutputs(store)


@pytest.mark.parametrize("kind", ["memory", "read-only"])
def test_without_a_folder_to_write_in_outputs_are_kept_in_memory(store: Store, kind: str) -> None:
    assert store.folder is not None
    with Store.open(":memory:") if kind == "memory" else Store.open(store.folder, read_only=True) as other:
        outputs = StoreOutputs(other)
        assert outputs.read(outputs.keep("kept", session_id="s"), session_id="s") == "kept"
        outputs.close()
    assert not (store.folder / "outputs.sqlite").exists()


def test_closed_outputs_say_so(outputs: StoreOutputs) -> None:
    outputs.close()
    outputs.close()
    with pytest.raises(Closed):
        outputs.keep("a", session_id=None)
