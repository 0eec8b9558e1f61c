"""Requests in too many pieces: refused by how many they are, whatever bytes they hold."""

from __future__ import annotations

import h11
import pytest

from rho_wasm.server.requests import BoundedRequests

HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def read(*parts: bytes) -> tuple[BoundedRequests, list[object]]:
    requests = BoundedRequests(headers_bytes=65_536)
    events: list[object] = []
    for part in parts:
        requests.receive_data(part)
        while (event := requests.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            events.append(event)
    return requests, events


def body_of(events: list[object]) -> bytes:
    return b"".join(bytes(event.data) for event in events if isinstance(event, h11.Data))


def refused(*parts: bytes) -> str:
    with pytest.raises(h11.RemoteProtocolError) as caught:
        read(*parts)
    return str(caught.value)


@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
@pytest.mark.parametrize("line", [b"a:\r\n", b" folded\r\n"])
def test_a_head_of_many_lines_is_refused_before_it_is_parsed(line: bytes, end: bytes) -> None:
    assert "128 lines" in refused(HEAD + b"a: b\r\n" + line * 200 + end)


def test_a_body_in_tiny_chunks_is_refused_and_hears_what_to_do() -> None:
    assert "Content-Length" in refused(CHUNKED + b"1\r\n \r\n" * 400)


def test_a_long_trailer_and_a_long_head_of_a_chunk_are_refused() -> None:
    assert "trailer" in refused(CHUNKED + b"0\r\n", b"a:\r\n" * 40)
    assert "trailer" in refused(CHUNKED + b"0\r\n", b"a: " + b"x" * 5_000)
    assert "chunk header" in refused(CHUNKED + b"1;" + b"x" * 5_000)


def test_honest_bodies_are_read_whatever_they_hold() -> None:
    lines = b"[\r\n\r\n1,\n2]" * 1_000
    one = HEAD + b"Content-Length: %d\r\n\r\n" % len(lines) + lines
    requests, events = read(one)
    assert body_of(events) == lines
    assert not requests.is_chunked
    chunks = b"".join(b"%x\r\n%s\r\n" % (1_024, b"\n" * 1_024) for _ in range(1_000))
    requests, events = read(CHUNKED, chunks, b"0\r\nx: y\r\n\r\n")
    assert body_of(events) == b"\n" * 1_024_000
    assert isinstance(events[-1], h11.EndOfMessage)
    assert not requests.is_coming


def test_the_head_of_a_request_after_one_in_chunks_is_read_as_any_other() -> None:
    requests, _ = read(CHUNKED + b"1\r\n \r\n0\r\n\r\n")
    requests.send(h11.Response(status_code=200, headers=[(b"content-length", b"0")]))
    requests.send(h11.EndOfMessage())
    requests.start_next_cycle()
    requests.receive_data(HEAD + b"".join(b"a%d: %s\r\n" % (number, b"x" * 300) for number in range(20)))
    assert requests.next_event() is h11.NEED_DATA
    requests.receive_data(b"\r\n")
    assert isinstance(requests.next_event(), h11.Request)
