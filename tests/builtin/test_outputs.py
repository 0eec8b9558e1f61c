"""Outputs in memory: bound to a session, bounded, the oldest let go."""

from __future__ import annotations

import re

import pytest

from rho_wasm.builtin.outputs import MemoryOutputs
from rho_wasm.errors import TooLarge


def test_an_output_is_read_in_its_own_session_alone() -> None:
    outputs = MemoryOutputs()
    mine, nobodys = outputs.keep("mine", session_id="s"), outputs.keep("nobody's", session_id=None)
    assert outputs.read(mine, session_id="s") == "mine"
    assert outputs.read(nobodys, session_id=None) == "nobody's"
    for output_id, session_id in ((mine, "other"), (mine, None), (nobodys, "s"), ("out_" + "0" * 32, "s")):
        assert outputs.read(output_id, session_id=session_id) is None


def test_ids_have_128_random_bits() -> None:
    ids = {MemoryOutputs().keep("x", session_id=None) for _ in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch("out_[0-9a-f]{32}", one) for one in ids)


def test_the_oldest_are_let_go_when_room_is_needed() -> None:
    outputs = MemoryOutputs(max_bytes=10)
    ids = [outputs.keep("ää", session_id="s") for _ in range(3)]  # 4 bytes each
    assert [outputs.read(one, session_id="s") for one in ids] == [None, "ää", "ää"]


def test_a_text_larger_than_all_room_is_refused_and_lets_nothing_go() -> None:
    outputs = MemoryOutputs(max_bytes=10)
    kept = outputs.keep("0123456789", session_id="s")
    with pytest.raises(TooLarge):
        outputs.keep("0123456789+", session_id="s")
    assert outputs.read(kept, session_id="s") == "0123456789"
