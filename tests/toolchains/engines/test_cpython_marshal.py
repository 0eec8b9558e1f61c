"""marshal.wat by itself: CBOR to and from the format of Python's own module, held against that module."""

from __future__ import annotations

import marshal
import math
import random
import struct
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest
import wasmtime

from rho_wasm import plain
from rho_wasm.errors import PlainError
from tests.toolchains.engines.test_cpython_codec import some_values

PAGES = 64
PLACE = 65_536
VERSION = 2


class Codec:
    """The two functions over a memory of their own."""

    def __init__(self) -> None:
        text = (resources.files("rho_wasm.toolchains.engines") / "marshal.wat").read_text("utf-8")
        engine = wasmtime.Engine()
        self._store = wasmtime.Store(engine)
        self._memory = wasmtime.Memory(self._store, wasmtime.MemoryType(wasmtime.Limits(PAGES, PAGES)))
        module = wasmtime.Module(engine, bytes(wasmtime.wat2wasm(text)))
        self._exports = wasmtime.Instance(self._store, module, [self._memory]).exports(self._store)

    def unpack(self, data: bytes) -> bytes | None:
        """What is written for CBOR, None where it is refused."""
        out = PLACE + len(data)
        room = 5 * len(data) + 16
        self._memory.write(self._store, data + b"\xee" * (room + 16), PLACE)
        size = self._call("rho:unpack", PLACE, len(data), out)
        written = bytes(self._memory.read(self._store, out, out + room + 16))
        assert written[room:] == b"\xee" * 16, "it wrote beyond its room"
        return written[:size] or None

    def pack(self, data: bytes) -> bytes | None:
        """What becomes of marshal's format, in place; None where that cannot be."""
        self._memory.write(self._store, data + b"\xee" * 16, PLACE)
        size = self._call("rho:pack", PLACE, len(data))
        written = bytes(self._memory.read(self._store, PLACE, PLACE + len(data) + 16))
        assert written[len(data) :] == b"\xee" * 16, "it wrote beyond what was there"
        assert size <= len(data)
        return written[:size] or None

    def _call(self, name: str, *arguments: int) -> int:
        function: Callable[..., Any] = self._exports[name]  # type: ignore[assignment]
        return int(function(self._store, *arguments))


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec()


def test_cbor_becomes_what_marshal_reads(codec: Codec) -> None:
    for value in some_values():
        unpacked = codec.unpack(plain.encode(value))
        assert unpacked is not None
        assert repr(marshal.loads(unpacked)) == repr(plain.decode(plain.encode(value)))


def test_what_marshal_writes_becomes_cbor(codec: Codec) -> None:
    for value in some_values(with_bytes=False):
        packed = codec.pack(marshal.dumps(value, VERSION))
        assert packed is not None
        assert repr(plain.decode(packed)) == repr(value)


@pytest.mark.parametrize("power", [0, 1, 7, 8, 14, 15, 16, 29, 30, 31, 32, 45, 60, 63, 64])
@pytest.mark.parametrize("off", [-2, -1, 0, 1])
def test_integers_at_the_edges_cross(codec: Codec, power: int, off: int) -> None:
    for value in (2**power + off, -(2**power) + off, -(2**power) - off):
        packed = codec.pack(marshal.dumps(value, VERSION))
        if not -(2**64) <= value < 2**64:
            assert packed is None
            continue
        assert packed == plain.encode(value)
        assert marshal.loads(codec.unpack(packed) or b"") == value


def test_every_float_of_half_precision_crosses(codec: Codec) -> None:
    floats = [value for bits in range(65_536) if not math.isnan(value := struct.unpack("e", struct.pack("H", bits))[0])]
    unpacked = codec.unpack(
        b"\x99" + len(floats).to_bytes(2, "big") + b"".join(struct.pack(">Be", 0xF9, each) for each in floats)
    )
    assert unpacked is not None
    assert list(map(str, marshal.loads(unpacked))) == list(map(str, floats))


def test_special_floats_cross(codec: Codec) -> None:
    for value in (math.inf, -math.inf, -0.0, math.nan, 2**-24, -(2**-14), 65_504.0):
        assert repr(marshal.loads(codec.unpack(plain.encode(value)) or b"")) == repr(value)


