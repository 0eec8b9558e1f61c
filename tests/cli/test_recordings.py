"""The verbs about recorded calls, on a store in a folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from rho_wasm import Artifact, Host, Policy, ToolCall
from rho_wasm.dynamic.store import Store
from rho_wasm.testing import guest
from tests.cli.conftest import Command

ESCAPES = "\x1b[2J\x07\u202eevil"
TRAPS_IF_TOLD = (
    "(if (i32.eq (i32.load8_u (i32.sub (i32.add (local.get $ptr) (local.get $len)) (i32.const 1))) (i32.const 0xf5)) "
    "(then unreachable))"
)
"""For calls with one argument: the request ends with it."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which two calls of ``calc`` are recorded, and one of a tool with a hostile text."""
    folder = tmp_path_factory.mktemp("recorded") / "store"

    async def record() -> None:
        policy = Policy.parse({"recordings": {"on": True}})
        async with Host.open(folder, policy=policy) as host:
            candidate = await host.source.stage([guest("calc"), guest("evil", answer=ESCAPES)], author="model")
            await host.source.activate(candidate)
            calls: list[tuple[str, dict[str, object]]] = [
                ("calc", {"n": False}),
                ("calc", {"n": True}),
                ("evil", {ESCAPES: ESCAPES}),
            ]
            for number, (tool, arguments) in enumerate(calls):
                await host.runner.run(ToolCall(str(number), tool, arguments))

    anyio.run(record)
    return folder


@pytest.fixture
def recorded(made: Path, own_folder: Path) -> Path:
    """The folder that a command works in, with such a store."""
    shutil.copytree(made, own_folder / ".rho")
    return own_folder


def module(folder: Path, artifact: Artifact) -> str:
    path = folder / "other.wasm"
    path.write_bytes(artifact.wasm)
    return str(path)


def test_recordings_are_listed_and_shown(
    recorded: Path, command: Command, told: Callable[..., tuple[int, str]]
) -> None:
    code, listed = command("recordings", "list")
    assert (code, [(each["id"], each["tool"], each["kind"]) for each in listed["recordings"]]) == (
        0,
        [(3, "evil", "ok"), (2, "calc", "ok"), (1, "calc", "ok")],
    )
    assert [each["id"] for each in command("recordings", "list", "calc", "--limit", "1")[1]["recordings"]] == [2]
    code, shown = command("recordings", "show", "2")
    assert (code, shown["arguments"], shown["answer"]) == (0, {"n": True}, {"ok": "done"})
    code, text = told("recordings", "show", "2")
    assert code == 0
    assert 'arguments: {"n": true}' in text
    assert 'answer: {"ok": "done"}' in text


def test_a_tool_of_which_nothing_is_recorded_is_told_apart_from_an_empty_store(
    recorded: Path, told: Callable[..., tuple[int, str]]
) -> None:
    none = "nothing is recorded of nosuch; there are calls of calc (2), evil (1)\n"
    assert told("recordings", "list", "nosuch") == (0, none)
    assert told("recordings", "drop", "--tool", "nosuch") == (1, none)
    assert told("recordings", "replay", "--tool", "nosuch") == (1, none)


