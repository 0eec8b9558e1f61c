"""What holds for all adapters: those that need a package say which extra brings it, and the others need none."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from rho_wasm.adapters.anthropic import tools_to_anthropic
from rho_wasm.adapters.openai import tools_to_openai
from rho_wasm.adapters.openai_responses import tools_to_responses
from rho_wasm.registry import ToolRegistry
from tests.helpers import echo

PEERS = ("openai", "anthropic", "mcp", "mcp_types", "pydantic_ai", "langchain_core")


@pytest.mark.parametrize(
    ("adapter", "packages", "extra"),
    [
        ("pydantic_ai", ["pydantic_ai"], "pydantic-ai"),
        ("langchain", ["langchain_core", "langchain_core.runnables"], "langchain"),
    ],
)
def test_a_package_that_is_not_there_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, adapter: str, packages: list[str], extra: str
) -> None:
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"rho_wasm.adapters.{adapter}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'rho-wasm\[{extra}\]'"):
        import_module(f"rho_wasm.adapters.{adapter}")


def test_a_snapshot_of_a_registry_is_shown_as_its_tools_are() -> None:
    tools = [echo("a"), echo("b")]
    snapshot = ToolRegistry(tools).snapshot()
    for shown in (tools_to_openai, tools_to_responses, tools_to_anthropic):
        assert shown(snapshot) == shown(tools) == shown(iter(tools))


@pytest.mark.slow
def test_the_adapters_of_shapes_import_no_package() -> None:
    names = ", ".join(f"rho_wasm.adapters.{name}" for name in ("openai", "openai_responses", "anthropic", "mcp"))
    script = f"import sys, {names}; print([name for name in {PEERS} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
