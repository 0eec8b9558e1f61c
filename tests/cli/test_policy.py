"""The verbs of policies, and that the other verbs go by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rho_wasm.testing import asking_guest
from tests.cli.conftest import Command

POLICY = """\
[tools.ask]
limits.fuel = 900_000
grants."kv.put" = { keys = 2 }
grants."clock.now" = {}

[tools.aks]
limits.fuel = 1
"""


@pytest.fixture
def file(own_folder: Path) -> str:
    (own_folder / "policy.toml").write_text(POLICY)
    (own_folder / "ask.wasm").write_bytes(asking_guest("ask", "kv.put", declared=["kv.put", "kv.get"]).wasm)
    return "policy.toml"


def test_check_says_what_a_file_grants_and_which_rules_mean_no_tool(
    command: Command, told: Callable[..., tuple[int, str]], file: str
) -> None:
    code, answer = command("policy", "check", file)
    assert (code, answer["warnings"]) == (0, [])
    assert answer["tools"]["ask"]["grants"]["kv.put"]["keys"] == 2
    command("stage", "ask.wasm", "--store", "s")
    code, answer = command("policy", "check", file, "--store", "s")
    assert (code, answer["warnings"]) == (0, [{"line": 6, "message": "tools.aks: no tool matches 'aks'"}])
    said = told("policy", "check", file, "--store", "s")[1]
    assert "policy.toml: is a policy; it grants clock.now, kv.put\n  line 6: tools.aks: no tool" in said


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("[tools.a]\ngrants.'kv.eat' = {}", "policy_unknown_capability", "line 2: tools.a.grants.kv.eat: unknown"),
        ("[tools.a]\ngrants.'kv.put'.kees = 1", "policy_unknown_key", "line 2: tools.a.grants.kv.put.kees: unknown"),
        ("[tools", "policy_unreadable", "is not TOML"),
    ],
)
def test_check_refuses_what_is_no_policy(command: Command, file: str, text: str, reason: str, words: str) -> None:
    Path(file).write_text(text)
    code, answer = command("policy", "check", file)
    assert (code, answer["error"]["type"], answer["error"]["reason"]) == (3, "PolicyError", reason)
    assert words in answer["error"]["message"]
    assert command("stage", "ask.wasm", "--policy", file)[0] == 3
    assert command("policy", "check", "none.toml")[1]["error"]["reason"] == "policy_unreadable"


def test_check_tells_of_secrets_that_have_no_value_here(
    command: Command, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(file).write_text(
        "[secrets.key]\nenv = 'THE_KEY'\norigin = 'https://a.example'\n"
        "[tools.a]\ngrants.'http.fetch' = { hosts = ['https://a.example'], secrets = ['key'] }\n"
    )
    monkeypatch.delenv("THE_KEY", raising=False)
    (warning,) = command("policy", "check", file)[1]["warnings"]
    assert "the environment variable THE_KEY is not set" in warning["message"]
    monkeypatch.setenv("THE_KEY", "hunter2-hunter2")
    assert command("policy", "check", file)[1]["warnings"] == []


@pytest.mark.slow
def test_explain_says_what_a_tool_has_and_what_a_restage_would_bring(
    command: Command, told: Callable[..., tuple[int, str]], file: str
) -> None:
    code, answer = command("policy", "explain", "ask", "--policy", file)
    assert (code, answer["live"]) == (0, None)
    assert answer["said"][0] == {"line": 2, "text": 'tools."ask" limits.fuel = 900000'}
    assert answer["limits"]["fuel"] == 900_000
    assert sorted(answer["granted"]) == ["clock.now", "kv.put"]

    command("stage", "ask.wasm", "--store", "s")
    command("activate", "1", "--store", "s")
    live = command("policy", "explain", "ask", "--policy", file, "--store", "s")[1]["live"]
    assert (live["has"], live["staged"], live["restage"]) == ({}, {}, True)
    assert (live["denied"], live["undeclared"]) == (["kv.put", "kv.get"], ["clock.now"])

    command("stage", "ask.wasm", "--store", "s", "--policy", file)
    command("activate", "2", "--store", "s", "--policy", file)
    live = command("policy", "explain", "ask", "--policy", file, "--store", "s")[1]["live"]
    assert (live["restage"], live["has"]["kv.put"]["keys"], live["denied"]) == (False, 2, ["kv.get"])
    said = told("policy", "explain", "ask", "--policy", file, "--store", "s")[1]
    assert 'line 3: tools."ask" grants."kv.put" = { keys = 2 }' in said
    assert "has kv.put: bytes 1048576, key_bytes 512, keys 2" in said
    assert "may ask for kv.get and is denied" in said
    assert "is granted clock.now, which its manifest does not declare" in said
    assert "no tool other is live" in told("policy", "explain", "other", "--store", "s")[1]
    assert command("policy", "explain", "ask", "--store", "none")[0] == 2


@pytest.mark.slow
def test_calls_of_a_file_and_of_a_store_go_by_the_policys_grants(command: Command, file: str) -> None:
    put = '{"key": "a", "value": 1}'
    denied = command("call", "ask.wasm", "ask", "-a", put)[1]["value"]["error"]["kind"]
    granted = command("call", "ask.wasm", "ask", "-a", put, "--policy", file)[1]["value"]
    assert (denied, granted) == ("denied", {"ok": {"stored": True}})
    command("stage", "ask.wasm", "--policy", file)
    command("activate", "1", "--policy", file)
    assert command("call", "ask", "-a", put, "--policy", file)[1]["value"] == {"ok": {"stored": True}}
    assert command("call", "ask", "-a", put)[1]["value"]["error"]["kind"] == "denied"
    code, answer = command("call", "ask", "-a", put, "--policy", file)
    assert (code, answer["value"]) == (0, {"ok": {"stored": True}})


def test_who_approves_is_shown_what_is_granted_and_what_is_not(
    command: Command, told: Callable[..., tuple[int, str]], file: str
) -> None:
    Path(file).write_text(POLICY + "\n[gates]\non = ['approval']\n")
    command("stage", "ask.wasm", "--policy", file)
    said = told("approve", "1", "--yes", "--policy", file)[1]
    assert "  may ask for: kv.put, kv.get; 0 examples\n  is not granted: kv.get\n  kv.put is granted: bytes" in said