def test_a_list_is_one_line_a_call_in_a_pipe_and_fits_in_a_terminal(
    recorded: Path, told: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    head, rule, *rows = told("recordings", "list")[1].splitlines()
    assert [name in head for name in ("artifact", "fuel", "bytes")] == [True] * 3
    assert [row.split()[0] for row in rows] == ["3", "2", "1"]
    assert all(line == line.rstrip() for line in (head, rule, *rows))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    head, rule, *rows = re.sub(r"\x1b\[[0-9;]*m", "", told("recordings", "list")[1]).splitlines()
    assert [name in head for name in ("artifact", "fuel", "bytes")] == [False] * 3
    assert [row.split()[0] for row in rows] == ["3", "2", "1"]
    assert all(len(line) <= 80 for line in (head, rule, *rows))


def test_a_long_value_is_shown_line_by_line(own_folder: Path, told: Callable[..., tuple[int, str]]) -> None:
    async def record() -> None:
        async with Host.open(own_folder / ".rho", policy=Policy.parse({"recordings": {"on": True}})) as host:
            await host.source.activate(await host.source.stage([guest("calc")], author="model"))
            await host.runner.run(ToolCall("1", "calc", {"words": [f"word {number}" for number in range(90)]}))

    anyio.run(record)
    text = told("recordings", "show", "1")[1]
    assert '  arguments:\n    {\n      "words": [\n        "word 0",\n' in text
    assert "\n    (and 34 more lines: --json has them)\n" in text
    assert "word 89" not in text


def test_a_replay_on_what_is_live_is_the_same(recorded: Path, command: Command) -> None:
    code, found = command("recordings", "replay")
    assert code == 0
    assert [(report["tool"], report["replayed"], report["same"]) for report in found["reports"]] == [
        ("calc", 2, 2),
        ("evil", 1, 1),
    ]


def test_a_replay_that_crashes_where_the_call_answered_exits_with_1(
    recorded: Path, command: Command, told: Callable[..., tuple[int, str]]
) -> None:
    path = module(recorded, guest("calc", body=TRAPS_IF_TOLD))
    code, found = command("recordings", "replay", "--tool", "calc", "--against", path)
    (report,) = found["reports"]
    assert (code, report["broken"], report["same"]) == (1, 1, 1)
    assert [(each["id"], each["reason"]) for each in report["replays"] if each["broke"]] == [(2, "trapped")]
    assert command("recordings", "replay", "1", "--against", path)[0] == 0
    code, text = told("recordings", "replay", "2", "--against", path, "--store", "../" + recorded.name + "/.rho")
    assert code == 1
    assert text.endswith(f"\nrho-wasm recordings show 2 --store ../{recorded.name}/.rho\n")
    assert "recording 2: ok -> trapped" in text
    assert '+ "crashed": "trapped"' in text


def test_all_calls_are_replayed_however_many_there_are(recorded: Path, command: Command) -> None:
    with Store.open(recorded / ".rho") as store:
        (first,) = store.recordings.rows("calc", limit=1)
        recording = store.recordings.get(first.id)
        assert recording is not None
        store.recordings.add([replace(recording, tool="gone")] * 1_001, per_tool=1_001, bytes_per_tool=1024 * 1024)
    reports = command("recordings", "replay")[1]["reports"]
    assert [(each["tool"], each["replayed"], each["left"]) for each in reports] == [
        ("calc", 2, 0),
        ("evil", 1, 0),
        ("gone", 0, 1_001),
    ]


@pytest.mark.slow
def test_a_replay_on_another_answer_shows_a_diff_and_exits_with_0(
    recorded: Path, told: Callable[..., tuple[int, str]]
) -> None:
    code, text = told("recordings", "replay", "1", "--against", module(recorded, guest("calc", answer="else")))
    assert code == 0
    assert '- "ok": "done"\n' in text
    assert '+ "ok": "else"\n' in text
    assert told("recordings", "replay", "1", "--against", "0")[0] == 0


def test_no_text_of_a_recording_reaches_a_terminal_as_it_is(
    recorded: Path, told: Callable[..., tuple[int, str]]
) -> None:
    path = module(recorded, guest("evil", answer=ESCAPES[::-1]))
    for words in (("list",), ("show", "3"), ("replay", "3"), ("replay", "3", "--against", path)):
        _, text = told("recordings", *words)
        assert text.replace("\n", "").isprintable()
    assert "evil" in text


@pytest.mark.slow
def test_recordings_are_dropped_by_number_or_by_tool(recorded: Path, command: Command) -> None:
    assert command("recordings", "drop", "3", "1")[1] == {"dropped": 2}
    assert [each["id"] for each in command("recordings", "list")[1]["recordings"]] == [2]
    assert command("recordings", "drop", "--tool", "calc")[1] == {"dropped": 1}
    assert command("recordings", "replay")[1] == {"reports": []}


@pytest.mark.parametrize(
    "words", [("show", "9"), ("replay", "9"), ("drop", "9"), ("drop",), ("replay", "--against", "no")]
)
@pytest.mark.slow
def test_what_is_not_there_is_wrong_usage(recorded: Path, command: Command, words: tuple[str, ...]) -> None:
    code, found = command("recordings", *words, "--store", str(recorded / ".rho"))
    assert (code, found["error"]["reason"]) == (2, "usage")
    if "9" in words:
        assert f"; rho-wasm recordings list --store {recorded / '.rho'} has those" in found["error"]["message"]


def test_a_policy_whose_gate_has_no_recordings_is_warned_of(own_folder: Path, command: Command) -> None:
    (own_folder / "policy.toml").write_text('\n[gates]\non = ["replay"]\n')
    (warning,) = command("policy", "check", "policy.toml")[1]["warnings"]
    assert warning["line"] == 3
    assert "none are recorded" in warning["message"]


@pytest.mark.slow
def test_an_unknown_generation_is_refused(recorded: Path, command: Command) -> None:
    code, found = command("recordings", "replay", "--against", "77")
    assert (code, found["error"]["reason"]) == (3, "unknown_generation")


def test_a_person_who_approves_sees_what_became_of_recorded_calls(
    recorded: Path, command: Command, told: Callable[..., tuple[int, str]]
) -> None:
    (recorded / "policy.toml").write_text('[gates]\non = ["examples", "replay", "approval"]\n')
    command("stage", module(recorded, guest("calc", answer="else")))
    code, text = told("approve", "2", "--yes", "--policy", "policy.toml")
    assert code == 0
    assert "calc: 2 recorded calls replayed, 0 the same, 2 differ" in text
    assert '+ "ok": "else"' in text
    code, text = told("activate", "2", "--policy", "policy.toml")
    assert code == 0
    assert "calc: 2 recorded calls replayed, 0 the same, 2 differ" in text
    assert "rho-wasm recordings replay --against 2 --policy policy.toml\n" in text
    assert "gate replay: calc: 2 recorded calls replayed" in told("generations")[1]
