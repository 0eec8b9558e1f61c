"""The core tools that ship: ``read_artifact`` pages a text that was cut, ``todo`` keeps a session's list."""

from __future__ import annotations

from rho_wasm.builtin.outputs import MemoryOutputs, Outputs
from rho_wasm.builtin.read_artifact import read_artifact
from rho_wasm.builtin.todo import todo
from rho_wasm.tools import Tool

__all__ = ["MemoryOutputs", "Outputs", "builtin_tools", "read_artifact", "todo"]


def builtin_tools() -> list[Tool]:
    """New ``read_artifact`` and ``todo`` tools; each ``todo`` keeps lists of its own."""
    return [read_artifact(), todo()]
