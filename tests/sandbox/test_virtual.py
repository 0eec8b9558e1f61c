"""Time and chance of a call that was granted neither."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rho_wasm.sandbox.virtual import START_NS, SeededRandom, VirtualClock


def test_time_goes_on_at_each_read_and_with_each_sleep() -> None:
    clock = VirtualClock()
    assert [clock.read_ns() - START_NS for _ in range(2)] == [1_000, 2_000]
    clock.advance_ns(5_000_000)
    assert clock.read_ns() - START_NS == 5_003_000


def test_time_never_goes_back_and_never_overflows() -> None:
    clock = VirtualClock()
    clock.advance_ns(-5)
    assert clock.read_ns() == START_NS + 1_000
    clock.advance_ns(2**64)
    assert clock.read_ns() == clock.read_ns() == 2**63 - 1


@given(st.binary(max_size=20), st.lists(st.integers(0, 100), max_size=10))
def test_the_stream_follows_from_the_seed_however_it_is_cut(seed: bytes, pieces: list[int]) -> None:
    whole, cut = SeededRandom(seed), SeededRandom(seed)
    assert whole.read(sum(pieces)) == b"".join(cut.read(piece) for piece in pieces)


def test_other_seeds_give_other_streams() -> None:
    assert len({SeededRandom(bytes([n])).read(16) for n in range(50)}) == 50
