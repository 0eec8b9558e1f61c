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
    assert (code, [(each["line"], each["message"]) for each in answer["warnings"]]) == (
        0,
        [(6, "tools.aks: no tool matches 'aks'")],
    )
    said = told("policy", "check", file, "--store", "s")[1]
    assert "policy.toml: is a policy; it grants clock.now, kv.put\nwarning: policy.toml, line 6: tools.aks: no" in said


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


SECRETS = """\
[secrets.key]
env = "THE_KEY"
origin = "https://a.example"

[secrets.other]
file = "/nowhere/key"
origin = "https://a.example"

[tools.a.grants."http.fetch"]
hosts = ["https://a.example"]
secrets = ["key", "other"]
"""


def test_check_ends_with_three_where_a_secret_has_no_value_and_looks_for_none_elsewhere(
    command: Command, told: Callable[..., tuple[int, str]], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(file).write_text(SECRETS)
    monkeypatch.delenv("THE_KEY", raising=False)
    code, answer = command("policy", "check", file)
    assert (code, [(each["line"], each["reason"]) for each in answer["missing"]]) == (
        3,
        [(1, "secret_missing"), (5, "secret_missing")],
    )
    code, said = told("policy", "check", file)
    assert code == 3
    assert "does not start here: policy.toml, line 1: secrets.key has no value: the environment variable THE" in said
    code, answer = command("policy", "check", file, "--elsewhere")
    assert (code, answer["missing"], answer["warnings"]) == (0, [], [])

    monkeypatch.setenv("THE_KEY", "hunter2-hunter2")
    Path("key").write_text("hunter2-hunter2")
    Path("key").chmod(0o640)
    Path(file).write_text(SECRETS.replace("/nowhere/key", str(Path("key").absolute())))
    code, answer = command("policy", "check", file)
    assert (code, answer["missing"]) == (0, [])
    (warning,) = answer["warnings"]
    assert warning["line"] == 6
    assert "others than its owner may use the file" in warning["message"]
    assert "(mode 0640): chmod 600" in warning["message"]
    Path("key").chmod(0o600)
    assert command("policy", "check", file)[1]["warnings"] == []


def test_check_ends_with_two_where_only_an_extra_is_missing(
    command: Command, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rho_wasm.capabilities.http.find_spec", lambda name: None)
    Path(file).write_text(SECRETS.replace('["key", "other"]', "[]"))
    code, answer = command("policy", "check", file)
    assert (code, [each["reason"] for each in answer["missing"]]) == (2, ["missing_extra"])
    Path(file).write_text(SECRETS)
    assert command("policy", "check", file)[0] == 3
    assert command("policy", "check", file, "--elsewhere")[0] == 0


GRANTS_NOTHING = """\
[gates]
on = ["replay"]

[tools.a.grants]
"files.read" = {}
"tool.call" = {}
"http.fetch" = {}
"files.list" = { folders = { d = "/nowhere/at all" } }

[tools.b.grants."http.fetch"]
hosts = ["http://127.0.0.1:8000", "http://localhost", "https://[::1]", "https://10.1.2.3", "https://a.example"]
networks = ["10.0.0.0/8"]
"""


def test_check_warns_of_grants_that_grant_nothing(command: Command, file: str) -> None:
    Path(file).write_text(GRANTS_NOTHING)
    code, answer = command("policy", "check", file)
    assert code == 0
    told = [(each["line"], each["message"]) for each in answer["warnings"]]
    assert [line for line, _ in told] == [2, 5, 6, 7, 11, 11, 11, 8]
    words = [message for _, message in told]
    assert "[recordings] on = true" in words[0]
    for number, name, listed in ((1, "files.read", "folders"), (2, "tool.call", "tools"), (3, "http.fetch", "hosts")):
        assert words[number] == f"tools.a.grants.{name}: grants nothing: its list or table {listed!r} is empty"
    for number, rule in ((4, "http://127.0.0.1:8000"), (5, "http://localhost"), (6, "https://[::1]")):
        assert f"hosts: {rule} is no public address, and no entry of 'networks' opens it" in words[number]
    assert "no folder here that can be read at /nowhere/at all" in words[7]
    Path(file).write_text(GRANTS_NOTHING.replace('["10.0.0.0/8"]', '["10.0.0.0/8", "127.0.0.0/8", "::1/128"]'))
    assert len(command("policy", "check", file, "--elsewhere")[1]["warnings"]) == 4


FOREIGN = """\
[recordings]
on = true

[secrets.key]
env = "NOWHERE_SET"
origin = "https://a.example"

[tools.ask.grants]
"invoice.lookup" = { most = 3 }

[tools.other.grants."http.fetch"]
hosts = ["https://a.example"]
secrets = ["key"]
"""
NOT_SHIPPED = "invoice.lookup is not one that ships; its program must give it"


def test_a_programs_own_capability_is_told_of_and_no_fault(
    command: Command, told: Callable[..., tuple[int, str]], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(file).write_text(FOREIGN)
    code, answer = command("policy", "check", file, "--elsewhere")
    assert (code, [each["message"] for each in answer["warnings"]]) == (
        0,
        [f"tools.ask.grants.invoice.lookup: {NOT_SHIPPED}"],
    )
    assert command("policy", "check", file, "--elsewhere", "--capability", "invoice.lookup")[1]["warnings"] == []
    code, answer = command("policy", "explain", "ask", "--policy", file)
    assert (code, answer["granted"], answer["warnings"]) == (0, {"invoice.lookup": {"most": 3}}, [NOT_SHIPPED])
    assert f"warning: {NOT_SHIPPED}\n" in told("policy", "explain", "ask", "--policy", file)[1]

    Path(file).write_text("[tools.a]\ngrants.'blog.write' = {}")
    code, answer = command("policy", "check", file)
    assert (code, answer["error"]["problems"][0]["reason"]) == (3, "policy_unknown_capability")
    assert "did you mean 'log.write'?" in answer["error"]["message"]
    assert command("policy", "check", file, "--capability", "blog.write")[0] == 0
    monkeypatch.setenv("RHO_WASM_CAPABILITIES", "blog.write shop.price")
    assert command("policy", "explain", "a", "--policy", file)[1]["warnings"] == []
    for wrong in ("kv.own", "lookup"):
        assert command("policy", "check", file, "--capability", wrong)[0] == 2


@pytest.mark.slow
def test_verbs_for_a_programs_store_need_nothing_that_only_the_program_has(
    command: Command, told: Callable[..., tuple[int, str]], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOWHERE_SET", raising=False)
    Path(file).write_text(FOREIGN)
    Path("ask.wasm").write_bytes(asking_guest("ask", "invoice.lookup").wasm)
    code, answer = command("stage", "ask.wasm", "--policy", file)
    assert (code, answer["warnings"]) == (0, [f"ask: {NOT_SHIPPED}"])
    for line in (["activate", "1"], ["tools"], ["tools", "--format", "mcp"], ["recordings", "replay"]):
        assert command(*line, "--policy", file)[0] == 0, line
    live = command("policy", "explain", "ask", "--policy", file, "--store", ".rho")[1]["live"]
    assert (live["has"], live["restage"]) == ({"invoice.lookup": {"most": 3}}, False)

    assert command("call", "ask", "--policy", file)[1]["error"]["reason"] == "secret_missing"
    monkeypatch.setenv("NOWHERE_SET", "hunter2-hunter2")
    for line in (["call", "ask"], ["call", "ask.wasm"]):
        code, answer = command(*line, "--policy", file)
        assert (code, answer["value"]["error"]["kind"]) == (0, "denied")
        said = told(*line, "--policy", file)[1]
        assert "invoice.lookup is granted, but only its program has it: here it is denied" in said


@pytest.mark.slow
def test_check_says_which_live_tools_have_less_than_the_policy_grants(command: Command, file: str) -> None:
    command("stage", "ask.wasm")
    command("activate", "1")
    warnings = command("policy", "check", file, "--store", ".rho")[1]["warnings"]
    restage = "ask was staged with less than the policy grants now: stage it again"
    assert restage in [each["message"] for each in warnings]
    command("stage", "ask.wasm", "--policy", file)
    command("activate", "2", "--policy", file)
    warnings = command("policy", "check", file, "--store", ".rho")[1]["warnings"]
    assert restage not in [each["message"] for each in warnings]


def test_a_limit_above_the_hosts_own_is_told_of_as_lowering_nothing_and_never_as_in_force(
    command: Command, told: Callable[..., tuple[int, str]], file: str
) -> None:
    Path(file).write_text("""\
[tools.spin]
limits = { fuel = 3_000_000_000, answer_bytes = 2_000_000 }

[tools."*".limits]
fuel = 30_000_000_000
memory_bytes = 1_000_000_000
deadline_ms = 5_000
""")
    code, answer = command("policy", "check", file)
    lines = {each["line"]: each["message"] for each in answer["warnings"]}
    assert (code, sorted(lines)) == (0, [2, 5, 6])
    assert lines[5] == (
        "tools.*.limits.fuel: lowers nothing where a host has its default (1000000000, for Python and JavaScript "
        "20000000000): a policy only lowers, a program raises with Host.open(limits=...)"
    )
    assert lines[2].startswith("tools.spin.limits.answer_bytes: lowers nothing where a host has its default (1048576):")
    code, answer = command("policy", "explain", "spin", "--policy", file)
    assert (answer["limits"]["fuel"], answer["engine_limits"]["fuel"]) == (1_000_000_000, 3_000_000_000)
    said = told("policy", "explain", "spin", "--policy", file)[1].splitlines()
    assert said[-1] == (
        "in force in a host with default limits: answer_bytes 1048576, deadline_ms 5000, "
        "fuel 1000000000 (for Python and JavaScript 3000000000), "
        "memory_bytes 67108864 (for Python and JavaScript 134217728)"
    )


def test_example_prints_a_policy(command: Command, told: Callable[..., tuple[int, str]], file: str) -> None:
    code, printed = told("policy", "example")
    assert (code, printed) == (0, command("policy", "example")[1]["example"])
    Path(file).write_text(printed)
    code, answer = command("policy", "check", file, "--elsewhere")
    assert (code, answer["warnings"], answer["secrets"]) == (0, [], ["api_key"])


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
    assert "  may ask for: kv.put, kv.get\n  is not granted: kv.get\n  kv.put is granted: bytes" in said
