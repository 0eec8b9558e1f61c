"""What is counted of a response before it reaches the parser, in whatever pieces it comes."""

from __future__ import annotations

import pytest

from rho_wasm.capabilities.http_head import (
    MOST_FIELDS,
    MOST_INFORMATIONAL,
    HeadWatch,
    TooManyFields,
    TooManyInformational,
)

FIELD = b"a: b\r\n"
HINT = b"HTTP/1.1 103 Early Hints\r\n" + FIELD + b"\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
FOLDED = OK + b"transfer-encoding:\r\n chunked\r\n\r\n"
CHUNKS = b"5;x=y\r\na\n\nb\n\r\nA\r\n0123\r\n4567\r\n0\r\n"


def seen(data: bytes, size: int) -> None:
    watch = HeadWatch()
    for start in range(0, len(data), size):
        watch.see(data[start : start + size])


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize(
    "data",
    [
        OK + FIELD * (MOST_FIELDS - 1) + b"\r\n" + b"\n" * 1_000,
        HINT * MOST_INFORMATIONAL + OK + b"Content-Length: 2000\r\n\r\n" + HINT * 100,
        CHUNKED + CHUNKS + FIELD * MOST_FIELDS + b"\r\n" + b"\n" * 1_000,
        CHUNKED + b"no size\r\n" + b"\n" * 1_000,
    ],
    ids=["fields", "informational", "trailers", "no chunks"],
)
def test_what_has_its_bounds_goes_through(data: bytes, size: int) -> None:
    seen(data, size)


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize(
    "data",
    [
        OK + FIELD * MOST_FIELDS,
        OK.replace(b"\r", b"") + b"a: b\n" * MOST_FIELDS,
        OK + b"\r\r\n" + FIELD * MOST_FIELDS,
        HINT + OK + FIELD * MOST_FIELDS,
        b"HTTP/1.1 103 x\r\n" + FIELD * MOST_FIELDS,
        CHUNKED + CHUNKS + FIELD * (MOST_FIELDS + 1),
        FOLDED + CHUNKS + FIELD * (MOST_FIELDS + 1),
    ],
    ids=["fields", "bare newlines", "no empty line", "after a hint", "of a hint", "trailers", "after folded coding"],
)
def test_a_section_of_too_many_lines_is_stopped_before_it_ends(data: bytes, size: int) -> None:
    with pytest.raises(TooManyFields):
        seen(data, size)


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_informational_responses_without_end_are_stopped(size: int) -> None:
    with pytest.raises(TooManyInformational):
        seen(HINT * (MOST_INFORMATIONAL + 1), size)
    with pytest.raises(TooManyInformational):
        seen(b"HTTP/1.1 100\n\n" * (MOST_INFORMATIONAL + 1), size)
