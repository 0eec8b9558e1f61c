"""An engine says how its frames are read; one that says it in no known way has none."""

from __future__ import annotations

import pytest

from rho_wasm import plain
from rho_wasm.sandbox.frames_section import FRAMES_SECTION, frames_section, stopped_at, with_frames
from rho_wasm.wasm import HEADER, with_custom


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff",
        plain.encode({}, max_bytes=64),
        plain.encode([1], max_bytes=64),
        plain.encode({"cpython-3.13": 4}, max_bytes=64),
        plain.encode({"cpython-3.12": "4"}, max_bytes=64),
        plain.encode({"cpython-3.12": True}, max_bytes=64),
        plain.encode({"cpython-3.12": -1}, max_bytes=64),
        plain.encode({"quickjs-ng-0.15": 2**64 - 1}, max_bytes=64),
    ],
)
def test_nothing_is_read_by_a_section_that_says_nothing_known(said: bytes) -> None:
    assert stopped_at(said, 0, 0).lines() == ()


def test_the_section_is_found_again() -> None:
    engine = with_frames(HEADER, "cpython-3.12", 4_096)
    assert plain.decode(frames_section(engine), max_bytes=64) == {"cpython-3.12": 4_096}
    assert frames_section(HEADER) == b""
    assert frames_section(with_custom(HEADER, FRAMES_SECTION, bytes(65))) == b""
