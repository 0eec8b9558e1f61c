"""Where a replayed call crashed, as the author of the tool may be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.replay import Replay
from rho_wasm.dynamic.replay_places import place_of
from rho_wasm.manifest import Manifest, embed
from rho_wasm.sandbox.abi import MANIFEST_SECTION
from rho_wasm.wasm import custom
from tests.dynamic.guests import artifact


def crashed(reason: str, *backtrace: str, detail: str = "") -> Replay:
    return Replay(
        id=1,
        tool="calc",
        recorded_artifact="0" * 64,
        recorded_generation=1,
        recorded_kind="ok",
        recorded_reason=None,
        recorded_fuel=None,
        redacted=False,
        quarantined=False,
        as_given=True,
        artifact="1" * 64,
        kind="crashed",
        reason=reason,
        limit=None,
        value=None,
        fuel=None,
        detail=detail,
        backtrace=backtrace,
        same=False,
        diff="",
        diverged=None,
    )


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        (["weather (+0x1f)"], "in weather"),
        (["rho_panic (+0x1)", "rho__read_head (+0x2)", "weather (+0x3)", "rho_call (+0x4)"], "in weather"),
        (["core::panicking::panic_fmt (+0x1)", "calc::mean (+0x2)"], "in calc::mean"),
        (["rho_panic (+0x1)", "rho_call (+0x2)"], "in rho_panic"),
        (["function 7 (+0x1)"], "in function 7"),
        ([], ""),
    ],
    ids=str,
)
@pytest.mark.parametrize("reason", ["trapped", "out_of_fuel", "handler_exit"])
def test_of_a_trap_the_function_is_told_that_the_author_wrote(reason: str, frames: list[str], told: str) -> None:
    assert place_of(crashed(reason, *frames), artifact("calc")) == told


@pytest.mark.parametrize(
    ("language", "told"), [("python", "at line 3 of its source"), ("wat", "at line 2 of its source")]
)
def test_the_innermost_line_is_told(language: str, told: str) -> None:
    """Python's SDK says it last, that of JavaScript first."""
    made = replace(artifact("calc", source="1\n2\n3\n"), language=language)
    frames = ("tool.py:2 in outer: inner()", "tool.py:3 in inner: 1 / 0")
    assert place_of(crashed("handler_raised", *frames), made) == told


@pytest.mark.parametrize("reason", ["trapped", "out_of_fuel", "deadline"])
def test_of_a_tool_over_an_engine_only_the_line_is_told(reason: str) -> None:
    """Its frames are read in its memory, where it can have written what it likes."""
    wasm = artifact("calc").wasm
    manifest = Manifest.decode(custom(wasm, MANIFEST_SECTION) or b"").model_copy(update={"engine": bytes(32)})
    made = Artifact.from_wasm(embed(wasm, manifest), source="1\n2\n3", language="javascript")
    assert place_of(crashed(reason, "what was asked (+0x1)"), made) == ""
    assert place_of(crashed(reason, "near tool.js:2 in what_was_asked"), made) == "at line 2 of its source"


@pytest.mark.parametrize("number", ["0", "4", "99999", "100000", "01", "-1", "٣", "3x"])
def test_a_number_that_is_no_line_of_the_source_is_not_told(number: str) -> None:
    made = artifact("calc", source="1\n2\n3")
    assert place_of(crashed("handler_raised", f"tool.py:{number} in t: x"), made) == ""
    assert place_of(crashed("handler_raised", "tool.py:2 in t: x"), artifact("calc")) == ""


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("ZeroDivisionError: by zero", "ZeroDivisionError"),
        ("RangeError: x", "RangeError"),
        ("KeyError", "KeyError"),
        ("Secret: x", ""),
        ("ValueErrorSecret", ""),
        ("", ""),
    ],
)
def test_a_type_is_told_only_if_every_program_has_it(detail: str, told: str) -> None:
    assert place_of(crashed("handler_raised", detail=detail), artifact("calc")) == told
