"""``dev`` is a program that is watched by what it prints: each test waits for lines, never for a time."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rho_wasm.cli.app import run
from rho_wasm.dynamic.store import Store

_DECLARED = {
    "name": "count",
    "description": "Counts.",
    "input_schema": {"type": "object"},
    "examples": [{"arguments": {}, "answer": {"ok": 7}}],
}
_PATIENCE_S = 60
Wait = Callable[[str], dict[str, Any]]


def _source(body: str) -> str:
    return f"""(module (memory (export "memory") 1)
      (data (i32.const 0) "\\a1\\62ok\\07")
      (func (export "rho_alloc") (param i32) (result i32) (i32.const 1024))
      (func (export "rho_call") (param i32 i32) (result i64) {body}))"""


_GOOD = _source("(i64.const 5)")
_BROKEN = "(module\n  (func (exprot)))"
_TRAPS = _source("unreachable")


def _put(path: Path, text: str) -> None:
    """As editors save: who looks meanwhile sees what there was or all that there is."""
    beside = path.with_name(f".{path.name}")
    beside.write_text(text)
    beside.replace(path)


def _write(folder: Path, text: str, *, name: str = "count", examples: bool = True) -> None:
    declared = _DECLARED | {"name": name} if examples else {**_DECLARED, "name": name, "examples": []}
    _put(folder / "count.manifest.json", json.dumps({"tools": [declared]}))
    _put(folder / "count.wat", text)


@contextmanager
def _running(*arguments: str) -> Iterator[tuple[Wait, subprocess.Popen[str]]]:
    """``dev`` with ``--json``, and what waits for its next event of a kind, passing over others; ``*`` is any."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rho_wasm.cli", "dev", *arguments, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ.copy(),
    )  # fmt: skip
    lines: queue.Queue[str] = queue.Queue()
    printed = process.stdout
    assert printed is not None

    def read() -> None:
        for line in printed:
            lines.put(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()

    def wait(event: str) -> dict[str, Any]:
        seen: list[str] = []
        while True:
            try:
                line = lines.get(timeout=_PATIENCE_S)
            except queue.Empty:
                raise AssertionError(f"no {event!r} came, but {seen}") from None
            seen.append(line)
            told: dict[str, Any] = json.loads(line)
            if event in ("*", told["event"]):
                return told

    try:
        yield wait, process
    finally:
        process.kill()
        process.wait()
        reader.join()
        printed.close()


@pytest.fixture
def folder(own_folder: Path) -> Path:
    (own_folder / "count").mkdir()
    return own_folder / "count"


@pytest.mark.slow
def test_each_change_is_built_made_live_and_called_and_errors_end_nothing(folder: Path, own_folder: Path) -> None:
    _write(folder, _GOOD)
    with _running("count") as (wait, process):
        watching = wait("watching")
        assert (watching["path"], watching["store"]) == ("count", ".rho")
        assert wait("built")["tools"] == ["count"]
        assert wait("live")["generation"] == 1
        called = wait("call")
        assert (called["tool"], called["result"]["value"]) == ("count", 7)
        assert called["result"]["fuel_used"] > 0
        wait("idle")
        _put(folder / "count.wat", _BROKEN)
        error = wait("error")["error"]
        assert (error["diagnostics"][0]["file"], error["diagnostics"][0]["line"]) == ("count.wat", 2)
        wait("idle")
        _put(folder / "count.wat", _TRAPS)
        assert wait("error")["error"]["gate"] == "examples"
        wait("idle")
        _write(folder, _GOOD.replace("\\07", "\\08"), examples=False)
        # Writing two files may be one change or two: the last one tells of both.
        while wait("live")["generation"] < 3:
            pass
        assert wait("not_called")["tools"] == ["count"]
        process.send_signal(signal.SIGINT)
        wait("stopped")
        assert process.wait(_PATIENCE_S) == 0
    assert {path.name for path in folder.iterdir()} == {"count.wat", "count.manifest.json"}
    with Store.open(own_folder / ".rho", read_only=True) as store:
        assert [each.state for each in store.generations()].count("live") == 1


@pytest.mark.slow
def test_a_named_tool_is_called_with_arguments_from_a_file_which_is_watched_too(folder: Path) -> None:
    _write(folder, _GOOD, examples=False)
    _put(folder / "given.json", '{"n": 1}')
    # The store lies in the folder that is watched, and what is written to it is no change.
    with _running("count", "--call", "count", "-a", "@count/given.json", "--store", "count/store") as (wait, process):
        assert wait("call")["arguments"] == {"n": 1}
        wait("idle")
        _put(folder / "given.json", '{"n": 2}')
        assert wait("*")["event"] == "live"  # Nothing is built again.
        assert wait("call")["arguments"] == {"n": 2}
        wait("idle")
        _put(folder / "given.json", "[")
        assert wait("error")["error"]["reason"] == "usage"
        process.send_signal(signal.SIGTERM)
        wait("stopped")


@pytest.mark.slow
def test_calls_that_crash_strike_nothing_and_a_quarantine_by_others_is_told_once(
    folder: Path, own_folder: Path
) -> None:
    _write(folder, _TRAPS, name="sum", examples=False)
    (own_folder / "policy.toml").write_text("[strikes]\nlimit = 1\n")
    _put(own_folder / "given.json", "{}")
    policy = ["--policy", "policy.toml"]
    with _running("count", "--call", "sum", "-a", "@given.json", *policy) as (wait, _):
        called = wait("call")["result"]
        assert (called["kind"], called["generation"]) == ("crashed", None)
        wait("idle")
        with Store.open(own_folder / ".rho", read_only=True) as store:
            assert not store.strikes()
        assert run(["call", "sum", *policy]) == 1
        _put(own_folder / "given.json", '{"n": 1}')
        assert wait("quarantined")["next"] == ["rho-wasm pardon sum --policy policy.toml"]
        wait("idle")
        assert run(["pardon", "sum"]) == 0
        _put(own_folder / "given.json", '{"n": 9}')
        assert wait("live")["tools"] == ["sum"]
    with Store.open(own_folder / ".rho", read_only=True) as store:
        assert [each.state for each in store.generations()].count("rejected") == 0


@pytest.mark.slow
def test_the_policy_holds_and_a_candidate_that_waits_is_replaced(folder: Path, own_folder: Path) -> None:
    (own_folder / "policy.toml").write_text("[gates]\non = ['approval']\n")
    _write(folder, _GOOD, examples=False)
    with _running("count", "--policy", "policy.toml") as (wait, _):
        waits = wait("waits")
        assert waits["next"] == [f"rho-wasm {verb} 1 --policy policy.toml" for verb in ("approve", "activate")]
        wait("idle")
        _put(folder / "count.wat", _GOOD.replace("\\07", "\\08"))
        assert wait("waits")["candidate"] == 2
    with Store.open(own_folder / ".rho", read_only=True) as store:
        assert [each.state for each in store.generations()] == ["live", "rejected", "candidate"]


@pytest.mark.slow
def test_a_tool_that_is_renamed_does_not_stay_under_its_old_name(folder: Path) -> None:
    _write(folder, _GOOD, examples=False)
    with _running("count") as (wait, _):
        assert wait("live")["tools"] == ["count"]
        wait("idle")
        _write(folder, _GOOD, name="sum", examples=False)
        assert wait("live")["tools"] == ["sum"]


@pytest.mark.slow
def test_a_module_that_a_gate_refused_or_that_waits_is_not_staged_again(folder: Path, own_folder: Path) -> None:
    (own_folder / "policy.toml").write_text("[gates]\non = ['examples', 'approval']\n")
    _write(folder, _TRAPS)
    with _running("count", "--policy", "policy.toml") as (wait, _):
        first = wait("error")["error"]
        wait("idle")
        _put(folder / "count.wat", f"{_TRAPS}\n;; said again")
        wait("same")
        assert wait("error")["error"] == first
        wait("idle")
        _put(folder / "count.wat", _GOOD)
        assert wait("waits")["candidate"] == 2
        wait("idle")
        _put(folder / "count.wat", f"{_GOOD}\n;; said again")
        assert wait("waits")["candidate"] == 2
        wait("idle")
        assert run(["reject", "2"]) == 0
        _put(folder / "count.wat", f"{_GOOD}\n;; and again")
        assert "was rejected" in wait("error")["error"]["message"]
    with Store.open(own_folder / ".rho", read_only=True) as store:
        assert [each.state for each in store.generations()] == ["live", "rejected", "rejected"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone"], "no such file"),
        (["count", "-a", "-"], "JSON or @FILE"),
        (["count", "-a", '{"n": 1}'], "--call TOOL"),
        (["count", "--call", "count", "-a", "{"], "not JSON"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_watched(
    folder: Path, own_folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["dev", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not (own_folder / ".rho").exists()
