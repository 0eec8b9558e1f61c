"""What a worker says of a source that it loaded is believed only where it is exact."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.limits import Limits
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.images import LoadedSource
from rho_wasm.sandbox.source_message import read_loaded

LIMITS = Limits.for_loading()
GOOD: dict[str, Any] = {"reply": b"r", "pages": 2, "changes": [0, b"ab", 2, b"c", 131_070, b"zz"]}


def read(message: Any) -> LoadedSource | None:
    return read_loaded(plain.encode(message), limits=LIMITS, image_bytes=100)


def test_a_message_is_read_as_it_was_meant() -> None:
    assert read(GOOD) == LoadedSource(b"r", 2, ((0, b"ab"), (2, b"c"), (131_070, b"zz")))
    assert read(GOOD | {"changes": []}) == LoadedSource(b"r", 2, ())
    assert read(GOOD | {"changes": None}) is None


@pytest.mark.parametrize(
    "message",
    [
        [],
        {},
        GOOD | {"more": 1},
        GOOD | {"reply": "text"},
        GOOD | {"pages": True},
        GOOD | {"pages": -1},
        GOOD | {"pages": 2_049},
        GOOD | {"changes": {}},
        GOOD | {"changes": [0]},
        GOOD | {"changes": [0, "text"]},
        GOOD | {"changes": ["0", b"x"]},
        GOOD | {"changes": [-1, b"x"]},
        GOOD | {"changes": [1, b"x", 1, b"y"]},
        GOOD | {"changes": [2, b"x", 1, b"y"]},
        GOOD | {"changes": [131_071, b"xy"]},
        GOOD | {"changes": [0, bytes(101)]},
    ],
)
def test_anything_else_is_a_bad_answer(message: Any) -> None:
    with pytest.raises(CallFailed) as failed:
        read(message)
    assert failed.value.reason == "bad_answer"


def test_bytes_that_are_no_message_are_a_bad_answer() -> None:
    with pytest.raises(CallFailed):
        read_loaded(b"\xff", limits=LIMITS, image_bytes=100)
