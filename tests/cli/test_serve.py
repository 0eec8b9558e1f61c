"""``serve mcp``: what it refuses to start with, and that it says where it serves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cli.conftest import Command

TOKEN = "0123456789abcdef" * 2


def test_an_address_that_others_reach_is_refused_without_a_token(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RHO_WASM_MCP_TOKEN", raising=False)
    code, told = command("serve", "mcp", "--http", "--host", "0.0.0.0", "--port", "0")
    assert (code, told["error"]["reason"]) == (2, "usage")
    assert "need a token of at least 32 characters" in told["error"]["message"]


@pytest.mark.parametrize("token", ["", "short", "x" * 31, " ".join("ab" * 20), "é" * 40])
def test_a_token_that_could_be_guessed_or_not_sent_is_refused_and_not_shown(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    file = tmp_path / "token"
    file.write_text(token + "\n")
    monkeypatch.setenv("RHO_WASM_MCP_TOKEN", token)
    for more in (["--token-file", str(file)], []):
        code, told = command("serve", "mcp", "--http", "--port", "0", *more)
        assert (code, told["error"]["reason"]) == (2, "usage")
        assert "at least 32 printable" in told["error"]["message"]
        assert not token or token not in told["error"]["message"]


def test_what_cannot_be_served_at_is_named(command: Command) -> None:
    code, told = command("serve", "mcp", "--http", "--host", "no such host")
    assert (code, told["error"]["reason"]) == (2, "usage")
    assert told["error"]["message"].startswith("no such host port 8765: ")
    assert command("serve", "mcp", "--http", "--policy", "missing.toml")[0] == 3


@pytest.mark.slow
def test_over_http_it_says_where_it_serves_and_ends_at_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rho_wasm.cli", "serve", "mcp", "--http", "--port", "0", "--json"]
    environment = {**os.environ, "RHO_WASM_MCP_TOKEN": TOKEN}
    with subprocess.Popen(
        [*command, "--store", str(tmp_path / "store")], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert (told["serving"], told["token"]) == ("mcp", True)
        assert TOKEN not in json.dumps(told)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(told["url"], timeout=20)
        assert caught.value.code == 401
        caught.value.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
