"""Maps and lists that do not change."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from rho_wasm.errors import NotPlain
from rho_wasm.frozen import FrozenList, FrozenMap, freeze, thaw

DATA: dict[str, Any] = {"a": [1, 2.5, "x", b"y", None, True, {"b": []}], "c": {}}

CHANGES: list[Callable[[Any], Any]] = [
    lambda m: m.__setitem__("a", 1),
    lambda m: m.__delitem__("a"),
    lambda m: m.clear(),
    lambda m: m.pop("a"),
    lambda m: m.popitem(),
    lambda m: m.setdefault("z", 1),
    lambda m: m.update(z=1),
    lambda m: m.__ior__({"z": 1}),
    lambda m: m["a"].append(1),
    lambda m: m["a"].__setitem__(0, 1),
    lambda m: m["a"].__delitem__(0),
    lambda m: m["a"].clear(),
    lambda m: m["a"].extend([1]),
    lambda m: m["a"].insert(0, 1),
    lambda m: m["a"].pop(),
    lambda m: m["a"].remove(1),
    lambda m: m["a"].reverse(),
    lambda m: m["a"].sort(),
    lambda m: m["a"].__iadd__([1]),
    lambda m: m["a"].__imul__(2),
    lambda m: m["a"][6].clear(),
]


def test_it_still_is_a_dict_or_a_list_for_whoever_reads_it() -> None:
    frozen = freeze(DATA)
    assert frozen == DATA
    assert isinstance(frozen, dict)
    assert isinstance(frozen["a"], list)
    assert json.loads(json.dumps(freeze({"a": [1]}))) == {"a": [1]}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_refused(change: Callable[[Any], Any]) -> None:
    frozen = freeze(DATA)
    with pytest.raises(TypeError, match=r"read-only: change a copy \(rho_wasm.frozen.thaw\)"):
        change(frozen)
    assert frozen == DATA


def test_every_method_that_changes_a_dict_or_list_is_covered() -> None:
    reading = {"copy", "fromkeys", "get", "items", "keys", "values", "count", "index"}
    for frozen, base in ((FrozenMap, dict), (FrozenList, list)):
        for name in set(dir(base)) - set(dir(tuple)) - reading:
            if not name.startswith("_") or name in ("__setitem__", "__delitem__", "__ior__", "__iadd__", "__imul__"):
                assert getattr(frozen, name) is not getattr(base, name), name


def test_it_is_a_copy() -> None:
    given: dict[str, Any] = {"a": [{}]}
    frozen = freeze(given)
    given["a"][0]["b"] = 1
    assert frozen == {"a": [{}]}


def test_a_thawed_copy_can_be_changed() -> None:
    thawed = thaw(freeze(DATA))
    thawed["a"][6]["b"].append(1)
    assert type(thawed) is dict
    assert type(thawed["a"]) is list
    assert type(thawed["a"][6]) is dict


def test_copies_of_what_cannot_change_are_itself() -> None:
    frozen = freeze(DATA)
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen
    assert copy.copy(frozen["a"]) is copy.deepcopy(frozen["a"]) is frozen["a"]


def test_it_comes_out_of_a_pickle_frozen() -> None:
    for frozen in (freeze(DATA), freeze(DATA)["a"]):
        again = pickle.loads(pickle.dumps(frozen))
        assert again == frozen
        assert type(again) is type(frozen)


def test_tuples_and_other_mappings_are_taken() -> None:
    assert freeze(MappingProxyType({"a": (1, (2,))})) == {"a": [1, [2]]}


@pytest.mark.parametrize("value", [{1}, object(), 1j, {"a": {1}}, [len], {1: 2}, {b"a": 1}, {None: 1}, [range(3)]])
def test_what_is_not_plain_is_refused(value: Any) -> None:
    with pytest.raises(NotPlain):
        freeze(value)


def test_the_refusal_says_where() -> None:
    with pytest.raises(NotPlain, match=r"^\$\.a\[1\]\.b: set is not plain data"):
        freeze({"a": [0, {"b": {1}}]})


def test_the_refusal_is_bounded_and_inert() -> None:
    kind = type("\x1b[31m" * 1_000, (), {})
    for value in ({"\x1b[2J" * 100_000: {1}}, [kind()], {kind(): 1}):
        with pytest.raises(NotPlain) as caught:
            freeze(value)
        assert len(str(caught.value)) < 400
        assert str(caught.value).isprintable()


def test_depth_is_bounded_and_a_cycle_is_refused() -> None:
    value: Any = 0
    for _ in range(64):
        value = [value]
    assert freeze(value)
    loop: list[Any] = []
    loop.append(loop)
    for deep in ([value], loop):
        with pytest.raises(NotPlain, match="nested too deeply") as caught:
            freeze(deep)
        assert len(str(caught.value)) < 400
