"""Images as the toolchain writes them: laid over the engine's memory they give exactly what was loaded."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st

from rho_wasm.errors import BuildError
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.sandbox.admission_image import admit_image
from rho_wasm.sandbox.data_segments import InitialMemory
from rho_wasm.sandbox.loading import changes
from rho_wasm.toolchains.image import touched_pages, with_touched_pages, write_image
from tests.sandbox.toy_engine import MANIFEST

PAGE = 65_536
ENGINE = bytes(
    wasmtime.wat2wasm(
        """(module (memory (export "memory") 2)
             (data (i32.const 10) "the engine's own memory, which is not all zeros")
             (data (i32.const 30) "and later segments count")
             (data (i32.const 65500) "over the end of the first page, too, as it happens"))"""
    )
)


def written(found: Any, *, pages: int = 2, limits: HostLimits | None = None) -> bytes:
    return write_image(engine=ENGINE, pages=pages, changes=found, manifest=MANIFEST, limits=limits or HostLimits())


class _Grown:
    """As an image sees an instance: a memory of the engine's that can grow."""

    def __init__(self, memory: bytearray) -> None:
        self.memory = memory

    def grow(self, pages: int) -> bool:
        self.memory += bytearray(pages * PAGE)
        return True

    def span(self) -> tuple[int, int]:
        return ctypes.addressof((ctypes.c_char * len(self.memory)).from_buffer(self.memory)), len(self.memory)


def laid(image: bytes, limits: HostLimits) -> bytes:
    instance: Any = _Grown(InitialMemory(ENGINE).whole())
    admit_image(image, limits=limits).image.prepare(instance, limits.engine_call)
    return bytes(instance.memory)


@given(
    st.lists(st.tuples(st.integers(0, 4 * PAGE - 200), st.binary(min_size=1, max_size=200)), max_size=60),
    st.integers(1, 8),
    st.integers(2, 4),
)
def test_an_image_over_its_engine_gives_the_memory_that_was_loaded(
    stores: list[tuple[int, bytes]], segments: int, pages: int
) -> None:
    limits = HostLimits(image_segments=segments)
    initial = InitialMemory(ENGINE).whole()
    memory = initial + bytearray((pages - 2) * PAGE)
    for offset, data in stores:
        if offset + len(data) <= len(memory):
            memory[offset : offset + len(data)] = data
    address = ctypes.addressof((ctypes.c_char * len(memory)).from_buffer(memory))
    image = written(changes(address, len(memory), initial), pages=pages, limits=limits)
    assert laid(image, limits) == bytes(memory)


def test_the_smallest_gaps_are_closed_first() -> None:
    runs = [(0, b"a"), (1_000, b"b"), (1_100, b"c"), (9_000, b"d")]
    image = admit_image(written(runs, limits=HostLimits(image_segments=3))).image
    assert image.size == 1 + 101 + 1


def test_runs_that_stand_close_together_are_one_even_where_there_is_room() -> None:
    image = written([(0, b"a"), (20, b"b"), (1_000, b"c")])
    assert admit_image(image).image.size == 21 + 1
    assert laid(image, HostLimits())[9:12] == b"\0th"


def test_more_segments_than_one_system_call_takes_are_laid_one_by_one() -> None:
    limits = HostLimits(image_segments=1_500)
    runs = [(number * 80, bytes([number % 255 + 1])) for number in range(1_500)]
    image = written(runs, limits=limits)
    memory = laid(image, limits)
    assert all(memory[offset : offset + 1] == data for offset, data in runs)
    assert memory[65_500:65_504] == b"over"


def test_the_same_input_gives_the_same_bytes_and_wasmtime_takes_them() -> None:
    runs = [(number * 200, bytes([number % 255 + 1])) for number in range(600)]
    assert written(runs) == written(iter(runs))
    wasmtime.Module.validate(wasmtime.Engine(), written(runs))
    assert admit_image(written(runs)).engine == hashlib.sha256(ENGINE).digest()


def test_addresses_of_the_upper_half_are_written_as_wasmtime_reads_them() -> None:
    limits = HostLimits(engine_call=Limits(memory_bytes=1 << 32))
    for offset in (63, 64, 8_191, 8_192, (1 << 31) - 1, 1 << 31, (1 << 32) - 65):
        image = written([(offset, b"x")], pages=65_536, limits=limits)
        wasmtime.Module.validate(wasmtime.Engine(), image)
        assert admit_image(image, limits=limits).image.size == 1


def test_an_image_over_its_bytes_is_a_build_error_that_says_both_sizes() -> None:
    limits = HostLimits(image_bytes=1_000)
    for runs in ([(0, bytes(2_000))], [(0, bytes(990))], [(0, b"a"), (30, bytes(980))]):
        with pytest.raises(BuildError) as refused:
            written(runs, limits=limits)
        assert refused.value.reason == "image_too_large"
        assert "1,000" in str(refused.value)


def test_of_each_page_that_calls_touch_there_is_a_byte_of_the_engines_own_unless_something_there_changed() -> None:
    runs = [(5, b"x"), (8_190, b"over the end")]
    image = write_image(
        engine=ENGINE, pages=2, changes=runs, manifest=MANIFEST, limits=HostLimits(), touched=[15, 0, 2, 15, 31, 4_000]
    )
    laid_over = admit_image(image).image
    assert (laid_over.size, laid_over.touched) == (1 + 12 + 1 + 1, 1 + 2 + 2)
    assert laid(image, HostLimits()) == laid(written(runs), HostLimits())


def test_there_are_no_such_bytes_where_they_would_take_the_place_of_what_changed() -> None:
    limits = HostLimits(image_segments=3)
    runs = [(0, b"a"), (5_000, b"b")]
    image = write_image(engine=ENGINE, pages=2, changes=runs, manifest=MANIFEST, limits=limits, touched=[7, 9])
    assert image == written(runs, limits=limits)


def test_an_engine_says_which_pages_calls_touch_and_one_that_does_not_names_none() -> None:
    said = with_touched_pages(ENGINE, [3, 70_000])
    wasmtime.Module.validate(wasmtime.Engine(), said)
    assert (touched_pages(said), touched_pages(ENGINE)) == ((3, 70_000), ())
