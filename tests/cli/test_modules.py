"""``build``, ``inspect`` and ``call`` of a file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rho_wasm.cli.app import run
from rho_wasm.cli.output import Output
from rho_wasm.cli.results import show_result
from rho_wasm.resources import fixture
from rho_wasm.results import ToolResult
from rho_wasm.testing import asking_guest, guest
from rho_wasm.untrusted import unsafe_characters
from tests.cli.conftest import Command

ECHO = str(fixture("echo.wasm"))


def test_build_makes_the_module_that_the_fixture_is(command: Command, own_folder: Path) -> None:
    for name in ("echo.wat", "echo.manifest.json"):
        (own_folder / name).write_bytes(fixture(name).read_bytes())
    code, answer = command("build", "echo.wat")
    assert code == 0
    assert answer["file"] == "echo.wasm"
    assert (own_folder / "echo.wasm").read_bytes() == fixture("echo.wasm").read_bytes()
    assert answer["provenance"] == "built here"
    assert answer["tools"] == ["echo"]


def test_a_folder_is_built_into_itself_under_its_own_name(
    command: Command, told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    (own_folder / "echo").mkdir()
    for name in ("echo.wat", "echo.manifest.json"):
        (own_folder / "echo" / name).write_bytes(fixture(name).read_bytes())
    code, answer = command("build", "echo", "--no-snapshot")
    assert (code, answer["file"], answer["language"]) == (0, "echo/echo.wasm", "wat")
    assert answer["exports"] == ["memory", "rho_alloc", "rho_call"]
    assert answer["manifest"]["tools"][0]["name"] == "echo"
    assert command("call", "echo", "echo", "-a", '{"text": "a"}')[1]["status"] == "ok"
    assert command("call", "echo")[1]["error"]["message"] == "name a tool of echo: echo"
    code, text = told("build", "echo/echo.wat")
    assert code == 0
    for word in ("building echo/echo.wat: compiling", "exports  memory", "echo: Answers its arguments", "2 examples"):
        assert word in text


def test_a_folder_of_several_languages_says_what_to_choose(command: Command, own_folder: Path) -> None:
    (own_folder / "both").mkdir()
    for name in ("a.wat", "b.c"):
        (own_folder / "both" / name).write_text("x")
    code, answer = command("build", "both")
    assert (code, answer["error"]["reason"]) == (2, "language_unknown")
    for word in ("a.wat (wat)", "b.c (c)", "--language"):
        assert word in answer["error"]["message"]


def test_a_build_that_fails_writes_nothing_and_names_line_and_column(command: Command, own_folder: Path) -> None:
    (own_folder / "bad.wat").write_text("(module\n  (func (exprot)))")
    (own_folder / "bad.manifest.json").write_bytes(fixture("echo.manifest.json").read_bytes())
    code, answer = command("build", "bad.wat")
    assert code == 3
    assert answer["error"]["type"] == "BuildError"
    assert answer["error"]["diagnostics"][0]["line"] == 2
    assert not (own_folder / "bad.wasm").exists()


def test_build_says_which_manifest_is_missing(command: Command, own_folder: Path) -> None:
    (own_folder / "lone.wat").write_text("(module)")
    code, answer = command("build", "lone.wat")
    assert (code, answer["error"]["reason"]) == (3, "manifest_missing")
    assert "lone.manifest.json" in answer["error"]["message"]


@pytest.mark.parametrize("name", ["nothing.wat", "nothing.txt", "nothing.wasm"])
def test_a_file_that_is_not_there_is_wrong_usage(command: Command, name: str) -> None:
    code, answer = command("stage", name)
    assert (code, answer["error"]["reason"]) == (2, "usage")
    assert name in answer["error"]["message"]


def test_an_output_that_cannot_be_written_leaves_no_part_of_it(command: Command, own_folder: Path) -> None:
    for name in ("echo.wat", "echo.manifest.json"):
        (own_folder / name).write_bytes(fixture(name).read_bytes())
    (own_folder / "taken").mkdir()
    code, answer = command("build", "echo.wat", "-o", "taken")
    assert (code, answer["error"]["reason"]) == (2, "usage")
    assert sorted(path.name for path in own_folder.iterdir()) == ["echo.manifest.json", "echo.wat", "taken"]


def test_inspect_tells_what_a_module_is_without_running_it(command: Command) -> None:
    code, answer = command("inspect", str(fixture("log_flood.wasm")))
    assert code == 0
    assert answer["accepted"] is True
    assert answer["imports"] == ["rho.log"]
    assert set(answer["exports"]) >= {"memory", "rho_alloc", "rho_call"}
    assert answer["manifest"]["tools"][0]["name"] == "log_flood"
    assert sum(section["bytes"] for section in answer["sections"]) + 8 == answer["bytes"]


def test_inspect_tells_functions_memory_and_what_is_asked_for(
    command: Command, told: Callable[..., tuple[int, str]]
) -> None:
    answer = command("inspect", str(fixture("word_count.wasm")))[1]
    sizes = [each["bytes"] for each in answer["functions"]]
    assert sizes == sorted(sizes, reverse=True)
    assert answer["functions"][0]["name"] == "rho_call"
    assert answer["function_count"] > 10
    assert (answer["memory_max_bytes"], answer["image"], answer["standalone_of"]) == (None, None, None)
    text = told("inspect", str(fixture("host_calls.wasm")))[1]
    assert "may ask for  clock.now" in text
    assert "the largest of" in text
    assert "stands alone" in text


def test_inspect_of_a_module_that_no_host_takes_says_why_and_ends_with_three(
    command: Command, told: Callable[..., tuple[int, str]]
) -> None:
    code, answer = command("inspect", str(fixture("foreign_import.wasm")))
    assert code == 3
    assert answer["error"]["reason"] == "import_forbidden"
    assert answer["manifest"]["tools"]
    code, text = told("inspect", str(fixture("foreign_import.wasm")))
    assert code == 3
    assert "import_forbidden" in text


def test_inspect_of_something_else_is_refused(command: Command, own_folder: Path) -> None:
    (own_folder / "text.wasm").write_text("(module)")
    code, answer = command("inspect", "text.wasm")
    assert (code, answer["error"]["reason"]) == (3, "header")


def test_call_of_a_file_prints_the_result_as_one_object(command: Command) -> None:
    code, answer = command("call", ECHO, "echo", "--arguments", '{"text": "a b"}')
    assert code == 0
    assert (answer["status"], answer["kind"], answer["reason"]) == ("ok", "ok", None)
    assert {"text", "value", "options", "details", "images"} <= set(answer)
    assert {"fuel_used", "duration_ms", "generation", "log"} <= set(answer)
    assert answer["fuel_used"] > 0


def test_arguments_come_from_a_file_and_from_standard_input(
    command: Command, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_folder / "arguments.json").write_text('{"text": "from a file"}')
    assert command("call", ECHO, "echo", "-a", "@arguments.json")[0] == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "from stdin"}')))
    assert command("call", ECHO, "echo", "-a", "-")[0] == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"no JSON")))
    assert command("call", ECHO, "echo", "--text", "text=-")[1]["value"] == {"text": "no JSON"}


@pytest.mark.parametrize("given", ["{", "[1]", "3", "@missing.json", ""])
def test_arguments_that_are_no_json_object_are_wrong_usage(command: Command, given: str) -> None:
    code, answer = command("call", ECHO, "echo", "--arguments", given)
    assert (code, answer["error"]["reason"]) == (2, "usage")


def test_a_tool_that_the_module_does_not_have_names_those_that_it_has(command: Command) -> None:
    code, answer = command("call", ECHO, "other")
    assert code == 2
    assert "echo" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("name", "reason"), [("trap", "trapped"), ("spin", "out_of_fuel"), ("tagged", "bad_answer"), ("fail", "failed")]
)
def test_a_call_that_fails_ends_with_one_and_its_reason(
    command: Command, own_folder: Path, name: str, reason: str
) -> None:
    # Little fuel, so that a busy machine does not reach the deadline first.
    (own_folder / "policy.toml").write_text('[tools."*"]\nlimits = { fuel = 10_000_000 }\n')
    code, answer = command("call", str(fixture(f"{name}.wasm")), name, "--policy", "policy.toml")
    assert (code, answer["status"], answer["reason"]) == (1, "error", reason)


@pytest.mark.parametrize(("name", "status"), [("ask", "ask_user"), ("halt", "halt")])
def test_a_question_and_a_halt_are_no_failures(command: Command, name: str, status: str) -> None:
    code, answer = command("call", str(fixture(f"{name}.wasm")), name)
    assert (code, answer["status"]) == (0, status)


def test_a_module_whose_tool_has_a_core_name_can_be_called_as_a_file(command: Command) -> None:
    code, answer = command("call", str(fixture("core_name.wasm")), "read_artifact", "-a", '{"id": "x"}')
    assert (code, answer["status"]) == (0, "ok")


def test_calls_of_a_file_never_strike_and_leave_nothing_behind(command: Command, own_folder: Path) -> None:
    for _ in range(4):
        assert command("call", str(fixture("trap.wasm")), "trap")[1]["reason"] == "trapped"
    assert list(own_folder.iterdir()) == []


def test_a_policy_that_cannot_be_read_refuses_the_call(command: Command, own_folder: Path) -> None:
    (own_folder / "policy.toml").write_text("[gates]\non = ['telepathy']\n")
    code, answer = command("call", ECHO, "echo", "--policy", "policy.toml")
    assert (code, answer["error"]["type"]) == (3, "PolicyError")


def test_a_policy_lowers_a_limit_of_a_call(command: Command, own_folder: Path) -> None:
    (own_folder / "policy.toml").write_text("[tools.spin]\nlimits = { fuel = 1_000_000 }\n")
    code, answer = command("call", str(fixture("spin.wasm")), "spin", "--policy", "policy.toml")
    assert (code, answer["reason"]) == (1, "out_of_fuel")
    assert answer["fuel_used"] <= 1_000_000


HOSTILE = "\x1b[31mred\x1b]0;title\x07\u202e\x9b2J\x7f\U000e0041\nok  1 fuel, generation 7"


def hostile_guest() -> bytes:
    """Everything that a guest may put into words, put badly."""
    declaration = {
        "name": "t",
        "description": "Fine.\n  built here: c, ziglang\n  may ask for: nothing\nsha256 0000",
        "input_schema": {
            "type": "object",
            "properties": {"x": {"enum": ["x\na host would take it"]}},
        },
    }
    return guest(declaration, answer={"ok": HOSTILE, "details": {HOSTILE: HOSTILE}}).wasm


def test_output_for_a_person_holds_no_escape_of_a_guest(told: Callable[..., tuple[int, str]], own_folder: Path) -> None:
    (own_folder / "t.wasm").write_bytes(hostile_guest())
    for verb in (["call", "t.wasm", "t"], ["inspect", "t.wasm"], ["stage", "t.wasm"], ["approve", "1", "--yes"]):
        code, printed = told(*verb)
        assert code == 0, printed
        assert unsafe_characters(printed) is None, printed
        assert not any(line.startswith(("sha256 0000", "a host would take it  ")) for line in printed.splitlines())


def test_a_reviewer_is_never_shown_a_guests_words_as_the_hosts(
    told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    (own_folder / "t.wasm").write_bytes(hostile_guest())
    told("stage", "t.wasm")
    _, printed = told("approve", "1", "--yes")
    lines = printed.splitlines()
    assert [line for line in lines if "built here" in line] == ["    >   built here: c, ziglang"]
    assert any(line.startswith("  claimed: ") for line in lines)
    _, printed = told("inspect", "t.wasm")
    assert [line for line in printed.splitlines() if line == "a host would take it"] == ["a host would take it"]


def test_standard_output_is_the_tools_text_alone(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own_folder / "t.wasm").write_bytes(hostile_guest())
    capsys.readouterr()
    assert run(["call", "t.wasm", "t"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == "ok  1 fuel, generation 7"
    assert "fuel" in captured.err
    assert not any(line.startswith("ok  1 fuel") for line in captured.err.splitlines())


def test_json_holds_no_character_that_a_terminal_obeys(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own_folder / "t.wasm").write_bytes(hostile_guest())
    capsys.readouterr()
    assert run(["call", "t.wasm", "t", "--json"]) == 0
    printed = capsys.readouterr().out
    assert unsafe_characters(printed.rstrip("\n")) is None
    assert json.loads(printed)["value"] == HOSTILE


def test_a_file_can_be_one_argument(command: Command, own_folder: Path) -> None:
    (own_folder / "a b.txt").write_text('one "line"\nand \xe9', encoding="utf-8")
    code, answer = command("call", ECHO, "echo", "-a", '{"n": 1}', "--text", "text=a b.txt")
    assert (code, answer["value"]) == (0, {"n": 1, "text": 'one "line"\nand \xe9'})


@pytest.mark.parametrize("given", ["text", "=a.txt", "text=", "text=missing.txt"])
def test_a_file_that_cannot_be_an_argument_is_wrong_usage(command: Command, given: str) -> None:
    code, answer = command("call", ECHO, "echo", "--text", given)
    assert (code, answer["error"]["reason"]) == (2, "usage")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["-a", "-", "--text", "text=-"], "standard input is read once"),
        (["--text", "a=-", "--text", "b=-"], "standard input is read once"),
        (["-a", '{"text": "x"}', "--text", "text=a.txt"], "the argument 'text' is given twice"),
        (["--text", "text=a.txt", "--text", "text=a.txt"], "the argument 'text' is given twice"),
        (["--text", "text=latin.txt"], "latin.txt: is not UTF-8 (byte 4 is not)"),
        (["-a", "@latin.txt"], "latin.txt: is not UTF-8 (byte 4 is not)"),
        (["--text", "text=-"], "standard input: is not UTF-8 (byte 1 is not)"),
    ],
)
def test_an_argument_that_is_given_twice_or_is_no_text_is_wrong_usage(
    command: Command, own_folder: Path, monkeypatch: pytest.MonkeyPatch, line: list[str], words: str
) -> None:
    (own_folder / "a.txt").write_text("a")
    (own_folder / "latin.txt").write_bytes(b"caf\xe9")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    code, answer = command("call", ECHO, "echo", *line)
    assert (code, answer["error"]["reason"]) == (2, "usage")
    assert words in answer["error"]["message"]


def test_a_call_of_a_file_without_a_tool_means_its_only_one_or_names_them(
    command: Command, told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    for file in (ECHO, str(fixture("echo.wat"))):
        code, answer = command("call", file, "-a", '{"text": "a"}')
        assert (code, answer["value"]) == (0, {"text": "a"})
    assert f"echo is the one tool of {ECHO}\n" in told("call", ECHO)[1]
    (own_folder / "two.wasm").write_bytes(guest("one", "two").wasm)
    code, answer = command("call", "two.wasm")
    assert (code, answer["error"]["message"]) == (2, "name a tool of two.wasm: one, two")


@pytest.mark.slow
def test_a_call_of_a_file_has_the_core_tools_of_a_host(command: Command, own_folder: Path) -> None:
    (own_folder / "p.toml").write_text("[tools.outer.grants]\n'tool.call' = { tools = ['todo', 'inner'] }\n")
    (own_folder / "outer.wasm").write_bytes(asking_guest("outer", "tool.call").wasm)
    code, answer = command("call", "outer.wasm", "-a", '{"name": "todo"}', "--policy", "p.toml")
    assert (code, list(answer["value"]["ok"])) == (0, ["value"])
    code, answer = command("call", "outer.wasm", "-a", '{"name": "inner"}', "--policy", "p.toml")
    assert (code, answer["value"]["error"]["kind"]) == (0, "denied")
    assert [line["text"] for line in answer["log"]["lines"]] == ["tool.call: no tool called inner is offered here"]


@pytest.mark.slow
def test_a_wrong_name_of_a_capability_is_warned_of_where_a_module_is_made_or_looked_at(
    command: Command, told: Callable[..., tuple[int, str]], own_folder: Path
) -> None:
    words = "no capability that ships is called kv.gett; did you mean 'kv.get'?"
    (own_folder / "ask.wasm").write_bytes(asking_guest("ask", "kv.gett", declared=["kv.gett", "own.thing"]).wasm)
    manifest = json.loads(fixture("echo.manifest.json").read_text()) | {"capabilities": ["kv.gett"]}
    (own_folder / "echo.wat").write_bytes(fixture("echo.wat").read_bytes())
    (own_folder / "echo.manifest.json").write_text(json.dumps(manifest))
    for verb in (["inspect", "ask.wasm"], ["build", "echo.wat"], ["stage", "ask.wasm"]):
        assert command(*verb)[1]["warnings"] == [words]
        assert f"warning: {words}\n" in told(*verb)[1]
    assert command("inspect", ECHO)[1]["warnings"] == []


def test_a_build_writes_over_no_file_that_is_no_module(command: Command, own_folder: Path) -> None:
    source = own_folder / "echo.wat"
    source.write_bytes(fixture("echo.wat").read_bytes())
    (own_folder / "echo.manifest.json").write_bytes(fixture("echo.manifest.json").read_bytes())
    code, answer = command("build", "echo.wat", "-o", "echo.wat")
    assert code == 2
    assert "--out" in answer["error"]["message"]
    assert source.read_bytes() == fixture("echo.wat").read_bytes()
    assert [command("build", "echo.wat")[0], command("build", "echo.wat")[0]] == [0, 0]  # A module it may.


def test_a_language_that_is_unknown_is_wrong_usage(command: Command, own_folder: Path) -> None:
    (own_folder / "x.rb").write_text("puts 1")
    assert command("build", "x.rb")[0] == 2
    assert command("build", "x.rb", "--language", "ruby")[0] == 2


def test_arguments_that_nest_without_end_are_wrong_usage(command: Command, own_folder: Path) -> None:
    (own_folder / "deep.json").write_text("[" * 100_000)
    assert command("call", ECHO, "echo", "-a", "@deep.json")[0] == 2


def test_an_invalid_module_is_refused_by_inspect_and_call_alike(command: Command, own_folder: Path) -> None:
    valid = fixture("echo.wasm").read_bytes()
    invalid = valid.replace(b"\x20\x00", b"\x20\x7f", 1)  # a local that is not there
    assert invalid != valid
    (own_folder / "bad.wasm").write_bytes(invalid)
    for verb in (["inspect", "bad.wasm"], ["call", "bad.wasm", "echo"]):
        code, answer = command(*verb)
        assert (code, answer["error"]["type"], answer["error"]["reason"]) == (3, "ModuleRejected", "invalid")


def test_help_of_call_says_which_files_it_takes(told: Callable[..., tuple[int, str]]) -> None:
    code, text = told("call", "--help")
    assert code == 0
    assert "{TOOL|FILE} [TOOL_OF_FILE]" in text
    for suffix in (".wasm", ".py", ".js", ".ts", ".c", ".wat"):
        assert suffix in text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("ask", 'options: {"y": "yes", "n": "no"}'),
        ("halt", "reason: all done"),
        ("image", "image: image/png, 69 bytes"),
    ],
)
def test_a_person_is_shown_what_stands_beside_the_text(
    told: Callable[..., tuple[int, str]], name: str, line: str
) -> None:
    code, text = told("call", str(fixture(f"{name}.wasm")), name)
    assert code == 0
    assert f"    {line}\n" in text


def test_details_are_shown_in_one_line_inert_and_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    details = {"\x1b[2J": ["\u202e\n" * 5_000]}
    result = ToolResult(call_id="1", tool="t", status="ok", kind="ok", text="done", details=details)
    assert show_result(Output(as_json=False), result) == 0
    captured = capsys.readouterr()
    assert captured.out == "done\n"
    _, line, end = captured.err.split("\n")
    assert line.startswith("    details: ")
    assert line.isprintable()
    assert end == ""
    assert len(line) < 2_100


@pytest.mark.parametrize("suffix", [".py", ".js", ".ts", ".c", ".wat"])
def test_inspect_of_a_source_says_how_to_build_it(command: Command, own_folder: Path, suffix: str) -> None:
    (own_folder / f"t{suffix}").write_text("")
    code, answer = command("inspect", f"t{suffix}")
    assert (code, answer["error"]["reason"]) == (2, "usage")
    assert f"rho-wasm build t{suffix}" in answer["error"]["message"]
