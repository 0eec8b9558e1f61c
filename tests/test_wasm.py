"""Bytes of modules: integers, names, sections, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm.errors import ModuleRejected
from rho_wasm.wasm import (
    CUSTOM,
    HEADER,
    Reader,
    custom,
    custom_sections,
    encode_name,
    encode_section,
    encode_u32,
    sections,
    with_custom,
)

EMPTY = HEADER


def reason(data: bytes) -> str:
    with pytest.raises(ModuleRejected) as caught:
        list(sections(data))
    return caught.value.reason


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_a_u32_reads_back_as_it_was_written(value: int) -> None:
    reader = Reader(encode_u32(value))
    assert reader.u32() == value
    assert reader.done


@pytest.mark.parametrize("value", [-1, 2**32])
def test_a_number_that_is_no_u32_is_not_written(value: int) -> None:
    with pytest.raises(ValueError, match="32-bit"):
        encode_u32(value)


@pytest.mark.parametrize(
    ("data", "value"), [("8000", 0), ("8080808000", 0), ("ffffffff0f", 2**32 - 1), ("e58e26", 624485)]
)
def test_padded_leb128_within_five_bytes_is_read(data: str, value: int) -> None:
    assert Reader(bytes.fromhex(data)).u32() == value


@pytest.mark.parametrize("data", ["ffffffff1f", "ffffffff7f", "808080808000", "ffffffffff0f"])
def test_leb128_beyond_32_bits_or_five_bytes_is_refused(data: str) -> None:
    with pytest.raises(ModuleRejected) as caught:
        Reader(bytes.fromhex(data)).u32()
    assert caught.value.reason == "leb128"


@pytest.mark.parametrize("data", ["", "80", "ffffffff"])
def test_leb128_that_ends_early_is_truncated(data: str) -> None:
    with pytest.raises(ModuleRejected) as caught:
        Reader(bytes.fromhex(data)).u32()
    assert caught.value.reason == "truncated"


def test_a_reader_does_not_look_past_its_end() -> None:
    reader = Reader(b"\x01\x02\x03", 0, 2)
    assert (reader.byte(), reader.byte()) == (1, 2)
    with pytest.raises(ModuleRejected):
        reader.byte()
    with pytest.raises(ModuleRejected):
        Reader(b"\x01\x02\x03", 1, 2).take(2)


def test_a_name_is_bounded_and_utf8() -> None:
    assert Reader(encode_name("größe")).name(max_bytes=7) == "größe"
    for data, limit in ((encode_name("größe"), 6), (b"\x02\xc3\x28", 10), (b"\x03\xed\xa0\x80", 10)):
        with pytest.raises(ModuleRejected) as caught:
            Reader(data).name(max_bytes=limit)
        assert caught.value.reason == "name"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not WebAssembly"),
        (b"\x7fELF", "not WebAssembly"),
        (b"(module)", "text"),
        (b"\0asm\x02\0\0\0", "version"),
        (b"\0asm\x0d\0\x01\0", "component"),
    ],
)
def test_what_is_no_core_module_is_named(data: bytes, what: str) -> None:
    with pytest.raises(ModuleRejected, match=what) as caught:
        list(sections(data))
    assert caught.value.reason == "header"


def test_a_section_that_is_longer_than_the_module_is_truncated() -> None:
    assert reason(EMPTY + b"\x01\x05\x00") == "truncated"
    assert reason(EMPTY + b"\x01") == "truncated"
    assert reason(EMPTY + b"\x01\xff\xff\xff\xff\x0f") == "truncated"


def test_sections_are_told_with_their_places() -> None:
    data = EMPTY + encode_section(1, b"\x00") + encode_section(CUSTOM, encode_name("a") + b"xyz")
    first, second = sections(data)
    assert (first.id, data[first.content : first.end]) == (1, b"\x00")
    assert data[second.start : second.end] == encode_section(CUSTOM, encode_name("a") + b"xyz")


def test_a_custom_section_is_found_by_name() -> None:
    data = with_custom(with_custom(EMPTY, "a", b"1"), "b", b"2")
    assert list(custom_sections(data)) == [("a", b"1"), ("b", b"2")]
    assert custom(data, "b") == b"2"
    assert custom(data, "c") is None


def test_embedding_replaces_every_section_of_that_name_and_keeps_the_rest() -> None:
    twice = EMPTY + encode_section(CUSTOM, encode_name("a") + b"old") * 2 + encode_section(1, b"\x00")
    assert with_custom(twice, "a", b"new") == EMPTY + encode_section(1, b"\x00") + encode_section(
        CUSTOM, encode_name("a") + b"new"
    )


def test_embedding_into_something_else_than_a_module_is_refused() -> None:
    with pytest.raises(ModuleRejected):
        with_custom(b"(module)", "a", b"")


def test_a_module_of_endless_sections_is_given_up() -> None:
    module = HEADER + b"\x00\x01\x00" * 1_001
    for read in (lambda: list(sections(module)), lambda: custom(module, "x")):
        with pytest.raises(ModuleRejected) as refused:
            read()
        assert (refused.value.reason, refused.value.limit) == ("sections", 1_000)
