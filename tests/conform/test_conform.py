"""conform names the clause that a module breaks, and finds nothing wrong with those that keep the ABI."""

from __future__ import annotations

import pytest
import wasmtime

from rho_wasm.conform import CLAUSES, ConformReport, conform
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.resources import fixture, sdk
from rho_wasm.sandbox import NativeCache
from rho_wasm.sandbox.abi import ENGINE_EXTENSION
from tests.conform.broken import BROKEN_IN_CALLS, BROKEN_TO_SEE, SHOULD, refusing_floats
from tests.fixture_table import ENDINGS, REFUSED
from tests.sandbox.conftest import shared_cache
from tests.sandbox.guests import answering, guest
from tests.sandbox.module_bytes import MANIFEST, Guest, body

pytestmark = pytest.mark.anyio

__all__ = ["shared_cache"]

LITTLE_FUEL = HostLimits(call=Limits(fuel=80_000_000))
"""So that loops without end end soon. Host calls without end come to their own bound first."""
BROKEN_FIXTURES = {
    "exit": "calls.answered",
    "spin": "limits.fuel",
    "recurse": "calls.answered",
    "trap": "calls.answered",
    "hog": "calls.answered",
    "out_of_bounds": "answer.bounds",
    "tagged": "answer.plain",
    "malformed": "answer.plain",
    "two_shapes": "answer.shape",
    "empty_answer": "answer.empty",
    "host_calls": "host_call.count",
    "foreign_import": "imports.known",
}


def broken(report: ConformReport) -> dict[str, str]:
    return {clause.id: clause.reason for clause in report.of("fail")}


@pytest.mark.parametrize("name", BROKEN_TO_SEE)
async def test_a_broken_module_fails_with_its_clause_and_is_not_called(name: str) -> None:
    make, clause = BROKEN_TO_SEE[name]
    report = await conform(make())
    assert [*broken(report)] == [clause], broken(report)
    assert (report.ok, report.called) == (False, False)


async def test_every_clause_is_reported_once_in_the_order_of_the_page() -> None:
    report = await conform(b"")
    assert [clause.id for clause in report.clauses] == list(CLAUSES)
    sections = list(dict.fromkeys(clause.section for clause in CLAUSES.values()))
    page = sdk("ABI.md").read_text(encoding="utf-8")
    assert [page.index(f"\n## {section}\n") for section in sections]


async def test_faults_beside_one_another_are_all_told() -> None:
    make, _ = BROKEN_TO_SEE["a start section"]
    module = embed(make(), Manifest.decode(MANIFEST)).replace(b"rho.manifest", b"no.manifest!")
    report = await conform(module)
    assert [*broken(report)] == ["wasm.start", "manifest.section"]
    reasons = {clause.reason for clause in report.of("not_applicable")} - {"the module is no image"}
    assert reasons == {
        "not looked at to its end: wasm.start failed first",
        "not looked at: wasm.start failed first",
        "not looked at: manifest.section failed first",
    }


async def test_all_faults_of_imports_are_told_and_exports_are_looked_at_too() -> None:
    text = """(module (import "env" "f" (func)) (import "env" "g" (func)) (import "rho" "log" (func))
        (memory (export "memory") 1) (func (export "rho_alloc") (param i32) (result i32) (i32.const 1024))
        (func (export "rho_call") (param i32) (result i64) (i64.const 0)))"""
    report = await conform(embed(bytes(wasmtime.wat2wasm(text)), Manifest.decode(MANIFEST)))
    told = broken(report)
    assert [*told] == ["exports.rho_call", "imports.known", "imports.types"]
    assert "env.f; env.g" in told["imports.known"]
    assert "rho.log" in told["imports.types"]
    assert not report.called


async def test_a_guest_that_keeps_the_abi_has_nothing_to_be_told(shared_cache: NativeCache) -> None:
    report = await conform(answering({"ok": 1}), cache=shared_cache)
    assert report.ok
    assert report.calls > 10
    assert {clause.status for clause in report.clauses} == {"pass", "warning", "not_applicable"}


