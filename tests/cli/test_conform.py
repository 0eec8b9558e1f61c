"""``conform``: what a guest's author reads, what a script reads, and the exit codes of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rho_wasm.conform import CLAUSES
from rho_wasm.manifest import Manifest, embed
from rho_wasm.resources import fixture
from rho_wasm.wasm import HEADER
from tests.cli.conftest import Command
from tests.sandbox.guests import wat
from tests.sandbox.module_bytes import MANIFEST

Told = Callable[..., tuple[int, str]]

ECHO = str(fixture("echo.wasm"))
FOREIGN = str(fixture("foreign_import.wasm"))
MEMORY_OF_AN_ENGINE = b"\x02\x16\x01\x0arho_engine\x06memory\x02\x00\x01"


@pytest.fixture(autouse=True)
def engines(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHO_WASM_ENGINES", str(own_folder / "engines"))


@pytest.mark.slow
def test_a_module_that_keeps_the_abi_exits_with_0_unless_it_must_do_all_that_it_should(
    command: Command, told: Told
) -> None:
    code, report = command("conform", ECHO)
    assert (code, report["ok"]) == (0, True)
    assert [clause["id"] for clause in report["clauses"]] == list(CLAUSES)
    code, text = told("conform", ECHO, "--strict")
    assert code == 3
    assert "0 fail" in text


def test_a_broken_module_exits_with_3_and_names_clause_section_and_reason(command: Command, told: Told) -> None:
    code, report = command("conform", FOREIGN)
    assert (code, report["ok"]) == (3, False)
    [failed] = [clause for clause in report["clauses"] if clause["status"] == "fail"]
    assert (failed["id"], failed["section"]) == ("imports.known", "Imports")
    code, text = told("conform", FOREIGN)
    assert code == 3
    assert failed["reason"] in " ".join(text.split())
    assert (
        f"{sum('not looked at: imports.known failed' in each['reason'] for each in report['clauses'])} not looked at"
        in text
    )


def test_an_image_without_its_engine_was_not_called(own_folder: Path, command: Command, told: Told) -> None:
    manifest = Manifest.decode(MANIFEST).model_copy(update={"engine": bytes(range(32))})
    (own_folder / "image.wasm").write_bytes(embed(HEADER + MEMORY_OF_AN_ENGINE, manifest))
    code, report = command("conform", "image.wasm")
    assert (code, report["ok"], report["calls"], report["engine"]) == (2, True, 0, bytes(range(32)).hex())
    assert "rho-wasm engines install" in told("conform", "image.wasm")[1]


def test_a_tool_that_no_arguments_can_be_made_for_was_not_called(
    own_folder: Path, command: Command, told: Told
) -> None:
    names = [f"p{i}" for i in range(20)]
    endless = {"type": "object", "properties": {name: {"$ref": "#"} for name in names}, "required": names}
    tool = {"name": "t", "description": "A tool.", "input_schema": endless}
    (own_folder / "endless.wasm").write_bytes(embed(wat("(i64.const 0)"), Manifest.from_json({"tools": [tool]})))
    code, report = command("conform", "endless.wasm")
    assert (code, report["ok"], report["calls"]) == (2, True, 0)
    [answered] = [clause for clause in report["clauses"] if clause["id"] == "calls.answered"]
    assert answered["status"] == "not_applicable"
    assert "give it an example" in answered["reason"]
    assert "give it an example" in told("conform", "endless.wasm")[1]


def test_what_is_no_module_and_what_is_not_there(own_folder: Path, command: Command) -> None:
    (own_folder / "a.wasm").write_bytes(b"\0")
    assert command("conform", "a.wasm")[0] == 3
    assert command("conform", "b.wasm")[0] == 2
    (own_folder / "a.wat").write_text("(module)")
    assert command("conform", "a.wat")[0] == 2
