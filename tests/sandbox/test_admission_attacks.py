"""Modules that hurt a plain wasmtime host (seconds to minutes, gibibytes) are refused before anything compiles them.

Each was measured: 88 s for 210 KB of loops, 23 GiB for 64 KB of block types, 573 s for 100,000 exports. Here they end
in the check that is meant for them; that admission itself stays cheap follows from the suite's timeout.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.admission import admit
from rho_wasm.wasm import HEADER, encode_section, encode_u32
from tests.fixture_build import FIXTURES, names
from tests.sandbox.module_bytes import I32, Guest, body, export, function_type, vector

pytestmark = pytest.mark.slow

TURN = b"\x03\x40\x20\x00\x0d\x00\x0b"  # loop, local.get 0, br_if 0, end


def with_body(code: bytes, *, groups: tuple[bytes, ...] = (b"\x01\x7f",)) -> Guest:
    return Guest().add_function(body(code, groups))


def loops_in_one_function() -> Guest:
    return with_body(TURN * 30_000)


def loops_in_64_kib() -> Guest:
    return with_body(TURN * 9_000)


def loops_with_wide_block_types() -> Guest:
    guest = Guest()
    guest.types.append(function_type([I32] * 16, [I32] * 16))
    return guest.add_function(body(b"\x41\x00" * 16 + b"\x03\x03\x0b" * 20_000 + b"\x1a" * 16))


def locals_alive_across_loops() -> Guest:
    return with_body(TURN * 7_000 + b"\x20\x00\x1a" * 1_000, groups=(encode_u32(1_000) + b"\x7f",))


def branch_tables() -> Guest:
    return with_body((b"\x20\x00\x0e" + vector([b"\x00"] * 120) + b"\x00") * 508)


def many_locals() -> Guest:
    guest = Guest()
    for _ in range(500):
        guest.add_function(body(b"", [encode_u32(50_000) + b"\x7f"]))
    return guest


def many_parameters() -> Guest:
    guest = Guest()
    guest.types.append(function_type([I32] * 1_000))
    for _ in range(9_000):
        guest.add_function(body(b""), type_index=3)
    return guest


def many_functions() -> Guest:
    guest = Guest()
    for _ in range(20_000):
        guest.add_function(body(b""))
    return guest


def many_types() -> Guest:
    guest = Guest()
    guest.types += [function_type()] * 500_000
    return guest


def plain_calls() -> Guest:
    guest = Guest()
    for _ in range(240):
        guest.add_function(body(b"\x10\x02" * 32_000))
    return guest


def data_segments() -> Guest:
    return Guest().with_raw(11, vector([b"\x00\x41" + encode_u32(n) + b"\x0b\x01x" for n in range(63)] * 320))


def many_exports() -> Guest:
    guest = Guest()
    guest.exports += [export(f"x{n}", 0, 0) for n in range(100_000)]
    return guest


def deep_nesting() -> Guest:
    return with_body(b"\x02\x40" * 20_000 + b"\x0b" * 20_000)


def custom_sections() -> Guest:
    guest = Guest()
    guest.customs += [("", b"")] * 200_000
    return guest


def constant_that_is_evaluated_at_each_instantiation() -> Guest:
    return Guest().with_raw(6, b"\x01\x7f\x00\x41\x00" + b"\x41\x01\x6a" * 1_000_000 + b"\x0b")


def many_elements() -> Guest:
    return Guest().with_raw(4, b"\x01\x70\x00\x01").with_raw(9, b"\x01\x03\x00" + vector([b"\x00"] * 1_000_000))


def lengths_of_4_gib() -> Guest:
    return Guest().with_raw(10, b"\x02" + b"\xff\xff\xff\xff\x0f" * 2)


ATTACKS: dict[Callable[[], Guest], str] = {
    loops_in_one_function: "function_bytes",
    loops_in_64_kib: "loops",
    loops_with_wide_block_types: "block_type",
    locals_alive_across_loops: "loops",
    branch_tables: "br_table",
    many_locals: "locals",
    many_parameters: "params",
    many_functions: "functions",
    many_types: "types",
    plain_calls: "code_too_large",
    data_segments: "data_segments",
    many_exports: "exports",
    deep_nesting: "nesting",
    custom_sections: "custom_sections",
    constant_that_is_evaluated_at_each_instantiation: "constant_expression",
    many_elements: "elements",
    lengths_of_4_gib: "truncated",
}


@pytest.mark.parametrize(("attack", "reason"), ATTACKS.items(), ids=lambda item: getattr(item, "__name__", None))
def test_an_attack_is_refused_by_the_check_that_is_meant_for_it(attack: Callable[[], Guest], reason: str) -> None:
    with pytest.raises(ModuleRejected) as caught:
        admit(attack().build())
    assert caught.value.reason == reason
    assert len(str(caught.value)) < 500


@pytest.mark.skipif(sys.platform != "linux", reason="counts ru_maxrss in KiB")
@pytest.mark.parametrize("instruction", ["01", "02 40 0b", "41 00 0e 00 00", "41 80 80 80 80 00 1a"])
def test_much_code_is_read_in_bounded_memory(instruction: str) -> None:
    code = bytes.fromhex(instruction)
    one = body(code * (60_000 // len(code)))
    guest = Guest()
    for _ in range(2 * 1024 * 1024 // len(one)):
        guest.add_function(one)
    data = guest.build()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        admit(data, limits=HostLimits(blocks=100_000, br_table_entries=100_000))
    finally:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # A copy or two of the module, and what the matcher remembers of one run of instructions.
    assert grown < 32 * 1024


def admit_anything(data: bytes) -> None:
    try:
        admit(data)
    except ModuleRejected as refusal:
        error = refusal
    else:
        return
    assert error.reason
    assert str(error).isprintable()
    assert len(str(error)) < 1_500


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_random_bytes_raise_nothing_but_module_rejected(data: bytes) -> None:
    admit_anything(data)
    admit_anything(HEADER + data)


@given(st.lists(st.tuples(st.integers(0, 14), st.binary(max_size=60)), max_size=12))
@settings(max_examples=200, deadline=None)
def test_random_sections_raise_nothing_but_module_rejected(parts: list[tuple[int, bytes]]) -> None:
    admit_anything(HEADER + b"".join(encode_section(identifier, content) for identifier, content in parts))


@given(st.sampled_from([1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]), st.binary(max_size=80))
@settings(max_examples=200, deadline=None)
def test_one_random_section_raises_nothing_but_module_rejected(identifier: int, content: bytes) -> None:
    admit_anything(Guest().with_raw(identifier, content).build())


GOOD = [(FIXTURES / f"{name}.wasm").read_bytes() for name in names(".wat")]


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_mutated_guests_raise_nothing_but_module_rejected(data: st.DataObject) -> None:
    module = bytearray(data.draw(st.sampled_from(GOOD)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(module) - 1))
        match data.draw(st.sampled_from(["set", "cut", "insert", "long"])):
            case "set":
                module[at] = data.draw(st.integers(0, 255))
            case "cut":
                del module[at : at + data.draw(st.integers(1, 8))]
            case "insert":
                module[at:at] = data.draw(st.binary(min_size=1, max_size=8))
            case _:
                module[at : at + 1] = b"\xff\xff\xff\xff\x0f"
        if not module:
            break
    admit_anything(bytes(module))


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_code_raises_nothing_but_module_rejected(code: bytes) -> None:
    admit_anything(Guest().add_function(body(code)).build())
