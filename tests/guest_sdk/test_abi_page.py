"""guest_sdk/ABI.md says what the code does: its bytes, its clauses, its tables of names and of limits."""

from __future__ import annotations

import json
import re

import pytest

from rho_wasm import plain
from rho_wasm.conform import CLAUSES, Clause
from rho_wasm.envelope import MAX_MESSAGE_CHARS, MAX_QUESTION_CHARS, MAX_TRACE_LINES, MAX_TRACE_WIDTH, parse_answer
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import Manifest
from rho_wasm.resources import sdk
from rho_wasm.results import KINDS, Ok
from rho_wasm.sandbox.abi import EXPORT_TYPES, MEMORY, RHO_IMPORTS, WASI_IMPORTS
from rho_wasm.sandbox.imports import EXTRA_HOST_CALLS
from rho_wasm.sandbox.log import MAX_LINES

PAGE = sdk("ABI.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE))
EXAMPLES = re.findall(r"```hex\n(.*?)```\n\n```json\n(.*?)\n```", PAGE, re.DOTALL)


def read(block: str) -> bytes:
    return bytes.fromhex("".join(line.partition("#")[0] for line in block.splitlines()))


@pytest.mark.parametrize(("block", "meaning"), EXAMPLES)
def test_bytes_mean_what_stands_under_them(block: str, meaning: str) -> None:
    assert plain.decode(read(block)) == json.loads(meaning)
    assert plain.encode(json.loads(meaning)) == read(block)


def test_there_are_bytes_of_every_message() -> None:
    messages = [read(block) for block, _ in EXAMPLES]
    assert len(messages) == PAGE.count("```hex") == 5
    assert parse_answer(messages[3], limits=Limits()) == Ok(42, details={"n": 1})
    assert Manifest.decode(messages[4]).tool("add") is not None


@pytest.mark.parametrize("clause", CLAUSES.values(), ids=lambda clause: clause.id)
def test_each_clause_stands_once_in_its_section(clause: Clause) -> None:
    assert [name for name, text in SECTIONS.items() if f"`{clause.id}`" in text] == [clause.section]
    bracketed = any(f"`{clause.id}`" in part for part in re.findall(r"^.*?\(([^()]*)\)", PAGE, re.MULTILINE))
    assert bracketed == (clause.level == "should")


def test_exports_and_imports_are_those_of_the_code() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", SECTIONS["Exports"] + SECTIONS["Imports"], re.MULTILINE))
    assert named == {MEMORY, *EXPORT_TYPES, *RHO_IMPORTS, "rho_manifest"}
    listed = SECTIONS["Imports"].partition("exactly these: ")[2].partition(". They deny")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == set(WASI_IMPORTS)


def test_reasons_are_those_of_the_code() -> None:
    told = set(re.findall(r"`(\w+)`", "".join(re.findall(r"\|([^|]*)\|$", SECTIONS["Errors"], re.MULTILINE))))
    assert told - {"memory", "ModuleRejected"} <= KINDS.keys()


def test_limits_are_the_defaults() -> None:
    call, engines, host = Limits(), Limits.for_engines(), HostLimits()
    mib, kib = 1024 * 1024, 1024
    for cell in (
        f"| {call.fuel:,}, images {engines.fuel:,} |",
        f"| {call.deadline_ms // 1000} s |",
        f"| {call.memory_bytes // mib} MiB, images {engines.memory_bytes // mib} MiB |",
        f"| {call.table_elements:,} |",
        f"| {host.guest_stack_bytes // kib} KiB, engines {host.engine_stack_bytes // mib} MiB |",
        f"request, host-request, host-reply | {call.request_bytes // mib} MiB |",
        f"answer without its images | {call.answer_bytes // mib} MiB |",
        f"| {call.images}, of {call.images_bytes // mib} MiB together |",
        f"in one another | {call.depth} |",
        f"each key | {call.items:,} |",
        f"| {MAX_QUESTION_CHARS:,} characters |",
        f"| {MAX_MESSAGE_CHARS:,} characters; {MAX_TRACE_LINES} lines of {MAX_TRACE_WIDTH} |",
        f"| {call.log_bytes // kib} KiB, {MAX_LINES:,} lines |",
        f"| {call.host_calls:,} | `quota`, {EXTRA_HOST_CALLS} times",
        f"| {host.module_bytes // mib} MiB; {host.code_bytes // mib} MiB |",
        f"| {host.manifest_bytes // kib} KiB; {host.description_bytes // kib} KiB |",
        f"| {host.functions:,}; {host.function_bytes // kib} KiB, {host.locals_per_function:,}, {host.loops}, "
        f"{host.blocks:,}, {host.nesting:,} |",
        f"| {host.types:,}; {host.params} and {host.results} |",
        f"| {host.imports}; {host.exports}; {host.globals:,}; {host.tables} |",
        f"| {host.data_segments:,}; {host.element_segments:,}; {host.custom_sections} |",
        f"| {host.image_bytes // mib} MiB; {host.image_segments} |",
    ):
        assert cell in SECTIONS["Limits"], cell
