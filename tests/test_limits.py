"""The bounds: the numbers of the design, what they refuse, and how the lowest wins."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rho_wasm.limits import MAX_DEADLINE_MS, HostLimits, Limits

KIB, MIB, GIB = 2**10, 2**20, 2**30

CALL = {
    "fuel": 10**9,
    "deadline_ms": 5_000,
    "memory_bytes": 64 * MIB,
    "table_elements": 20_000,
    "request_bytes": MIB,
    "answer_bytes": MIB,
    "images_bytes": 8 * MIB,
    "images": 16,
    "depth": 64,
    "items": 100_000,
    "log_bytes": 64 * KIB,
    "host_calls": 1_000,
    "host_call_depth": 4,
}
HOST = {
    "guest_stack_bytes": 512 * KIB,
    "engine_stack_bytes": 2 * MIB,
    "max_concurrent_calls": 64,
    "max_concurrent_per_tool": 8,
    "queue_ms": 5_000,
    "total_memory_bytes": 2 * GIB,
    "module_bytes": 16 * MIB,
    "code_bytes": 8 * MIB,
    "manifest_bytes": 64 * KIB,
    "description_bytes": 4 * KIB,
    "functions": 10_000,
    "function_bytes": 64 * KIB,
    "locals_per_function": 1_000,
    "params": 100,
    "results": 16,
    "loops": 500,
    "blocks": 4_000,
    "br_table_entries": 2_000,
    "nesting": 1_000,
    "block_results": 4,
    "types": 1_000,
    "imports": 100,
    "exports": 300,
    "globals": 1_000,
    "tables": 1,
    "data_segments": 2_000,
    "image_segments": 512,
    "image_bytes": 8 * MIB,
    "compiled_cache_bytes": 512 * MIB,
    "max_abandoned_handlers": 16,
}


def test_the_defaults_of_a_call_are_those_of_the_design() -> None:
    assert Limits().model_dump() == CALL


def test_the_defaults_of_a_host_are_those_of_the_design() -> None:
    defaults = HostLimits().model_dump()
    assert {name: defaults[name] for name in HOST} == HOST
    assert defaults["call"] == CALL


def test_engines_get_more_fuel_and_memory() -> None:
    engines = Limits.for_engines().model_dump()
    assert engines == CALL | {"fuel": 20 * 10**9, "memory_bytes": 128 * MIB}


@pytest.mark.parametrize("value", [None, -1, 1.0, "1", True, 2**63])
@pytest.mark.parametrize("name", Limits.model_fields)
def test_a_limit_is_a_whole_number_and_none_is_never_unlimited(name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=name):
        Limits(**{name: value})


@pytest.mark.parametrize("name", ["fuel", "deadline_ms", "memory_bytes", "request_bytes", "depth", "items"])
def test_a_call_cannot_be_given_nothing(name: str) -> None:
    with pytest.raises(ValidationError):
        Limits(**{name: 0})


def test_no_deadline_is_above_the_cap() -> None:
    assert Limits(deadline_ms=MAX_DEADLINE_MS).deadline_ms == 60_000
    with pytest.raises(ValidationError, match="deadline_ms"):
        Limits(deadline_ms=MAX_DEADLINE_MS + 1)


def test_unknown_limits_are_refused() -> None:
    for model in (Limits, HostLimits):
        with pytest.raises(ValidationError, match="memory"):
            model(memory=1)  # type: ignore[call-arg]


def test_limits_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Limits().fuel = 1  # type: ignore[misc]


def test_of_several_limits_the_lowest_wins_field_by_field() -> None:
    lowest = Limits().lowest(Limits(fuel=7, depth=64), {"fuel": 9, "items": 3}, None, {})
    assert lowest == Limits(fuel=7, items=3)
    assert Limits().lowest() == Limits()


def test_a_higher_limit_of_another_changes_nothing() -> None:
    assert Limits(fuel=5).lowest({"fuel": 10**12}, Limits(fuel=6)) == Limits(fuel=5)


@pytest.mark.parametrize("other", [{"fule": 1}, {"fuel": 0}, {"fuel": None}, {"fuel": "1"}, {"deadline_ms": 60_001}])
def test_a_wrong_limit_is_refused_even_where_it_would_not_win(other: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Limits(fuel=1).lowest(other)


def test_a_source_is_loaded_within_less_fuel_and_with_no_more_memory_than_its_calls_have() -> None:
    assert HostLimits().loading() == Limits(fuel=5 * 10**9, memory_bytes=128 * MIB, request_bytes=2 * MIB)
    bounded = HostLimits(engine_call=Limits(memory_bytes=7, deadline_ms=9, fuel=1))
    assert bounded.loading() == Limits(fuel=5 * 10**9, memory_bytes=7, deadline_ms=9, request_bytes=2 * MIB)


def test_an_image_has_the_bounds_of_engines_and_what_was_set_lower_for_all_calls() -> None:
    assert HostLimits().engine_call == Limits.for_engines()
    lower = HostLimits(call=Limits(fuel=7, memory_bytes=500 * MIB))
    assert lower.engine_call == Limits.for_engines().lowest({"fuel": 7})
    assert HostLimits(call={"fuel": 7}).engine_call.fuel == 7
    said = HostLimits(call=Limits(fuel=7), engine_call=Limits(fuel=9))
    assert (said.call_of(image=False).fuel, said.call_of(image=True).fuel) == (7, 9)


def test_an_engine_may_be_larger_than_a_guest_and_its_memory_is_that_of_images() -> None:
    bounds = HostLimits(engine_call=Limits(memory_bytes=7)).for_engines()
    assert bounds.call.memory_bytes == 7
    assert bounds.module_bytes > HostLimits().module_bytes
    assert bounds.compile_budget_ms(0) == bounds.compile_budget_ms(64 * MIB) == 300_000


@pytest.mark.parametrize(("code", "budget"), [(0, 3_000), (MIB // 2, 6_000), (MIB, 9_000), (8 * MIB, 30_000)])
def test_time_to_compile_grows_with_the_code_up_to_a_bound(code: int, budget: int) -> None:
    assert HostLimits().compile_budget_ms(code) == budget


def test_a_standalone_module_may_be_what_its_engine_is_and_no_more_than_a_guest_elsewhere() -> None:
    limits = HostLimits(data_segments=7, exports=8)
    engines, own = limits.for_engines(), limits.for_standalone(20 * 1024 * 1024)
    assert own.module_bytes == 20 * 1024 * 1024 + limits.image_bytes
    assert limits.for_standalone(10).module_bytes == limits.module_bytes
    assert limits.for_standalone().module_bytes == engines.module_bytes
    assert (own.data_segments, own.exports, own.custom_sections) == (7, 8, limits.custom_sections)
    for name in ("code_bytes", "functions", "types", "globals", "element_segments", "compile_cpu_ms"):
        assert getattr(own, name) == getattr(engines, name)


def test_a_standalone_module_has_the_calls_of_engines_within_the_deadline_of_guests() -> None:
    limits = HostLimits(call=Limits(fuel=7, deadline_ms=8), engine_call=Limits(fuel=9, deadline_ms=10))
    assert limits.call_of(image=False, standalone=True) == Limits(fuel=9, deadline_ms=8)
