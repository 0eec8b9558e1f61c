"""What is somebody else's stays so: in a session's author, in names and what looks like them, whatever became of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rho_wasm import Store
from rho_wasm.dynamic.generation import ToolVersion, VersionKey
from rho_wasm.dynamic.history import STRIKES_AUTHOR
from rho_wasm.workshop.authors import Authors


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def version(number: int) -> ToolVersion:
    return ToolVersion(f"{number:064x}")


def live(store: Store, author: str, *names: str, artifact: int = 1, remove: tuple[str, ...] = ()) -> int:
    add = dict.fromkeys(names, version(artifact))
    candidate = store.history.stage(add, remove, author=author, note="")
    store.history.activate(candidate.number)
    return candidate.number


def test_a_sessions_author_tells_sessions_apart_and_not_what_they_are() -> None:
    authors = Authors("workshop")
    one, other = authors.of("secret session"), authors.of("another")
    assert one != other
    assert one.startswith("workshop:")
    assert "secret" not in one
    assert authors.of(None) == "workshop"
    assert authors.own(one, "another")
    assert not authors.own("workshopper", "another")
    assert not authors.own("operator", "another")
    alone = Authors("workshop", shared=False)
    assert alone.own(one, "secret session")
    assert not alone.own(one, "another")


def test_a_name_is_foreign_once_somebody_else_brought_it_changed_it_took_it_away_or_is_about_to(store: Store) -> None:
    authors = Authors("workshop")
    live(store, authors.of("one"), "mine", "changed_by_operator", "removed_by_operator", "struck")
    live(store, "operator", "weather")
    live(store, "operator", remove=("weather",))
    live(store, "operator", "changed_by_operator", artifact=2, remove=("removed_by_operator",))
    store.history.stage({"planned": version(3)}, (), author="operator", note="")
    refused = store.history.stage({"given_up": version(3)}, (), author="operator", note="")
    store.reject(refused.number, by="operator")
    live(store, STRIKES_AUTHOR, remove=("struck",))
    foreign = authors.foreign(store, "two")
    expected = {"weather", "changed_by_operator", "removed_by_operator", "planned"}
    assert set(foreign.by_name) == expected
    assert foreign.problem("mine") is None
    assert foreign.problem("struck") is None
    assert "operator" in (foreign.problem("weather") or "")
    assert "looks like weather" in (foreign.problem("We-ather") or "")


def test_where_sessions_share_nothing_each_has_only_its_own_names(store: Store) -> None:
    authors = Authors("workshop", shared=False)
    live(store, authors.of("one"), "ones")
    assert authors.foreign(store, "one").problem("ones") is None
    assert authors.foreign(store, "two").problem("ones") is not None


def test_who_brought_a_version_is_who_ever_made_it_live(store: Store) -> None:
    live(store, "workshop:a", "tool", artifact=1)
    live(store, "operator", "other", artifact=1)
    live(store, "operator", "tool", artifact=2)
    live(store, "workshop:b", "tool", artifact=1)
    store.history.stage({"tool": version(1)}, (), author="somebody", note="")
    brought = store.authorship.brought_by
    assert brought(VersionKey("tool", version(1).artifact)) == {"workshop:a", "workshop:b"}
    assert brought(VersionKey("tool", version(2).artifact)) == {"operator"}
    assert brought(VersionKey("other", version(2).artifact)) == frozenset()


def test_open_candidates_are_told_the_newest_first(store: Store) -> None:
    numbers = [store.history.stage({f"tool{n}": version(n)}, (), author="workshop", note="").number for n in range(3)]
    store.reject(numbers[1], by="operator")
    assert [each.number for each in store.authorship.candidates()] == [numbers[2], numbers[0]]
