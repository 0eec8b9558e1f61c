"""``rho-wasm tools --format``: what a model would be offered, as its API is given it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rho_wasm import Tool
from rho_wasm.cli.app import run
from rho_wasm.cli.offered_tools import ToolFormat, print_offered
from rho_wasm.resources import fixture
from tests.cli.conftest import Command

ECHO = str(fixture("echo.wasm"))


def test_each_format_is_what_its_api_takes(command: Command) -> None:
    command("stage", ECHO)
    command("activate", "1")
    openai = command("tools", "--format", "openai")[1]["tools"]
    assert [each["function"]["name"] for each in openai] == ["echo", "read_artifact", "todo"]
    assert openai[0]["function"]["parameters"]["type"] == "object"
    anthropic = command("tools", "--format", "anthropic")[1]["tools"]
    assert [each["name"] for each in anthropic] == ["echo", "read_artifact", "todo"]
    assert anthropic[0]["input_schema"]["type"] == "object"
    mcp = command("tools", "--format", "mcp")[1]["tools"]
    assert [each["name"] for each in mcp] == ["echo", "read_artifact", "todo"]
    assert mcp[0]["inputSchema"]["type"] == "object"


def test_it_is_json_without_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tools", "--format", "anthropic"]) == 0
    captured = capsys.readouterr()
    assert [each["name"] for each in json.loads(captured.out)["tools"]] == ["read_artifact", "todo"]
    assert captured.err == ""


def test_a_store_that_was_named_has_to_be_there(command: Command, own_folder: Path) -> None:
    assert command("tools", "--format", "openai", "--store", "elsewhere")[0] == 2
    assert not (own_folder / "elsewhere").exists()
    assert not (own_folder / ".rho").exists()


def test_an_unknown_format_is_wrong_usage(command: Command) -> None:
    code, answer = command("tools", "--format", "gemini")
    assert (code, answer["error"]["reason"]) == (2, "usage")


def test_what_cannot_be_shown_as_it_is_is_said_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    odd = Tool(name="odd", description="", input_schema={"type": "object", "properties": {"no spaces": {}}})
    print_offered([odd], ToolFormat.ANTHROPIC)
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"tools": []}
    assert "odd cannot be shown as it is: Anthropic refuses the argument 'no spaces'" in captured.err
