"""What a refusal of the host says in Python. Run by the host's own."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm.toolchains.engines.python.rho import HostError, host


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("not today", "http.fetch: unavailable: not today"),
        ("http.fetch is not granted", "http.fetch: unavailable: not granted"),
        ("http.fetched is new", "http.fetch: unavailable: http.fetched is new"),
    ],
)
def test_it_names_the_capability_once(message: str, text: str) -> None:
    error = HostError("unavailable", message, "http.fetch")
    assert str(error) == text
    assert (error.kind, error.message, error.capability) == ("unavailable", message, "http.fetch")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((3,), "a capability's name is text, not int"),
        (("kv.get", "key"), "the arguments of kv.get are a dict, not str"),
        (("kv.get", ["key"]), "the arguments of kv.get are a dict, not list"),
    ],
)
def test_what_is_asked_has_a_name_and_named_arguments(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        host.call(*given)
    assert str(caught.value) == said
