"""What an image may hold, one reason a fault, and that whatever else says it is one is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import MIB, HostLimits, Limits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.sandbox.admission import admit
from rho_wasm.sandbox.admission_image import admit_image, is_image
from rho_wasm.wasm import HEADER, encode_name, encode_section, encode_u32
from tests.sandbox.toy_engine import MANIFEST, raw_image, segment, toy

MEMORY = encode_name("rho_engine") + encode_name("memory")
WITH_ENGINE = MANIFEST.model_copy(update={"engine": toy().sha256})


def refusal(wasm: bytes, limits: HostLimits | None = None) -> ModuleRejected:
    with pytest.raises(ModuleRejected) as refused:
        admit_image(wasm, limits=limits)
    return refused.value


def test_an_image_is_let_in_with_its_memory_its_engine_and_its_manifest() -> None:
    wasm = raw_image([segment(8, b"one"), segment(11, b"two"), segment(200_000, b"three")])
    admitted = admit_image(wasm)
    assert admitted.engine == toy().sha256
    assert admitted.manifest.tools[0].name == "t"
    assert admitted.sha256 == hashlib.sha256(wasm).hexdigest()
    assert (admitted.image.pages, admitted.image.size) == (4, 11)
    assert is_image(wasm)


def test_what_is_let_in_is_a_module_that_wasmtime_would_take_too() -> None:
    wasmtime.Module.validate(wasmtime.Engine(), raw_image([segment(8, b"one"), segment(200_000, b"three")]))


def test_an_image_may_change_nothing() -> None:
    assert admit_image(raw_image()).image.size == 0


SEGMENTS: Mapping[str, tuple[list[bytes], str]] = {
    "overlapping": ([segment(8, b"one"), segment(10, b"two")], "image_segments"),
    "descending": ([segment(20, b"one"), segment(8, b"two")], "image_segments"),
    "outside": ([segment(4 * 65_536 - 2, b"one")], "image_segments"),
    "far outside": ([segment(0xFFFF_FFFF, b"x")], "image_segments"),
    "empty and far outside": ([segment(0xFFFF_0000, b"")], "image_segments"),
    "too many": ([segment(index, b"x") for index in range(513)], "image_segments"),
    "passive": ([segment(0, b"x", head=b"\x01\x41")], "image_segments"),
    "another memory": ([segment(0, b"x", head=b"\x02\0\x41")], "image_segments"),
    "a global": ([segment(0, b"x", head=b"\0\x23")], "image_segments"),
    "i64": ([segment(0, b"x", head=b"\0\x42")], "image_segments"),
    "computed": ([b"\0\x41\0\x41\0\x6a\x0b\x01x"], "image_segments"),
    "over 32 bits": ([b"\0\x41\x80\x80\x80\x80\x10\x0b\x01x"], "leb128"),
    "too long": ([b"\0\x41\x80\x80\x80\x80\x80\0\x0b\x01x"], "leb128"),
    "truncated": ([b"\0\x41\0\x0b\xff\xff\xff\xff\x0fx"], "truncated"),
    "left over": ([segment(0, b"x") + b"\0"], "image_segments"),
}


@pytest.mark.parametrize(("segments", "reason"), SEGMENTS.values(), ids=SEGMENTS)
def test_segments_are_few_active_constant_ascending_and_inside(segments: list[bytes], reason: str) -> None:
    assert refusal(raw_image(segments)).reason == reason


def test_a_negative_offset_is_the_unsigned_one_that_it_means() -> None:
    assert refusal(raw_image([segment(-1 & 0xFFFF_FFFF, b"x")])).value == 1 << 32


def test_512_segments_are_let_in() -> None:
    assert admit_image(raw_image([segment(index, b"x") for index in range(512)])).image.size == 512


IMPORTS: Mapping[str, tuple[list[bytes], str]] = {
    "none": ([], "image_import"),
    "two": ([MEMORY + b"\x02\0\x04", MEMORY + b"\x02\0\x04"], "image_import"),
    "name": ([encode_name("rho_engine") + encode_name("other") + b"\x02\0\x04"], "image_import"),
    "module": ([encode_name("env") + encode_name("memory") + b"\x02\0\x04"], "image_import"),
    "global": ([MEMORY + b"\x03\x7f\0"], "image_import"),
    "function": ([MEMORY + b"\x00\0"], "image_import"),
    "maximum": ([MEMORY + b"\x02\x01\x04\x10"], "image_memory"),
    "shared": ([MEMORY + b"\x02\x03\x04\x10"], "image_memory"),
    "64-bit": ([MEMORY + b"\x02\x04\x04"], "image_memory"),
    "page size": ([MEMORY + b"\x02\x08\x04\x10"], "image_memory"),
    "left over": ([MEMORY + b"\x02\0\x04\0"], "section_size"),
}


@pytest.mark.parametrize(("imports", "reason"), IMPORTS.values(), ids=IMPORTS)
def test_an_image_imports_its_engines_memory_and_nothing_else(imports: list[bytes], reason: str) -> None:
    assert refusal(raw_image(imports=imports)).reason == reason


def test_the_memory_is_within_what_a_call_of_an_image_may_have() -> None:
    assert admit_image(raw_image(pages=2_048)).image.pages == 2_048
    refused = refusal(raw_image(pages=2_049))
    assert (refused.reason, refused.limit, refused.value) == ("image_memory", 128 * MIB, 2_049 * 65_536)
    assert refusal(raw_image(pages=65_536)).reason == "image_memory"
    lower = HostLimits(call=Limits(memory_bytes=MIB))
    assert refusal(raw_image(pages=17), lower).limit == MIB


OTHER_SECTIONS: Mapping[str, bytes] = {
    "type": encode_section(1, b"\x01\x60\0\0"),
    "function": encode_section(3, b"\x01\0"),
    "code": encode_section(10, b"\x01\x02\0\x0b"),
    "start": encode_section(8, b"\0"),
    "element": encode_section(9, b"\0"),
    "data count": encode_section(12, b"\x01"),
    "memory": encode_section(5, b"\x01\0\x01"),
    "export": encode_section(7, b"\0"),
    "custom": encode_section(0, encode_name("name")),
    "import": encode_section(2, b"\0"),
    "unknown": encode_section(99, b""),
}


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("section", OTHER_SECTIONS.values(), ids=OTHER_SECTIONS)
def test_an_image_holds_nothing_but_an_import_data_and_a_manifest(section: bytes, place: str) -> None:
    if place == "before":
        wasm = raw_image([segment(0, b"x")], before=section)
    else:
        wasm = raw_image([segment(0, b"x")], after=section)
    assert is_image(wasm)
    assert refusal(wasm).reason == "image_section"


def test_the_manifest_is_there_once_and_names_an_engine() -> None:
    assert refusal(raw_image(manifest=MANIFEST)).reason == "image_engine"
    once = raw_image([segment(0, b"x")])
    again = encode_section(0, encode_name("rho.manifest") + WITH_ENGINE.encode())
    assert refusal(once + again).reason == "manifest_duplicate"
    without = HEADER + encode_section(2, encode_u32(1) + MEMORY + b"\x02\0\x04")
    assert refusal(without).reason == "manifest_missing"
    wrong = raw_image(manifest=Manifest.model_construct(**{**WITH_ENGINE.__dict__, "engine": b"short"}))
    assert refusal(wrong).reason == "manifest_invalid"


def test_an_image_over_its_bytes_is_refused_before_it_is_read() -> None:
    refused = refusal(b"\0" * (8 * MIB + 1))
    assert (refused.reason, refused.limit) == ("image_too_large", 8 * MIB)


def test_a_guest_that_names_an_engine_is_no_image_and_not_let_in() -> None:
    guest = wasmtime.wat2wasm(
        """(module (memory (export "memory") 1)
             (func (export "rho_alloc") (param i32) (result i32) i32.const 8)
             (func (export "rho_call") (param i32 i32) (result i64) i64.const 0))"""
    )
    wasm = embed(bytes(guest), WITH_ENGINE)
    assert not is_image(wasm)
    with pytest.raises(ModuleRejected) as refused:
        admit(wasm)
    assert refused.value.reason == "manifest_engine"


def test_every_refusal_says_what_to_do() -> None:
    for wasm in (
        raw_image([segment(8, b"one"), segment(10, b"two")]),
        raw_image(pages=2_049),
        raw_image(imports=[]),
        raw_image(manifest=MANIFEST),
        raw_image(before=OTHER_SECTIONS["code"]),
        b"\0" * (8 * MIB + 1),
    ):
        assert refusal(wasm).hint


@given(st.data())
def test_a_damaged_image_is_refused_or_stays_inside_its_memory(data: st.DataObject) -> None:
    wasm = bytearray(raw_image([segment(8, b"one"), segment(65_000, b"x" * 100)]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(wasm) - 1))
        wasm[place] = data.draw(st.integers(0, 255))
    damaged = bytes(wasm[: data.draw(st.integers(0, len(wasm)))])
    is_image(damaged)
    try:
        image = admit_image(damaged).image
    except ModuleRejected:
        return
    assert image.pages <= 2_048
    assert image.size <= len(damaged)
