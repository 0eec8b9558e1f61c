"""Content is decoded as it comes, and never beyond what is allowed."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from rho_wasm.capabilities.http_content import BadContent, Content, ContentTooLarge, readable

MIB = 1024 * 1024


def decoded(encoding: str, data: bytes, *, most: int = 1_000, step: int = 7) -> bytes:
    content = Content(encoding, most=most)
    for start in range(0, len(data), step):
        content.feed(data[start : start + step])
    return content.whole()


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


TEXT = b"some text that is text " * 20


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("", TEXT),
        ("Identity", TEXT),
        ("gzip", gzip.compress(TEXT, mtime=0)),
        (" X-GZIP ", gzip.compress(TEXT, mtime=0)),
        ("gzip", gzip.compress(TEXT[:100], mtime=0) + gzip.compress(TEXT[100:], mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
    ],
)
@pytest.mark.parametrize("step", [1, 1_000])
def test_content_is_decoded_however_it_is_cut(encoding: str, data: bytes, step: int) -> None:
    assert decoded(encoding, data, step=step) == TEXT


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "gzip,identity", "compress", "x"])
def test_an_encoding_that_was_not_asked_for_is_refused(encoding: str) -> None:
    with pytest.raises(BadContent):
        Content(encoding, most=10)


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", TEXT),
        ("gzip", gzip.compress(TEXT, mtime=0)[:-1]),
        ("gzip", gzip.compress(TEXT, mtime=0) + b"more"),
        ("gzip", b"\x1f"),
        ("deflate", zlib.compress(TEXT) + b"more"),
        ("deflate", b"x"),
    ],
)
def test_content_that_is_not_what_it_says_is_refused(encoding: str, data: bytes) -> None:
    with pytest.raises(BadContent):
        decoded(encoding, data)


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_a_body_may_have_the_bound_and_not_a_byte_more(encoding: str) -> None:
    def packed(data: bytes) -> bytes:
        return gzip.compress(data) if encoding == "gzip" else zlib.compress(data) if encoding else data

    assert len(decoded(encoding, packed(bytes(1_000)), most=1_000)) == 1_000
    assert decoded(encoding, packed(b""), most=0) == b""
    with pytest.raises(ContentTooLarge):
        decoded(encoding, packed(bytes(1_001)), most=1_000)


def test_a_bomb_is_not_inflated_beyond_the_bound() -> None:
    bomb = gzip.compress(bytes(16 * MIB))
    content = Content("gzip", most=MIB // 4)
    tracemalloc.start()
    try:
        with pytest.raises(ContentTooLarge):
            content.feed(bomb)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content_type", "content", "read"),
    [
        ("", b"plain", "plain"),
        ("", b"\xff\xfe", b"\xff\xfe"),
        ("text/html", "é".encode(), "é"),
        ("text/html; charset=ISO-8859-1", b"\xe9", "é"),
        ('text/html; Charset="utf-8"', b"\xef\xbb\xbfx", "x"),
        ("text/html; charset=utf-7", b"+AGE-", b"+AGE-"),
        ("application/problem+json;charset=utf-8", b"{}", "{}"),
        ("image/png", b"png", b"png"),
        ("application/octet-stream", b"text", b"text"),
        ("application/json", b"\xff", b"\xff"),
    ],
)
def test_a_body_is_text_where_its_type_says_so_and_it_is(content_type: str, content: bytes, read: str | bytes) -> None:
    assert readable(content, content_type) == read
