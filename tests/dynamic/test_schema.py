from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from rho_wasm.dynamic.database import Database
from rho_wasm.dynamic.folder import DATABASE_NAME
from rho_wasm.dynamic.schema import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION, migrate
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import StoreError
from tests.dynamic.guests import artifact

VERSION_1_TABLES = {
    "approvals",
    "artifacts",
    "generations",
    "quarantines",
    "strikes",
    "switches",
    "traffic",
    "verdicts",
}


def opened(folder: Path, *, read_only: bool = False) -> Store:
    return Store.open(folder, read_only=read_only, key_path=folder.parent / "keys" / "store.key")


def tables(database: Path) -> set[str]:
    connection = sqlite3.connect(database)
    try:
        rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        return {row[0] for row in rows}
    finally:
        connection.close()


def take_back_to_version_1(folder: Path) -> None:
    """Makes the store in ``folder`` what the first version would have left there."""
    connection = sqlite3.connect(folder / DATABASE_NAME)
    for name in ("kv", "kv_sizes", "recordings", "unkept"):
        connection.execute(f"DROP TABLE {name}")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store as the first version left it, with a tool in it that is live."""
    folder = tmp_path / "store"
    with opened(folder) as store:
        store.put(artifact("calc"))
        candidate = store.history.stage({}, (), author="model", note="before")
        store.history.activate(candidate.number)
    take_back_to_version_1(folder)
    assert tables(folder / DATABASE_NAME) == VERSION_1_TABLES
    return folder


def test_a_fresh_store_has_every_table(tmp_path: Path) -> None:
    opened(tmp_path / "store").close()

    assert tables(tmp_path / "store" / DATABASE_NAME) == VERSION_1_TABLES | {"kv", "kv_sizes", "recordings", "unkept"}


def test_an_older_store_gets_the_new_tables_and_keeps_what_it_had(folder: Path) -> None:
    with opened(folder) as store:
        assert (store.live().number, store.live().note) == (1, "before")
        assert [generation.number for generation in store.generations()] == [0, 1]
        assert store.artifact(artifact("calc").sha256).tools == ("calc",)

    assert tables(folder / DATABASE_NAME) == VERSION_1_TABLES | {"kv", "kv_sizes", "recordings", "unkept"}


def test_an_older_store_that_is_read_only_says_to_open_it_once_where_it_can_be_written(folder: Path) -> None:
    with pytest.raises(StoreError, match="open it once where it can be written") as caught:
        opened(folder, read_only=True)

    assert caught.value.reason == "outdated"
    assert tables(folder / DATABASE_NAME) == VERSION_1_TABLES


def test_a_migration_that_is_killed_in_the_middle_leaves_the_older_store_whole(folder: Path) -> None:
    def die_after_migrating() -> None:
        with database.write() as connection:
            migrate(connection)
            raise KeyboardInterrupt

    database = Database(folder / DATABASE_NAME)
    with pytest.raises(KeyboardInterrupt):
        die_after_migrating()
    database.close()

    assert tables(folder / DATABASE_NAME) == VERSION_1_TABLES
    with opened(folder) as store:
        assert store.live().number == 1


def test_migrating_step_by_step_and_at_once_makes_the_same_tables() -> None:
    at_once, stepwise = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    migrate(at_once)
    for number, statements in enumerate(MIGRATIONS, 1):
        for statement in statements:
            stepwise.execute(statement)
        stepwise.execute(f"PRAGMA user_version = {number}")
    migrate(stepwise)

    def schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
        return connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()

    assert schema(at_once) == schema(stepwise)
    assert at_once.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert at_once.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    at_once.close()
    stepwise.close()
