"""Function names are read by code of ours, bounded, and wasmtime never sees them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st

from rho_wasm.limits import Limits
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.admission import admit
from rho_wasm.sandbox.names import MAX_NAME_BYTES, function_names
from rho_wasm.wasm import encode_u32, with_custom
from tests.sandbox.guests import called, guest


def name_section(names: Mapping[int, bytes], *, before: bytes = b"") -> bytes:
    """The payload of a ``name`` section with function names, after the subsections in ``before``."""
    entries = b"".join(encode_u32(index) + encode_u32(len(name)) + name for index, name in sorted(names.items()))
    content = encode_u32(len(names)) + entries
    return before + b"\x01" + encode_u32(len(content)) + content


def test_names_are_found_by_index() -> None:
    payload = name_section({0: b"zero", 3: "drei €".encode(), 9: b"nine"}, before=b"\x00\x02\x01m")
    assert function_names(payload, [3, 9, 4]) == {3: "drei €", 9: "nine"}


def test_a_long_name_is_cut_and_one_that_is_no_utf8_is_replaced() -> None:
    payload = name_section({1: b"x" * 90_000, 2: b"\xff"})
    assert function_names(payload, [1, 2]) == {1: "x" * MAX_NAME_BYTES, 2: "\ufffd"}


def test_names_behind_more_subsections_than_there_are_kinds_of_are_not_looked_for() -> None:
    assert function_names(name_section({1: b"x"}, before=b"\x02\x00" * 31), [1]) == {1: "x"}
    assert function_names(name_section({1: b"x"}, before=b"\x02\x00" * 32), [1]) == {}


@given(st.binary(max_size=200), st.sets(st.integers(0, 5)))
def test_any_payload_gives_some_of_the_names_that_were_asked_for(payload: bytes, wanted: set[int]) -> None:
    assert set(function_names(payload, wanted)) <= wanted
    assert set(function_names(b"\x01" + payload, wanted)) <= wanted


def test_a_backtrace_has_the_names_of_the_section() -> None:
    payload = name_section({5: b"alloc", 6: b"my_function"})
    assert admit(with_custom(guest("unreachable"), "name", payload)).names == payload


def bomb(levels: int) -> bytes:
    """A C++ symbol that a demangler expands to 8 ** levels parts."""
    expansions = "".join("S_I" + f"S{n}_" * 8 + "E" for n in range(levels))
    return f"_Z1f1AI{'i' * 8}E{expansions}".encode()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("fuel", "deadline_ms"), [(1_000, 50_000), (10**12, 100)], ids=["fuel", "deadline"])
async def test_a_name_that_a_demangler_expands_without_end_costs_nothing(fuel: int, deadline_ms: int) -> None:
    """Of 12 levels a demangler would need centuries; wasmtime renders backtraces, with names, into texts of errors."""
    module = with_custom(
        guest("(loop $again (br $again)) (i64.const 0)"), "name", name_section({index: bomb(12) for index in range(9)})
    )
    async with Sandbox() as sandbox:
        ended = await called(sandbox, module, limits=Limits(deadline_ms=deadline_ms, fuel=fuel))
    assert ended.reason == ("out_of_fuel" if fuel == 1_000 else "deadline")
    assert ended.meter.backtrace
    assert all(len(line) < 200 for line in ended.meter.backtrace)


def test_what_is_compiled_has_no_names() -> None:
    module = with_custom(guest("unreachable"), "name", name_section({0: b"f"}))
    code = admit(module).code
    assert b"name" not in code
    wasmtime.Module.validate(wasmtime.Engine(), code)
