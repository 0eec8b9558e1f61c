"""What one client may hold of something that all share."""

from __future__ import annotations

from contextlib import ExitStack

from rho_wasm.server.shares import Shares


def test_one_peer_holds_a_quarter_and_others_theirs() -> None:
    shares = Shares(8)
    with ExitStack() as held:
        assert [held.enter_context(shares.one("a")) for _ in range(3)] == [True, True, False]
        assert held.enter_context(shares.one("b"))
        assert len(shares) == 2
    assert len(shares) == 0
    with shares.one("a") as given:
        assert given
