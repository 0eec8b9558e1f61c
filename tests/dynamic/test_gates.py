from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.examples import same
from rho_wasm.dynamic.generation import VersionKey
from rho_wasm.dynamic.review import Review
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import Quarantine
from rho_wasm.errors import Corrupt, GateRejected, UnknownGeneration
from rho_wasm.manifest import Manifest, embed
from rho_wasm.policy import Policy
from rho_wasm.sandbox import NativeCache
from rho_wasm.testing import FixedClock
from tests.dynamic.bench import Bench, open_bench
from tests.dynamic.guests import SPINS, TRAPS, TRAPS_IF_TOLD, artifact, declaration

pytestmark = pytest.mark.anyio


def gates(*names: str) -> Policy:
    return Policy.model_validate({"gates": {"on": names}})


def example(arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    return {"arguments": arguments, "answer": answer}


def with_examples(*examples: dict[str, Any], body: str = "", answer: Any = "done", salt: int = 0) -> Artifact:
    return artifact(declaration("calc", examples=list(examples)), body=body, answer=answer, salt=salt)


@pytest.fixture
def store(tmp_path: Path, key_path: Path, clock: FixedClock) -> Iterator[Store]:
    with Store.open(tmp_path / "store", key_path=key_path, clock=clock) as store:
        yield store


async def rejected(bench: Bench, *artifacts: Artifact) -> GateRejected:
    with pytest.raises(GateRejected) as caught:
        await bench.go(*artifacts)
    return caught.value


async def test_a_module_that_is_not_let_in_rejects_its_candidate(cache: NativeCache) -> None:
    foreign = artifact("calc", imports='(import "env" "system" (func (param i32)))')
    async with open_bench(cache) as bench:
        error = await rejected(bench, foreign)
        assert (error.gate, error.waiting) == ("admission", False)
        assert "system" in error.problems[0]
        assert bench.source.list() == ()
        generation = bench.source.generations()[-1]
        assert (generation.state, generation.why) == ("rejected", "by the gate admission")
        with pytest.raises(UnknownGeneration, match="rejected"):
            await bench.source.activate(generation)


async def test_examples_that_answer_as_they_say_pass(cache: NativeCache) -> None:
    built = with_examples(example({}, {"ok": "done"}), example({"n": 1}, {"ok": "done"}))
    async with open_bench(cache) as bench:
        await bench.go(built)
        verdicts = bench.store.verdicts(1)
        assert [(verdict.gate, verdict.passed) for verdict in verdicts] == [("admission", True), ("examples", True)]


async def test_an_example_that_answers_otherwise_rejects_and_says_how(cache: NativeCache) -> None:
    built = with_examples(example({}, {"ok": "done"}), example({"n": [1, 2]}, {"ok": 3, "details": {"x": None}}))
    async with open_bench(cache) as bench:
        error = await rejected(bench, built)
        assert error.gate == "examples"
        assert error.problems == (
            'calc: example 2 with {"n":[1,2]}: expected {"ok":3,"details":{"x":null}}, got {"ok":"done"}',
        )
        assert bench.store.verdicts(1)[-1].problems == error.problems
        assert bench.source.generations()[-1].state == "rejected"


async def test_an_example_that_crashes_rejects_and_never_strikes(cache: NativeCache) -> None:
    built = with_examples(
        example({"n": False}, {"ok": "done"}), example({"n": True}, {"ok": "done"}), body=TRAPS_IF_TOLD
    )
    async with open_bench(cache) as bench:
        error = await rejected(bench, built)
        assert "but it crashed: calc: trapped" in error.problems[0]
        assert "; it stopped at " in error.problems[0]
        assert bench.source.strikes() == ()
        assert bench.events == []


async def test_an_example_that_spins_is_stopped(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        candidate = await bench.source.stage(
            [with_examples(example({}, {"ok": 1}), body=SPINS)], author="model", limits={"calc": {"fuel": 1_000_000}}
        )
        with pytest.raises(GateRejected, match="out_of_fuel"):
            await bench.source.activate(candidate)


async def test_examples_of_failures_questions_and_halts_are_compared(cache: NativeCache) -> None:
    answers: list[dict[str, Any]] = [
        {"error": "which city?", "details": {"field": "city"}},
        {"ask_user": "which?", "options": {"a": 1}},
        {"halt": "done", "value": [1]},
    ]
    async with open_bench(cache) as bench:
        for salt, answer in enumerate(answers):
            await bench.go(with_examples(example({}, answer), answer=answer, salt=salt))
        assert (await rejected(bench, with_examples(example({}, answers[0]), answer=answers[1]))).gate == "examples"


async def test_not_more_problems_are_told_than_a_model_can_use(cache: NativeCache) -> None:
    built = with_examples(*(example({"n": number}, {"ok": number}) for number in range(20)))
    async with open_bench(cache) as bench:
        error = await rejected(bench, built)
        assert len(error.problems) == 9
        assert all(len(problem) < 1_000 for problem in error.problems)


async def test_a_guests_text_in_a_problem_is_inert(cache: NativeCache) -> None:
    built = with_examples(example({}, {"ok": 1}), answer="\x1b[2J\u202e" + "x" * 5_000)
    async with open_bench(cache) as bench:
        (problem,) = (await rejected(bench, built)).problems
        assert problem.isprintable()
        assert len(problem) < 800


async def test_without_the_gate_examples_are_not_run(cache: NativeCache) -> None:
    async with open_bench(cache, policy=gates()) as bench:
        await bench.go(with_examples(example({}, {"ok": "wrong"})))
        assert [verdict.gate for verdict in bench.store.verdicts(1)] == ["admission"]


async def test_gates_look_only_at_what_a_candidate_brings(cache: NativeCache) -> None:
    async with open_bench(cache, policy=gates()) as bench:
        await bench.go(with_examples(example({}, {"ok": "wrong"})))
        async with open_bench(cache, store=bench.store) as strict:
            await strict.go(artifact("text"))
            assert [tool.name for tool in strict.source.list()] == ["calc", "text"]
            await strict.source.rollback()  # asks no gate


async def test_a_callback_approves_seeing_what_it_is_asked_about(cache: NativeCache) -> None:
    seen: list[Review] = []

    async def approve(review: Review) -> bool:
        seen.append(review)
        return True

    old = artifact("calc", "gone", source="(old)", salt=1)
    new = replace(artifact("calc", source="(new)"), provenance="built here", toolchain="wat 1")
    async with open_bench(cache, policy=gates("approval"), approve=approve) as bench:
        await bench.go(old)
        candidate = await bench.source.stage([new, artifact("more")], ["gone"], author="model", note="faster")
        await bench.source.activate(candidate)
        review = seen[-1]
        assert (review.candidate, review.parent, review.author, review.note) == (2, 1, "model", "faster")
        more, calc, gone = review.tools
        assert (more.tool, more.change, more.provenance, more.previous_artifact) == ("more", "added", "claimed", None)
        assert (calc.change, calc.source, calc.previous_source) == ("changed", "(new)", "(old)")
        assert (calc.provenance, calc.language, calc.toolchain) == ("built here", "wat", "wat 1")
        assert (gone.change, gone.artifact, gone.previous_artifact) == ("removed", None, old.sha256)
        assert [tool["tool"] for tool in review.as_json()["tools"]] == ["more", "calc", "gone"]


@pytest.mark.parametrize(
    ("answer", "problem"), [(False, "it was not approved"), ("no\x1b", "it was not approved: no\\x1b")]
)
async def test_a_callback_that_says_no_rejects(cache: NativeCache, answer: bool | str, problem: str) -> None:
    def approve(review: Review) -> bool | str:
        return answer

    async with open_bench(cache, policy=gates("approval"), approve=approve) as bench:
        error = await rejected(bench, artifact("calc"))
        assert (error.gate, error.problems) == ("approval", (problem,))
        assert bench.source.generations()[-1].state == "rejected"


async def test_a_callback_that_breaks_approves_nothing(cache: NativeCache) -> None:
    def raises(review: Review) -> bool:
        raise RuntimeError("secret")

    def shrugs(review: Review) -> Any:
        return 1

    for approve, problem in ((raises, "raised RuntimeError"), (shrugs, "answered a int")):
        async with open_bench(cache, policy=gates("approval"), approve=approve) as bench:
            error = await rejected(bench, artifact("calc"))
            assert problem in error.problems[0]
            assert "secret" not in str(error)
            assert bench.source.list() == ()
            assert bench.source.generations()[-1].state == "candidate"


async def test_a_candidate_waits_for_a_person_and_goes_live_once_one_approved(cache: NativeCache) -> None:
    async with open_bench(cache, policy=gates("examples", "approval")) as bench:
        candidate = await bench.source.stage([artifact("calc")], author="model")
        with pytest.raises(GateRejected, match=r"waits for a person's yes: rho-wasm approve 1") as caught:
            await bench.source.activate(candidate)
        assert (caught.value.gate, caught.value.waiting) == ("approval", True)
        assert bench.source.generations()[-1].state == "candidate"
        assert [verdict.passed for verdict in bench.store.verdicts(1)] == [True, True, False]
        bench.store.approve(candidate.number, by="ada", note="read it")
        assert (await bench.source.activate(candidate)).state == "live"
        assert [verdict.passed for verdict in bench.store.verdicts(1)] == [True, True, True]


async def test_a_persons_no_is_final(cache: NativeCache) -> None:
    async with open_bench(cache, policy=gates("approval")) as bench:
        candidate = await bench.source.stage([artifact("calc")], author="model")
        bench.store.reject(candidate.number, by="ada", note="it phones home")
        with pytest.raises(UnknownGeneration, match="rejected by ada: it phones home"):
            await bench.source.activate(candidate)
        with pytest.raises(UnknownGeneration, match="no candidate"):
            bench.store.approve(candidate.number, by="bob")


async def test_an_approval_that_came_with_a_copied_store_is_none(
    store: Store, tmp_path: Path, cache: NativeCache
) -> None:
    async with open_bench(cache, store=store, policy=gates("approval")) as bench:
        await bench.source.stage([artifact("calc")], author="model")
    store.approve(1, by="ada")
    store.close()
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    (tmp_path / "copy").chmod(0o700)
    with Store.open(tmp_path / "copy", key_path=tmp_path / "another" / "key") as copied:
        async with open_bench(cache, store=copied, policy=gates("approval")) as bench:
            with pytest.raises(GateRejected, match="waits"):
                await bench.source.activate(1)


def quarantine(store: Store, tool: str, letter: str, at: float) -> None:
    store.quarantine(Quarantine(version=VersionKey(tool, letter * 64), generation=1, at=at))


async def test_after_three_quarantined_versions_in_an_hour_the_next_needs_a_person(
    cache: NativeCache, store: Store, clock: FixedClock
) -> None:
    for letter in "abc":
        quarantine(store, "calc", letter, clock())
        clock.advance(60)
    async with open_bench(cache, store=store, policy=gates()) as bench:
        await bench.go(artifact("text"))  # another name is free
        error = await rejected(bench, artifact("calc"))
        assert error.gate == "approval"
        assert bench.source.generations()[-1].state == "candidate"
        store.approve(2, by="ada")
        await bench.source.activate(2)
        with pytest.raises(GateRejected):
            await bench.go(artifact("calc", salt=1))
        await bench.source.pardon("calc")
        await bench.go(artifact("calc", salt=1))


async def test_real_crashes_of_three_versions_are_laundering(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        for salt in range(3):
            await bench.go(artifact("calc", body=TRAPS, salt=salt))
            await bench.crash("calc", times=3)
        assert (await rejected(bench, artifact("calc"))).gate == "approval"


async def test_an_authors_faults_are_held_against_its_other_tools_for_a_day(cache: NativeCache) -> None:
    """One name may stand for every session of a model."""
    clock = FixedClock()
    async with open_bench(cache, clock=clock) as bench:
        for number in range(3):
            await bench.go(artifact(f"calc_{number}", body=TRAPS))
            await bench.crash(f"calc_{number}", times=3)
        assert (await rejected(bench, artifact("another"))).gate == "approval"
        clock.advance(24 * 3600 + 1)
        await bench.go(artifact("another"))


async def test_a_fault_under_new_names_is_laundering_too(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        for number in range(3):
            await bench.go(artifact(f"calc_{number}", body=TRAPS))
            await bench.crash(f"calc_{number}", times=3)
        error = await rejected(bench, artifact("another"))
        assert (error.gate, error.waiting) == ("approval", True)
        assert "three versions of the author model were quarantined within an hour" in error.problems[0]
        await bench.source.activate(await bench.source.stage([artifact("another")], author="ada"))
        await bench.source.activate(await bench.source.stage(remove=["another"], author="model"))  # brings nothing
        await bench.source.pardon("calc_1")
        await bench.go(artifact("another"))


async def test_an_artifact_with_three_quarantined_tools_is_laundering_whoever_stages_it(cache: NativeCache) -> None:
    bad = artifact("one", "two", "three", "four", body=TRAPS)
    async with open_bench(cache) as bench:
        await bench.go(bad)
        for name in ("one", "two", "three"):
            await bench.crash(name, times=3)
        await bench.source.activate(await bench.source.stage([artifact("four")], author="ada"))
        candidate = await bench.source.stage([bad], author="ada")
        with pytest.raises(GateRejected, match=f"three versions of the artifact {bad.sha256} were quarantined"):
            await bench.source.activate(candidate)


SOURCE = "(the source)"


async def test_an_imported_artifact_that_rebuilds_to_the_same_bytes_was_built_here(
    cache: NativeCache, store: Store
) -> None:
    built = artifact("calc", source=SOURCE)
    asked: list[str | None] = []

    async def rebuild(given: Artifact) -> bytes:
        asked.append(given.source)
        return built.wasm

    async with open_bench(cache, store=store, rebuild=rebuild) as bench:
        candidate = await bench.source.stage([built], author="model")
        assert store.artifact(built.sha256).provenance == "claimed"
        review = await bench.source.review(candidate)
        assert [tool.provenance for tool in review.tools] == ["built here"]
        assert store.artifact(built.sha256).provenance == "built here"
        await bench.source.review(candidate)
        assert asked == [SOURCE]  # it is known now


async def test_an_imported_artifact_that_rebuilds_to_other_bytes_is_claimed(cache: NativeCache) -> None:
    async def other(given: Artifact) -> bytes:
        return artifact("calc", salt=9).wasm

    async def breaks(given: Artifact) -> bytes:
        raise RuntimeError("no compiler")

    for rebuild in (other, breaks):
        async with open_bench(cache, rebuild=rebuild) as bench:
            candidate = await bench.source.stage([artifact("calc", source=SOURCE)], author="model")
            review = await bench.source.review(candidate)
            assert [tool.provenance for tool in review.tools] == ["claimed"]


async def test_a_review_of_a_damaged_artifact_is_corrupt(cache: NativeCache, store: Store) -> None:
    built = artifact("calc")
    async with open_bench(cache, store=store) as bench:
        candidate = await bench.source.stage([built], author="model")
        assert store.folder is not None
        (store.folder / "artifacts" / built.sha256[:2] / f"{built.sha256}.wasm").unlink()
        with pytest.raises(Corrupt):
            await bench.source.review(candidate)
        with pytest.raises(Corrupt):
            await bench.source.activate(candidate)
        assert bench.source.generations()[-1].state == "candidate"


HOST_CALL = """
(module
  (import "rho" "host_call" (func $host_call (param i32 i32) (result i32)))
  (import "rho" "host_take" (func $host_take (param i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 64) "\\a2\\69arguments\\a0\\6acapability\\61t")
  (func (export "rho_alloc") (param i32) (result i32) (i32.const 65536))
  (func (export "rho_call") (param i32 i32) (result i64)
    (local $size i32)
    (local.set $size (call $host_call (i32.const 64) (i32.const 25)))
    (drop (call $host_take (i32.const 1024) (local.get $size)))
    (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.extend_i32_u (local.get $size)))))
"""
"""Asks for the capability "t" and answers with the reply, which has the shape of an answer."""


@pytest.mark.parametrize(("paired", "passes"), [(True, True), (False, False)])
async def test_a_host_call_is_answered_from_the_examples_own_pairs_alone(
    cache: NativeCache, paired: bool, passes: bool
) -> None:
    pairs = [[{"capability": "t", "arguments": {}}, {"ok": 21}]]
    shown = example({}, {"ok": 21}) | ({"host": pairs} if paired else {})
    manifest = Manifest.from_json({"tools": [declaration("calc", examples=[shown])], "capabilities": ["t"]})
    built = Artifact.from_wasm(embed(bytes(wasmtime.wat2wasm(HOST_CALL)), manifest))
    async with open_bench(cache) as bench:
        if passes:
            await bench.go(built)
        else:
            (problem,) = (await rejected(bench, built)).problems
            assert "denied" in problem


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (False, 0, False),
        (True, True, True),
        (None, None, True),
        (None, False, False),
        (math.nan, math.nan, True),
        (0.0, -0.0, True),
        ("1", 1, False),
        (b"a", "a", False),
        ([1, [2.0]], [1.0, [2]], True),
        ([1], [1, 2], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
    ],
)
def test_answers_are_compared_as_plain_values(one: Any, other: Any, expected: bool) -> None:
    assert same(one, other) is expected
    assert same(other, one) is expected