async def test_nothing_is_made_or_called_when_the_time_is_over(shared_cache: NativeCache) -> None:
    report = await conform(answering({"ok": 1}), cache=shared_cache, seconds=0.0)
    assert (report.ok, report.called) == (True, False)
    [answered] = [clause for clause in report.clauses if clause.id == "calls.answered"]
    assert (answered.status, "took too long" in answered.reason) == ("not_applicable", True)


async def test_an_image_says_which_engine_it_needs() -> None:
    manifest = Manifest.decode(MANIFEST).model_copy(update={"engine": bytes(range(32))})
    import_section = b"\x02\x16\x01\x0arho_engine\x06memory\x02\x00\x01"
    report = await conform(embed(b"\0asm\x01\0\0\0" + import_section, manifest))
    assert (report.ok, report.called, report.engine) == (True, False, bytes(range(32)).hex())
    assert report.engine is not None
    [reason] = {clause.reason for clause in report.clauses if clause.id.startswith("answer.")}
    assert report.engine in reason


async def test_a_module_with_an_engine_in_it_is_not_called_without_that_engine() -> None:
    module = Guest().add_function(body(b"", [b"\xe9\x07\x7f"]))
    claim = Manifest.decode(MANIFEST).model_copy(update={"extensions": {ENGINE_EXTENSION: bytes(32)}})
    report = await conform(embed(module.build(), claim))
    assert (report.ok, report.called, report.engine) == (True, False, bytes(32).hex())


@pytest.mark.slow
class TestInCalls:
    """Each compiles its module: on one event loop, since the tests above ran on both."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.mark.parametrize("name", BROKEN_IN_CALLS)
    async def test_a_broken_module_fails_with_its_clause(self, name: str, shared_cache: NativeCache) -> None:
        make, clause = BROKEN_IN_CALLS[name]
        report = await conform(make(), limits=LITTLE_FUEL, cache=shared_cache)
        assert [*broken(report)] == [clause], broken(report)

    @pytest.mark.parametrize("name", SHOULD)
    async def test_what_a_module_should_do_is_a_warning(self, name: str, shared_cache: NativeCache) -> None:
        make, clause = SHOULD[name]
        report = await conform(make(), limits=LITTLE_FUEL, cache=shared_cache)
        assert clause in [each.id for each in report.of("warning")]
        assert report.ok

    async def test_a_guest_that_takes_no_fraction_at_all_is_not_said_to_read_none(
        self, shared_cache: NativeCache
    ) -> None:
        report = await conform(refusing_floats(0xF9, 0xFA, 0xFB), cache=shared_cache)
        [floats] = [clause for clause in report.clauses if clause.id == "plain.floats"]
        assert (report.ok, floats.status) == (True, "not_applicable")

    @pytest.mark.parametrize("name", [*ENDINGS, *REFUSED])
    async def test_a_fixture_keeps_the_abi_or_fails_with_its_clause(self, name: str, shared_cache: NativeCache) -> None:
        report = await conform(fixture(f"{name}.wasm").read_bytes(), limits=LITTLE_FUEL, cache=shared_cache)
        assert [*broken(report)] == ([BROKEN_FIXTURES[name]] if name in BROKEN_FIXTURES else [])

    async def test_text_of_a_guest_reaches_the_report_inert(self, shared_cache: NativeCache) -> None:
        report = await conform(answering({"\x1b[31mred\u202e": 1}), cache=shared_cache)
        told = broken(report)["answer.shape"] + str(report.as_json())
        assert "\x1b" not in told
        assert "\u202e" not in told

    async def test_calls_that_take_too_long_together_are_no_longer_made(self, shared_cache: NativeCache) -> None:
        slow = guest("(loop $l (br $l)) unreachable")
        for seconds in (1, 8, 40):
            limits = HostLimits(call=Limits(fuel=10**15, deadline_ms=seconds * 1_000 + 200))
            report = await conform(slow, limits=limits, cache=shared_cache, seconds=seconds)
            if report.called:  # What is looked at before takes of the seconds too, and a busy machine is long over it.
                break
        assert report.calls == 1