@pytest.mark.parametrize("size", [0, 1, 23, 24, 255, 256, 65_535, 65_536, 70_000])
def test_lengths_of_every_width_cross(codec: Codec, size: int) -> None:
    for value in ("x" * size, [None] * size, {f"{n:05}": None for n in range(size)}, [{str(n): n for n in range(30)}]):
        packed = codec.pack(marshal.dumps(value, VERSION))
        assert packed is not None
        assert plain.decode(packed, max_items=200_000) == value
        unpacked = codec.unpack(packed)
        assert unpacked is not None
        assert marshal.loads(unpacked) == value


def test_a_tuple_is_a_list(codec: Codec) -> None:
    assert codec.pack(marshal.dumps((1, (), ("a",)), VERSION)) == plain.encode([1, [], ["a"]])


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        frozenset({1}),
        b"bytes",
        [b""],
        1j,
        ...,
        StopIteration,
        2**64,
        -(2**64) - 1,
        10**40,
        "\ud800",
        ["a\udfff"],
        {"\ud800": 1},
        {1: 2},
        {None: 1},
        {("a",): 1},
        {"a": {2.5: 1}},
        pytest.param((lambda: None).__code__, id="code"),
    ],
    ids=repr,
)
def test_what_only_marshal_can_say_is_left_to_python(codec: Codec, value: Any) -> None:
    assert codec.pack(marshal.dumps(value, VERSION)) is None


def test_other_text_with_the_byte_of_surrogates_is_no_surrogate(codec: Codec) -> None:
    for text in ("\ud7ff", "\ue000", "íí", "한국어"):
        assert codec.pack(marshal.dumps(text, VERSION)) == plain.encode(text)


def test_answers_nest_as_deeply_as_the_host_allows(codec: Codec) -> None:
    deep: Any = None
    for depth in range(1, 67):
        deep = {"k": deep} if depth % 2 else [deep]
        assert (codec.pack(marshal.dumps(deep, VERSION)) is None) == (depth > 64)


def test_requests_nest_as_deeply_as_the_abi_allows(codec: Codec) -> None:
    assert codec.unpack(b"\x81" * 64 + b"\x00") is not None
    assert codec.unpack(b"\x81" * 65 + b"\x00") is None
    assert codec.unpack(b"\x81" * 100_000 + b"\x00") is None


def test_keys_that_are_not_in_order_and_surrogates_are_refused(codec: Codec) -> None:
    for keys in (["a", "b", "aa", "ü"], ["", "a"], ["x" * 23, "x" * 24]):
        assert codec.unpack(plain.encode(dict.fromkeys(keys))) is not None
    for pair in (b"\x61a\x00\x61a\x00", b"\x61b\x00\x61a\x00", b"\x62aa\x00\x61b\x00", b"\x61a\x00\x78\x01a\x00"):
        assert codec.unpack(b"\xa2" + pair) is None
    assert codec.unpack(plain.encode("x" * 15 + "\ud7ff\ue000í")) is not None
    assert codec.unpack(b"\x73" + b"x" * 16 + b"\xed\xa0\x80") is None


def test_any_bytes_are_unpacked_as_the_host_reads_them_or_refused(codec: Codec) -> None:
    chance = random.Random(3)
    for _ in range(1_500):
        data = chance.randbytes(chance.randrange(1, 10))
        unpacked = codec.unpack(data)
        try:
            expected = plain.decode(data)
        except PlainError:
            # Text that is no UTF-8 and a key that is there twice are not looked for: the host sends neither.
            continue
        assert unpacked is not None
        assert repr(marshal.loads(unpacked)) == repr(expected)


def test_what_is_cut_off_or_followed_by_more_is_refused(codec: Codec) -> None:
    for value in some_values()[:40]:
        whole = plain.encode(value)
        assert codec.unpack(whole + b"\x00") is None
        for cut in range(0, len(whole), 1 + len(whole) // 20):
            assert codec.unpack(whole[:cut]) is None


def test_any_bytes_are_packed_or_refused_within_their_place(codec: Codec) -> None:
    chance = random.Random(4)
    for _ in range(2_000):
        # A tool can make the engine pack what marshal never wrote.
        codec.pack(bytes(chance.choice(b"NTFgi{0u([l\0\0\1\2\xff") for _ in range(chance.randrange(1, 40))))
