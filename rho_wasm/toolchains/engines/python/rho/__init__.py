"""Tools for a model, in Python.

    from rho import tool

    @tool
    def greet(name: str, times: int = 1) -> list[str]:
        "Greets somebody."
        return [f"Hello {name}"] * times

What a tool returns is its answer; :class:`Ok`, :class:`Failed`, :class:`AskUser` and :class:`Halt` say more.
"""

from __future__ import annotations

from ._answers import AskUser, Failed, Halt, Image, Ok
from ._context import Context
from ._host import HostError, host, log, progress
from ._options import DeclarationError
from ._tools import Registry

__all__ = [
    "AskUser",
    "Context",
    "DeclarationError",
    "Failed",
    "Halt",
    "HostError",
    "Image",
    "Ok",
    "host",
    "log",
    "progress",
    "tool",
]

_registry = Registry()
tool = _registry.tool
