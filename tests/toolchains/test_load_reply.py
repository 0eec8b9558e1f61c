"""What an engine says of a source is read strictly: it is a guest's word."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.errors import BuildError, ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.toolchains.load_reply import manifest_of

_TOOL = {"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}


def _read(reply: Any, *, raw: bytes | None = None) -> Manifest:
    data = plain.encode(reply) if raw is None else raw
    return manifest_of(data, language="python", file="tool.py", engine=bytes(32), limits=HostLimits())


def test_tools_become_a_manifest_of_the_engine() -> None:
    manifest = _read({"ok": {"tools": [_TOOL], "capabilities": ["clock"]}})
    assert (manifest.engine, manifest.language, manifest.capabilities) == (bytes(32), "python", ("clock",))
    assert [tool.name for tool in manifest.tools] == ["t"]


def test_an_error_becomes_a_diagnostic_with_its_place() -> None:
    with pytest.raises(BuildError) as failed:
        _read(
            {
                "error": {
                    "message": "invalid syntax\x1b[2J",
                    "line": 3,
                    "column": 0,
                    "text": "  def f(:\n",
                    "trace": ["tool.py:3"],
                    "hint": "look",
                }
            }
        )
    first, note = failed.value.diagnostics
    assert (first.file, first.line, first.column, first.text) == ("tool.py", 3, 1, "def f(:")
    assert "\x1b" not in first.message
    assert (note.severity, note.message) == ("note", "tool.py:3")
    assert (failed.value.reason, failed.value.hint) == ("build_failed", "look")
    assert str(first) == "tool.py:3:1: error: invalid syntax\\x1b[2J\n    def f(:"


def test_an_exception_without_a_text_is_told_by_its_type_alone() -> None:
    with pytest.raises(BuildError) as failed:
        _read({"error": {"message": "MemoryError: "}})
    assert failed.value.diagnostics[0].message == "MemoryError"


def test_several_faults_become_as_many_diagnostics() -> None:
    others = [{"message": f"m{number}", "line": number} for number in range(1, 40)]
    with pytest.raises(BuildError) as failed:
        _read({"error": {"message": "m0", "others": others, "trace": ["t"]}})
    told = failed.value.diagnostics
    assert [(each.message, each.line, each.severity) for each in told[:2]] == [
        ("m0", None, "error"),
        ("m1", 1, "error"),
    ]
    assert (len(told), told[-1].severity) == (17, "note")


def test_what_is_said_is_bounded() -> None:
    with pytest.raises(BuildError) as failed:
        _read({"error": {"message": "m" * 50_000, "line": 2**60, "text": "x" * 9_000, "trace": ["t" * 999] * 100}})
    assert len(failed.value.diagnostics) == 33
    assert failed.value.diagnostics[0].line == 10**9
    assert len(str(failed.value)) < 20_000


@pytest.mark.parametrize(
    "reply",
    [
        [],
        {},
        {"ok": {"tools": [_TOOL]}, "error": {"message": "both"}},
        {"ok": {"capabilities": []}},
        {"ok": {"tools": [_TOOL], "engine": b"another"}},
        {"ok": [_TOOL]},
        {"error": "text"},
        {"error": {"line": 3}},
        {"error": {"message": 3}},
        {"error": {"message": "m", "line": "3"}},
        {"error": {"message": "m", "line": True}},
        {"error": {"message": "m", "trace": [1]}},
        {"error": {"message": "m", "other": 1}},
        {"error": {"message": "m", "others": "n"}},
        {"error": {"message": "m", "others": ["n"]}},
        {"error": {"message": "m", "others": [{"line": 1}]}},
        {"error": {"message": "m", "others": [{"message": "n", "others": []}]}},
    ],
)
def test_another_shape_is_a_bad_reply(reply: Any) -> None:
    with pytest.raises(BuildError) as refused:
        _read(reply)
    assert refused.value.reason == "bad_reply"


@pytest.mark.parametrize("raw", [b"", b"\xff", b"\xa1", plain.encode("x" * 300_000)])
def test_bytes_that_are_no_reply_are_a_bad_reply(raw: bytes) -> None:
    with pytest.raises(BuildError) as refused:
        _read(None, raw=raw)
    assert refused.value.reason == "bad_reply"


def test_tools_that_no_host_takes_are_refused_as_in_any_manifest() -> None:
    with pytest.raises(ModuleRejected) as refused:
        _read({"ok": {"tools": [_TOOL | {"name": "no name"}]}})
    assert refused.value.reason == "manifest_invalid"
