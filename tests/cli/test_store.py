"""The verbs of the dynamic source, on a store in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rho_wasm import Store
from rho_wasm.capabilities.kv_backend import KvRoom
from rho_wasm.resources import fixture
from tests.cli.conftest import Command

ECHO, TRAP, THIEF = (str(fixture(f"{name}.wasm")) for name in ("echo", "trap", "core_name"))
OBJECT = {"type": "object"}
APPROVAL = "[gates]\non = ['examples', 'approval']\n"


def test_a_tool_is_staged_activated_called_and_rolled_back(command: Command) -> None:
    assert command("stage", ECHO, "--author", "model", "--note", "first")[1]["number"] == 1
    code, answer = command("call", "echo", "-a", '{"text": "x"}')
    assert (code, answer["reason"]) == (1, "not_found")
    assert command("activate", "1")[1]["state"] == "live"
    code, answer = command("call", "echo", "-a", '{"text": "x"}')
    assert (code, answer["generation"]) == (0, 1)
    offered = command("tools")[1]
    assert [tool["name"] for tool in offered["tools"] if tool["from"] == "dynamic"] == ["echo"]
    assert command("rollback")[1]["number"] == 0
    assert command("call", "echo")[1]["reason"] == "not_found"
    states = {each["number"]: each["state"] for each in command("generations")[1]["generations"]}
    assert states == {0: "live", 1: "rolled_back"}


def test_a_generation_is_rolled_back_to_by_its_number_alone(command: Command) -> None:
    command("stage", ECHO)
    command("activate", "1")
    assert command("rollback", "0")[1]["number"] == 0
    assert command("rollback", "1", "--to", "1")[1]["number"] == 1
    code, answer = command("rollback", "0", "--to", "1")
    assert (code, answer["error"]["reason"]) == (2, "usage")


def test_what_to_type_next_has_the_options_that_were_given(
    command: Command, told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    (own_folder / "policy.toml").write_text(APPROVAL)
    given = ["--store", "my store", "--policy", "policy.toml"]
    steps = command("stage", ECHO, *given)[1]["next"]
    options = "--store 'my store' --policy policy.toml"
    assert steps == [f"rho-wasm approve 1 {options}", f"rho-wasm activate 1 {options}"]
    assert f"\nrho-wasm approve 2 {options}\nrho-wasm activate 2 {options}\n" in told("stage", TRAP, *given)[1]
    assert f"approved: rho-wasm activate 1 {options}" in told("approve", "1", "--yes", *given)[1]
    assert command("stage", ECHO)[1]["next"] == ["rho-wasm activate 1"]


def test_a_gate_that_waits_and_a_quarantine_say_what_to_type_in_the_same_store(
    command: Command, told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    (own_folder / "policy.toml").write_text(APPROVAL + "[strikes]\nlimit = 1\n")
    given = ["--store", "my store", "--policy", "policy.toml"]
    options = "--store 'my store' --policy policy.toml"
    command("stage", TRAP, *given)
    code, answer = command("activate", "1", *given)
    assert (code, answer["next"]) == (3, [f"rho-wasm approve 1 {options}", f"rho-wasm activate 1 {options}"])
    assert told("activate", "1", *given)[1].endswith(f"\nrho-wasm approve 1 {options}\nrho-wasm activate 1 {options}\n")
    command("approve", "1", "--yes", *given)
    command("activate", "1", *given)
    command("call", "trap", *given)
    assert told("call", "trap", *given)[1].endswith(
        f"\nrho-wasm pardon trap {options}\nrho-wasm rollback 1 {options}\n"
    )
    assert f"trapped; rho-wasm pardon trap {options}\n" in told("tools", *given)[1]


def test_a_pardon_of_a_name_that_never_was_there_says_so(
    command: Command, told: Callable[..., tuple[int, str]]
) -> None:
    command("stage", ECHO)
    code, answer = command("pardon", "ehco")
    assert (code, answer["error"]["reason"]) == (1, "not_found")
    assert "no generation has a tool of that name; did you mean 'echo'?" in answer["error"]["message"]
    assert command("pardon", "echo") == (0, {"pardoned": []})
    assert "ehco: no generation has a tool of that name; did you mean 'echo'?\n" in told("strikes", "ehco")[1]


def test_a_candidate_that_another_switch_overtook_says_its_new_number(
    command: Command, told: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    command("stage", ECHO)
    command("stage", TRAP, "--note", "mine")
    command("activate", "1")
    code, text = told("activate", "2")
    assert code == 0
    assert "since 2 was staged: its changes were made to 1, and that is generation 3" in text
    assert "mine; rebased on 1 as 3" in " ".join(told("generations")[1].split())


def test_strikes_over_several_processes_take_a_tool_back_and_a_pardon_brings_it_again(command: Command) -> None:
    command("stage", TRAP)
    command("activate", "1")
    for _ in range(3):
        code, answer = command("call", "trap")
        assert (code, answer["reason"]) == (1, "trapped")
    assert command("call", "trap")[1]["reason"] in ("not_found", "quarantined")
    told = command("strikes")[1]
    assert [strike["reason"] for strike in told["strikes"]] == ["trapped"] * 3
    assert len(told["quarantines"]) == 1
    assert command("strikes", "other")[1] == {"strikes": [], "quarantines": []}
    live = command("generations")[1]["generations"][-1]
    assert (live["author"], live["state"]) == ("strikes", "live")
    code, answer = command("rollback", "--to", "1")
    assert (code, answer["error"]["type"]) == (3, "UnknownGeneration")
    assert len(command("pardon", "trap")[1]["pardoned"]) == 1
    assert command("rollback", "--to", "1")[1]["number"] == 1


def test_a_core_name_is_never_offered_and_tools_says_so(command: Command) -> None:
    command("stage", THIEF)
    assert command("activate", "1")[0] == 0
    answer = command("tools")[1]
    assert [tool["from"] for tool in answer["tools"] if tool["name"] == "read_artifact"] == ["core"]
    assert [each["tool"] for each in answer["shadowed"]] == ["read_artifact"]


def test_a_module_that_is_not_let_in_is_rejected_by_the_gate(command: Command) -> None:
    code, answer = command("stage", str(fixture("foreign_import.wasm")))
    assert code == 0
    code, answer = command("activate", "1")
    assert (code, answer["error"]["type"], answer["error"]["gate"]) == (3, "GateRejected", "admission")
    assert command("generations")[1]["generations"][-1]["state"] == "rejected"


def test_approval_is_waited_for_given_and_refused_on_the_command_line(command: Command, own_folder: Path) -> None:
    (own_folder / "policy.toml").write_text(APPROVAL)
    command("stage", ECHO)
    code, answer = command("activate", "1", "--policy", "policy.toml")
    assert (code, answer["error"]["gate"]) == (3, "approval")
    assert command("approve", "1")[0] == 2  # With --json nobody can be asked.
    code, answer = command("approve", "1", "--yes")
    assert code == 0
    assert answer["review"]["tools"][0]["tool"] == "echo"
    assert command("activate", "1", "--policy", "policy.toml")[0] == 0
    command("stage", TRAP)
    assert command("reject", "2", "--note", "it traps")[0] == 0
    code, answer = command("activate", "2", "--policy", "policy.toml")
    assert code == 3


def test_who_approves_reads_the_source_and_what_is_granted_of_each_module_once(
    told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    tools = [{"name": name, "description": f"It is {name}."} for name in ("one", "two", "three")]
    declared = {"capabilities": ["kv.get", "kv.put"], "tools": [tool | {"input_schema": OBJECT} for tool in tools]}
    (own_folder / "count.manifest.json").write_text(json.dumps(declared))
    (own_folder / "count.wat").write_bytes(fixture("echo.wat").read_bytes())
    (own_folder / "policy.toml").write_text('[tools."*".grants]\n"kv.get" = {}\n')
    told("stage", "count.wat", TRAP, "--policy", "policy.toml")
    said = told("approve", "1", "--yes", "--policy", "policy.toml")[1]
    for once in ("may ask for: kv.get, kv.put\n", "is not granted: kv.put\n", "kv.get is granted: ", "(module\n"):
        assert said.count(once) == 1, once
    order = re.findall(r"^ *(module|added \w+)", said, re.MULTILINE)
    assert order == ["module", "added one", "added three", "added two", "module", "added trap"]
    (own_folder / "policy.toml").write_text('[tools.two.grants]\n"kv.get" = {}\n')
    told("stage", "count.wat", "--policy", "policy.toml")
    said = told("approve", "2", "--yes", "--policy", "policy.toml")[1]
    assert "added two; 0 examples\n    > It is two.\n    is not granted: kv.put\n    kv.get is granted: " in said
    assert said.count("    is not granted: kv.get, kv.put\n") == 2


def test_staging_a_source_builds_it_here(command: Command) -> None:
    code, answer = command("stage", str(fixture("echo.wat")))
    assert code == 0
    code, answer = command("approve", "1", "--yes")
    assert answer["review"]["tools"][0]["provenance"] == "built here"


def test_removing_a_tool_is_a_generation_too(command: Command) -> None:
    command("stage", ECHO)
    command("activate", "1")
    assert command("stage", "--remove", "echo")[1]["changes"]["removed"] == ["echo"]
    assert command("activate", "2")[1]["tools"] == {}
    code, answer = command("stage", "--remove", "echo")
    assert (code, answer["error"]["type"]) == (3, "NameInvalid")


@pytest.mark.parametrize(
    "verb", [["tools"], ["activate", "1"], ["rollback"], ["generations"], ["strikes"], ["pardon", "x"], ["call", "x"]]
)
def test_a_verb_that_needs_a_store_makes_none_by_mistake(command: Command, own_folder: Path, verb: list[str]) -> None:
    code, answer = command(*verb, "--store", "missing")
    assert (code, answer["error"]["reason"]) == (2, "usage")
    assert not (own_folder / "missing").exists()


def test_old_generations_are_pruned_and_nothing_returns_to_them(
    command: Command, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, file in enumerate((ECHO, TRAP, ECHO, TRAP), start=1):
        command("stage", file, *(["--remove", "echo"] if number > 1 and file == TRAP else []))
        command("activate", str(number))
    command("stage", "--remove", "trap")
    command("activate", "5")
    monkeypatch.setattr("rho_wasm.dynamic.store.REJECTED_KEPT_S", -60.0)  # as if an hour had passed
    with Store.open(own_folder / ".rho") as store:
        for tool in ("echo", "trap"):
            store.kv.put(tool, "key", b"", room=KvRoom(1, 3), all_bytes=6)
    assert command("prune", "--keep", "0")[0] == 2
    code, answer = command("prune", "--keep", "1")
    assert code == 0
    assert (answer["pruned"], len(answer["artifacts"]), answer["namespaces"]) == ([1, 3], 1, ["echo"])
    code, answer = command("rollback", "--to", "1")
    assert (code, answer["error"]["type"]) == (3, "UnknownGeneration")
    assert [each["why"] for each in command("generations")[1]["generations"]].count("pruned") == 2
    assert command("rollback")[1]["number"] == 4


def test_the_store_comes_from_the_environment(
    command: Command, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHO_WASM_STORE", str(own_folder / "elsewhere"))
    assert command("stage", ECHO)[0] == 0
    assert (own_folder / "elsewhere").is_dir()
    assert not (own_folder / ".rho").exists()


def test_a_store_that_is_none_is_a_fault_of_the_store(command: Command, own_folder: Path) -> None:
    (own_folder / "store").mkdir(mode=0o700)
    (own_folder / "store" / "rho.sqlite").write_text("not a database, but long enough to be looked at" * 40)
    for name in ("rho.sqlite", "store.sqlite", "rho.db"):
        (own_folder / "store" / name).write_text("not a database, but long enough to be looked at" * 40)
    code, answer = command("tools", "--store", "store")
    assert code == 4
    assert answer["error"]["type"] in ("Corrupt", "StoreError")


def test_an_unknown_generation_is_refused(command: Command) -> None:
    command("stage", ECHO)
    for verb in (["activate", "9"], ["rollback", "--to", "9"], ["reject", "9"], ["approve", "9", "--yes"]):
        code, answer = command(*verb)
        assert (code, answer["error"]["type"]) == (3, "UnknownGeneration"), verb


def test_what_a_person_reads_names_the_next_step(told: Callable[..., tuple[int, str]]) -> None:
    code, text = told("stage", ECHO)
    assert code == 0
    assert "rho-wasm activate 1" in text
    code, text = told("activate", "1")
    assert "generation 1 is live" in text
    for verb in ("tools", "generations", "strikes"):
        code, text = told(verb)
        assert code == 0, text
    assert "Traceback" not in text


def test_a_tool_whose_artifact_is_damaged_is_a_fault_of_the_store_and_staging_mends_it(
    command: Command, told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    command("stage", ECHO)
    command("activate", "1")
    [artifact] = (own_folder / ".rho" / "artifacts").rglob("*.wasm")
    artifact.write_bytes(artifact.read_bytes()[:100])
    code, answer = command("call", "echo")
    assert (code, answer["error"]["type"]) == (4, "Corrupt")
    code, answer = command("tools")
    assert (code, list(answer["damaged"])) == (4, ["echo"])
    code, text = told("stage", ECHO)
    assert "damaged, and whole again: echo\n" in text
    assert command("call", "echo", "-a", '{"text": "x"}')[0] == 0


def test_staging_what_is_live_already_says_so_and_neither_a_repair_nor_a_next_step(
    command: Command, told: Callable[..., tuple[int, str]]
) -> None:
    command("stage", ECHO)
    command("activate", "1")
    code, text = told("stage", ECHO)
    assert (code, text) == (0, "generation 2 is staged: it changes nothing, as all that it brings is live already\n")
    answer = command("stage", ECHO)[1]
    assert (answer["next"], answer["mended"]) == ([], [])


def test_a_roll_back_to_what_is_damaged_says_so(command: Command, own_folder: Path) -> None:
    command("stage", ECHO)
    command("activate", "1")
    command("rollback")
    [artifact] = (own_folder / ".rho" / "artifacts").rglob("*.wasm")
    artifact.unlink()
    code, answer = command("rollback", "--to", "1")
    assert (code, list(answer["damaged"])) == (4, ["echo"])


def test_a_call_says_what_it_struck_and_why_a_tool_is_gone(
    command: Command, told: Callable[..., tuple[int, str]]
) -> None:
    command("stage", TRAP)
    command("activate", "1")
    assert "strike 1 of 3" in told("call", "trap")[1]
    told("call", "trap")
    code, text = told("call", "trap")
    assert "is quarantined" in text
    assert "generation 2 is live" in text
    code, text = told("call", "trap")
    assert code == 1
    assert "trap is quarantined (trapped); pardon it, then roll back to it:\nrho-wasm pardon trap\n" in text


def test_only_a_candidate_can_be_approved_and_only_by_somebody_who_can_be_asked(
    command: Command, told: Callable[..., tuple[int, str]]
) -> None:
    command("stage", ECHO)
    code, text = told("approve", "1")
    assert code == 2
    assert "--yes" in text
    command("activate", "1")
    code, answer = command("approve", "1", "--yes")
    assert (code, answer["error"]["type"]) == (3, "UnknownGeneration")


def test_every_file_of_a_stage_is_named_where_it_is_refused(command: Command, own_folder: Path) -> None:
    (own_folder / "bad.wasm").write_bytes(b"\0asm\1\0\0\0\5")
    code, answer = command("stage", ECHO, "bad.wasm")
    assert (code, answer["error"]["type"]) == (3, "ModuleRejected")
    assert "bad.wasm" in answer["error"]["message"]


def test_a_store_at_something_else_is_the_stores_fault(command: Command, own_folder: Path) -> None:
    (own_folder / "file").write_text("x")
    assert command("tools", "--store", "file")[0] == 4
