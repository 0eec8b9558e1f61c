"""``serve mcp``: what it refuses to start with, and that it says where it serves."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from rho_wasm.cli.output import UsageProblem
from rho_wasm.cli.serve import TOKEN_VARIABLE, InertFormatter, client_token
from rho_wasm.cli.signals import until_signal
from tests.cli.conftest import Command

TOKEN = "0123456789abcdef" * 2


def test_it_has_help_that_names_the_ways_to_serve(told: Callable[..., tuple[int, str]]) -> None:
    code, text = told("serve", "mcp", "--help")
    assert code == 0
    assert all(option in text for option in ("--http", "--eager", "--token-file", "--store", "--json"))


def test_an_address_that_others_reach_is_refused_without_a_token(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    code, told = command("serve", "mcp", "--http", "--host", "0.0.0.0", "--port", "0")
    assert (code, told["error"]["reason"]) == (2, "usage")
    assert "need a token of at least 32 characters" in told["error"]["message"]


def test_a_language_of_a_workshop_without_the_workshop_is_wrong_usage(command: Command) -> None:
    code, told = command("serve", "mcp", "--workshop-language", "wat")
    assert (code, told["error"]["reason"]) == (2, "usage")
    assert "--workshop-language is for --workshop" in told["error"]["message"]


@pytest.mark.parametrize("token", ["", "x" * 31, " ".join("ab" * 20), "é" * 40])
def test_a_token_that_could_be_guessed_or_not_sent_is_refused_and_not_shown(tmp_path: Path, token: str) -> None:
    file = tmp_path / "token"
    file.write_text(token + "\n")
    with pytest.raises(UsageProblem, match="at least 32 printable") as caught:
        client_token(file)
    assert not token or token not in str(caught.value)


def test_a_token_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert client_token(None) is None
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert client_token(None) == TOKEN
    (tmp_path / "token").write_text(TOKEN[::-1] + "\n")
    assert client_token(tmp_path / "token") == TOKEN[::-1]
    monkeypatch.setenv(TOKEN_VARIABLE, "short")
    with pytest.raises(UsageProblem, match=TOKEN_VARIABLE):
        client_token(None)


def test_what_is_logged_is_one_inert_line() -> None:
    try:
        raise ValueError("\x1b[2J\n")
    except ValueError as error:
        raised = (type(error), error, error.__traceback__)
    record = logging.LogRecord("mcp", logging.WARNING, __file__, 1, "Invalid Host header: %s", ("e\x1b[2J",), raised)
    assert InertFormatter().format(record) == (
        "rho-wasm: warning: Invalid Host header: e\\x1b[2J: ValueError: \\x1b[2J\\n"
    )


def test_what_cannot_be_served_at_is_named(command: Command) -> None:
    code, told = command("serve", "mcp", "--http", "--host", "no such host")
    assert (code, told["error"]["reason"]) == (2, "usage")
    assert told["error"]["message"].startswith("no such host port 8765: ")
    assert command("serve", "mcp", "--http", "--policy", "missing.toml")[0] == 3
    code, told = command("serve", "mcp", "--port", "0")
    assert (code, "are for --http" in told["error"]["message"]) == (2, True)


@pytest.mark.anyio
async def test_a_signal_is_waited_for_before_anything_is_told() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with anyio.create_task_group() as group:
        await group.start(until_signal, group.cancel_scope)
        assert signal.getsignal(signal.SIGTERM) != before
        group.cancel_scope.cancel()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.slow
def test_over_http_it_says_where_it_serves_and_ends_at_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rho_wasm.cli", "serve", "mcp", "--http", "--port", "0", "--json"]
    environment = {**os.environ, TOKEN_VARIABLE: TOKEN}
    with subprocess.Popen(
        [*command, "--store", str(tmp_path / "store")], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert (told["serving"], told["token"]) == ("mcp", True)
        assert TOKEN not in json.dumps(told)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(told["url"], timeout=60)
        assert caught.value.code == 401
        caught.value.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
