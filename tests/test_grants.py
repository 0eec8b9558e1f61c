"""The bounds of capabilities: their defaults, what is refused, and where two of them meet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rho_wasm.grants import (
    BOUNDS,
    Bounds,
    FilesBounds,
    Grant,
    HttpBounds,
    KvReadBounds,
    KvWriteBounds,
    NoEffect,
    ToolCallBounds,
    capability_name,
    is_reserved,
)


def test_nothing_that_reaches_out_is_allowed_where_nothing_is_said() -> None:
    assert HttpBounds().hosts == ()
    assert HttpBounds().networks == ()
    assert HttpBounds().secrets == ()
    assert HttpBounds().methods == ("GET",)
    assert FilesBounds().folders == {}
    assert ToolCallBounds().tools == ()


def test_every_capability_that_ships_has_bounds_with_defaults_that_are_plain() -> None:
    for name, model in BOUNDS.items():
        assert capability_name(name) == name
        assert is_reserved(name)
        made = model()
        assert model.model_validate(made.model_dump(mode="json")) == made
        assert made.meet(made) == made
    assert not is_reserved("invoice.lookup")
    assert is_reserved("kv.anything")


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (HttpBounds, {"hosts": ["api.example"]}),
        (HttpBounds, {"hosts": "https://api.example"}),
        (HttpBounds, {"hosts": ["https://api.example"] * 101}),
        (HttpBounds, {"methods": ["get"]}),
        (HttpBounds, {"methods": ["CONNECT"]}),
        (HttpBounds, {"networks": ["127.0.0.1/8"]}),
        (HttpBounds, {"networks": ["localhost"]}),
        (HttpBounds, {"timeout_ms": 0}),
        (HttpBounds, {"timeout_ms": 60_001}),
        (HttpBounds, {"redirects": True}),
        (HttpBounds, {"secrets": ["a b"]}),
        (HttpBounds, {"requests": 1.0}),
        (FilesBounds, {"folders": {"a": "relative"}}),
        (FilesBounds, {"folders": {"a": "/x/../y"}}),
        (FilesBounds, {"folders": {"a/b": "/x"}}),
        (FilesBounds, {"folders": {"a": "/x\0"}}),
        (ToolCallBounds, {"tools": ["a*b"]}),
        (ToolCallBounds, {"tools": [""]}),
        (KvReadBounds, {"keys": 10}),
        (KvReadBounds, {"bytes": 10}),
        (KvWriteBounds, {"keys": -1}),
        (KvWriteBounds, {"bytes": None}),
        (NoEffect, {"any": 1}),
    ],
)
def test_what_is_no_bound_is_refused(model: type[Bounds], wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(wrong)


def test_numbers_meet_in_the_lower_and_lists_in_what_both_have() -> None:
    one = HttpBounds(
        hosts=("https://*.example.com", "https://api.example/v1"),
        methods=("GET", "POST"),
        networks=("127.0.0.0/8", "::1/128"),
        requests=5,
        secrets=("a", "b"),
    )
    other = HttpBounds(
        hosts=("https://x.example.com/y", "https://api.example"),
        methods=("POST", "PUT"),
        networks=("127.0.0.1/32",),
        requests=9,
        response_bytes=7,
        secrets=("b", "c"),
    )
    met = one.meet(other)
    assert met == HttpBounds(
        hosts=("https://x.example.com/y", "https://api.example/v1"),
        methods=("POST",),
        networks=("127.0.0.1/32",),
        requests=5,
        response_bytes=7,
        secrets=("b",),
    )
    assert [str(rule) for rule in met.rules] == list(met.hosts)
    assert [str(network) for network in met.allowed_networks] == ["127.0.0.1/32"]


def test_what_was_computed_of_one_is_not_carried_to_where_it_meets_another() -> None:
    wide = HttpBounds(hosts=("https://a.example",))
    assert len(wide.rules) == 1
    assert wide.meet(HttpBounds()).rules == ()


def test_a_folder_is_common_only_where_both_mean_the_same_one() -> None:
    one = FilesBounds(folders={"data": "/srv/data/", "logs": "/srv/logs"})
    other = FilesBounds(folders={"data": "/srv/data", "logs": "/srv", "more": "/x"})
    assert one.meet(other).folders == {"data": "/srv/data"}


def test_patterns_of_tools_meet_in_the_narrower() -> None:
    one, other = ToolCallBounds(tools=("weather_*", "a"), calls=3), ToolCallBounds(tools=("weather_now", "b*", "*"))
    assert one.meet(other) == ToolCallBounds(tools=("weather_now", "weather_*", "a"), calls=3)


def test_only_reads_says_whether_anything_outside_can_change() -> None:
    harmless = {name for name, model in BOUNDS.items() if model().only_reads}
    assert sorted(BOUNDS.keys() - harmless) == ["kv.delete", "kv.put", "tool.call"]
    assert HttpBounds(methods=("GET", "HEAD")).only_reads
    assert not HttpBounds(methods=("GET", "POST")).only_reads


class Own(Bounds):
    flag: bool = True
    text: str = "a"
    ratio: float = 0.5


def test_a_hosts_own_bounds_meet_without_a_word_of_their_own() -> None:
    assert Own().meet(Own(flag=False, ratio=0.1)) == Own(flag=False, ratio=0.1)
    with pytest.raises(ValueError, match="nothing in common"):
        Own().meet(Own(text="b"))


rules = st.lists(
    st.sampled_from(
        ["https://a.example", "https://a.example/x", "https://*.example", "https://b.a.example/x/y", "http://a.example"]
    )
)


@given(rules, rules)
def test_what_two_grants_have_in_common_is_in_each_of_them(one: list[str], other: list[str]) -> None:
    a, b = HttpBounds(hosts=tuple(one)), HttpBounds(hosts=tuple(other))
    met = a.meet(b)
    for host in ("a.example", "b.a.example", "example"):
        for path in ("/", "/x", "/x/y", "/xy"):
            covered = [any(rule.covers("https", host, 443, path) for rule in bounds.rules) for bounds in (a, b, met)]
            assert covered[2] == (covered[0] and covered[1])


@pytest.mark.parametrize(
    "name", ["", "kv", "Kv.get", "kv..get", "kv.get ", "kv.1", "k v.get", "a." + "b" * 63, "a.b\n"]
)
def test_a_capabilitys_name_is_lower_case_words_joined_by_dots(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a capability"):
        capability_name(name)
    with pytest.raises(ValidationError):
        Grant(capability=name)


def test_a_grant_is_plain_data_that_nobody_alters() -> None:
    grant = Grant(capability="no.such", bounds={"a": [1]})
    assert Grant.model_validate_json(grant.model_dump_json()) == grant
    with pytest.raises(TypeError, match="read-only"):
        grant.bounds["a"] = 2  # type: ignore[index]
    with pytest.raises(ValidationError, match="not plain"):
        Grant(capability="no.such", bounds={"a": object()})
