"""Function bodies are tokenised exactly as the compiler does, and counted. wasmtime's validator is the oracle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import wasmtime

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.abi import FunctionType
from rho_wasm.sandbox.admission import admit
from rho_wasm.sandbox.admission_code import BodyCounts, count_body
from rho_wasm.wasm import HEADER, encode_section, encode_u32
from tests.sandbox.module_bytes import I32, I64, Guest, body, function_type, vector

TYPES = (FunctionType((), ()), FunctionType(("i32",), ()), FunctionType((), ("i32",) * 5))
BLOCK, LOOP, IF, ELSE, END = b"\x02\x40", b"\x03\x40", b"\x04\x40", b"\x05", b"\x0b"


def count(code: bytes, *, nesting_limit: int = 1_000) -> BodyCounts:
    return count_body(code, 0, len(code), types=TYPES, nesting_limit=nesting_limit, name="function 7")


def reason(code: bytes) -> str:
    with pytest.raises(ModuleRejected) as caught:
        count(code)
    assert caught.value.name == "function 7"
    return caught.value.reason


def engine() -> wasmtime.Engine:
    config = wasmtime.Config()
    config.wasm_threads = False
    config.wasm_memory64 = False
    config.wasm_multi_memory = False
    config.wasm_relaxed_simd = False
    config.wasm_gc = False
    config.wasm_function_references = False
    config.wasm_exceptions = False
    config.wasm_wide_arithmetic = False
    config.wasm_stack_switching = False
    config.wasm_tail_call = True
    return wasmtime.Engine(config)


def module_around(code: bytes) -> bytes:
    """A module with one of everything that an instruction may name, and ``code`` as the body of function 0."""
    return HEADER + b"".join(
        [
            encode_section(1, vector([function_type()])),
            encode_section(3, b"\x01\x00"),
            encode_section(4, b"\x01\x70\x00\x01"),
            encode_section(5, b"\x01\x00\x01"),
            encode_section(6, b"\x01\x7f\x01\x41\x00\x0b"),
            encode_section(9, b"\x01\x00\x41\x00\x0b\x01\x00"),
            encode_section(12, b"\x01"),
            encode_section(10, vector([encode_u32(len(code) + 3) + b"\x01\x01\x7f" + code])),
            encode_section(11, b"\x01\x01\x00"),
        ]
    )


def valid(oracle: wasmtime.Engine, code: bytes) -> bool:
    try:
        wasmtime.Module.validate(oracle, module_around(code))
    except wasmtime.WasmtimeError:
        return False
    return True


def opcodes() -> Iterator[bytes]:
    """Every opcode of one byte, and every subopcode up to a little beyond the last that exists."""
    for first in range(256):
        if first not in (0xFB, 0xFC, 0xFD, 0xFE) and first not in (0x02, 0x03, 0x04, 0x05, 0x0B):
            yield bytes([first])
    for prefix, last in ((0xFB, 40), (0xFC, 40), (0xFD, 300), (0xFE, 80)):
        for second in range(last):
            yield bytes([prefix]) + encode_u32(second)


@pytest.mark.parametrize("fill", [b"\x00", b"\x70"])
def test_every_instruction_has_the_length_that_wasmtime_gives_it(fill: bytes) -> None:
    """After ``unreachable`` any operands are valid, so only the length of the immediates decides.

    What follows is longer than any immediates, and neither valid nor balanced once some of it was taken for them: so
    the least number of bytes that validates is the instruction's own, and the blocks that are counted prove the same.
    """
    oracle = engine()
    after = BLOCK * 10 + END * 10 + b"\x0f" + END
    known = 0
    for opcode in opcodes():
        for immediates in range(18):
            code = b"\x00" + opcode + fill * immediates + after
            if not valid(oracle, code):
                continue
            known += 1
            assert count(code).blocks == 10, opcode.hex()
            for shorter in range(immediates):
                with pytest.raises(ModuleRejected):
                    count(b"\x00" + opcode + fill * shorter + after)
            break
    assert known > (400 if fill == b"\x00" else 200)


@pytest.mark.parametrize(
    "code",
    [
        "d070 d06f 1a 1a",  # ref.null of both kinds
        "00 1c 01 7f",  # select with a type
        "00 28 02 ff ff ff ff 0f",  # the largest offset
        "00 41 ff ff ff ff 07 42 ff ff ff ff ff ff ff ff ff 00",
        "00 41 80 80 80 80 78 42 80 80 80 80 80 80 80 80 80 7f",
        "20 80 80 80 80 00 1a",  # padded, as linkers write
        "00 0e 00 80 00",  # a label that is padded
        "00 0e 02 00 80 80 00 00",
        "02 40 0b 03 7f 00 0b 1a 41 00 04 00 05 0b",  # block types: none, a value, an index
        "02 80 00 0b",  # an index that is padded
    ],
)
def test_odd_but_valid_code_is_accepted_by_both(code: str) -> None:
    data = bytes.fromhex(code) + b"\x0f" + END
    assert valid(engine(), data)
    count(data)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("fe 00 02 00", "feature_off"),
        ("fe 03 00", "feature_off"),
        ("fb 00 00", "feature_off"),
        ("06 40 0b", "feature_off"),
        ("08 00", "feature_off"),
        ("0a", "feature_off"),
        ("1f 40 00 0b", "feature_off"),
        ("14 00", "feature_off"),
        ("15 00", "feature_off"),
        ("d3", "feature_off"),
        ("d4", "feature_off"),
        ("3f 01", "feature_off"),
        ("28 42 00 00", "feature_off"),
        ("fd 80 02", "feature_off"),
        ("fc 13", "feature_off"),
        ("e0 00 00", "feature_off"),
        ("27", "unknown_instruction"),
        ("c5", "unknown_instruction"),
        ("ff", "unknown_instruction"),
        ("fc 7f", "instruction"),
        ("fd ff 7f", "instruction"),
        ("41 ff ff ff ff 0f", "instruction"),
        ("20 ff ff ff ff 1f", "instruction"),
        ("28 20 00", "instruction"),
        ("d0 6e", "instruction"),
        ("1c 02 7f 7f", "instruction"),
        ("43 00 00", "instruction"),
        ("41", "function_end"),
        ("02 6e 0b", "block_type"),
        ("02 03 0b", "block_type"),
        ("02 80 7f 0b", "block_type"),
        ("02 ff ff ff ff 0f 0b", "block_type"),
        ("02 ff ff ff ff 7f 0b", "leb128"),
        ("0e ff ff ff ff 0f", "truncated"),
        ("0e 01 ff", "truncated"),
    ],
)
def test_what_is_not_enabled_or_malformed_is_refused_with_the_reason(code: str, why: str) -> None:
    data = bytes.fromhex(code) + END
    assert not valid(engine(), b"\x00" + data)
    with pytest.raises(ModuleRejected) as caught:
        count(b"\x00" + data)
    assert caught.value.reason == why


def test_a_subopcode_is_not_padded_though_it_might_be() -> None:
    code = bytes.fromhex("00 fc 88 00 00 00") + END
    assert valid(engine(), code)
    assert reason(code) == "instruction"


def test_a_body_ends_where_its_size_says() -> None:
    assert reason(b"") == "function_end"
    assert reason(b"\x01") == "function_end"
    assert reason(BLOCK + END) == "function_end"
    assert reason(END + b"\x01") == "function_end"
    assert reason(END + END) == "function_end"


def test_loops_blocks_tables_and_nesting_are_counted() -> None:
    code = BLOCK + LOOP + IF + ELSE + END + END + END + LOOP + END + b"\x41\x00\x0e\x02\x00\x00\x00" + END
    assert count(code) == BodyCounts(loops=2, blocks=4, br_table_entries=2, nesting=3, block_results=0)


def test_immediates_are_never_counted_as_instructions() -> None:
    constants = b"\x42\x83\x83\x83\x03\x1a" + b"\x43\x03\x40\x03\x40\x1a" + b"\x44" + b"\x03\x40" * 4 + b"\x1a"
    lanes = b"\xfd\x0c" + b"\x02\x40" * 8 + b"\x1a"
    assert count(constants + lanes + END) == BodyCounts(0, 0, 0, 0, 0)


def test_runs_longer_than_one_match_are_followed() -> None:
    assert count(b"\x01" * 50_000 + LOOP + b"\x01" * 3_000 + END + END).loops == 1
    assert reason(b"\x01" * 5_000 + b"\xff" + END) == "unknown_instruction"


def test_counting_stops_at_the_nesting_limit() -> None:
    assert count(BLOCK * 100 + END * 101).nesting == 100
    assert count(BLOCK * 60_000, nesting_limit=10).blocks == 11


def test_a_block_type_by_index_has_no_parameters_and_few_results() -> None:
    assert count(b"\x02\x00\x0b\x0b").block_results == 0
    assert count(b"\x02\x02\x00\x0b\x00\x0b").block_results == 5
    assert reason(b"\x41\x00\x02\x01\x1a\x0b\x0b") == "block_type"


def guest_with(code: bytes, groups: list[bytes] | None = None) -> bytes:
    return Guest().add_function(body(code, groups or [])).build()


def over(data: bytes, *, limits: HostLimits | None = None) -> tuple[str, object, object]:
    with pytest.raises(ModuleRejected) as caught:
        admit(data, limits=limits)
    assert caught.value.name == "function 2"
    return caught.value.reason, caught.value.limit, caught.value.value


def test_each_bound_of_a_body_holds_and_names_the_function() -> None:
    admit(guest_with((LOOP + END) * 500))
    assert over(guest_with((LOOP + END) * 501)) == ("loops", 500, 501)
    admit(guest_with((BLOCK + END) * 4_000))
    assert over(guest_with((BLOCK + END) * 4_001)) == ("blocks", 4_000, 4_001)
    admit(guest_with(BLOCK * 1_000 + END * 1_000))
    assert over(guest_with(BLOCK * 1_001 + END * 1_001)) == ("nesting", 1_000, 1_001)
    table = b"\x41\x00\x0e" + vector([b"\x00"] * 100) + b"\x00"
    admit(guest_with(b"".join(BLOCK + table + END for _ in range(20))))
    assert over(guest_with(b"".join(BLOCK + table + END for _ in range(21)))) == ("br_table", 2_000, 2_100)
    assert over(guest_with(b"\x01" * 70_000)) == ("function_bytes", 65_536, 70_002)


def test_results_of_a_block_are_bounded() -> None:
    for results in (4, 5):
        guest = Guest()
        guest.types.append(function_type([], [I32] * results))
        guest.add_function(body(b"\x02\x03\x00\x0b\x00"))
        if results == 4:
            admit(guest.build())
        else:
            assert over(guest.build()) == ("block_type", 4, 5)


def test_locals_are_bounded_before_they_are_counted_out() -> None:
    admit(guest_with(b"", [encode_u32(999) + b"\x7f", b"\x01\x7b"]))
    assert over(guest_with(b"", [encode_u32(1_001) + b"\x7f"])) == ("locals", 1_000, 1_001)
    assert over(guest_with(b"", [encode_u32(2**32 - 1) + b"\x7f"])) == ("locals", 1_000, 2**32 - 1)
    assert over(guest_with(b"", [b"\x00\x7f"] * 1_001)) == ("locals", 1_000, 1_001)
    with pytest.raises(ModuleRejected) as caught:
        admit(guest_with(b"", [b"\x01\x6e"]))
    assert caught.value.reason == "feature_off"


def test_a_good_body_with_everything_is_admitted_whole() -> None:
    guest = Guest()
    guest.types.append(function_type([I32, I64], [I64]))
    code = b"\x02\x7e\x20\x01\x41\x01\x0d\x00\x42\x01\x7c\x0b"
    assert admit(guest.add_function(body(code, [b"\x01\x7f"]), type_index=3).build()).code_bytes > len(code)
