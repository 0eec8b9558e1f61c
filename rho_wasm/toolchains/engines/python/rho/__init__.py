"""Tools for a model, in Python.

    from rho import tool

    @tool
    def greet(name: str, times: int = 1) -> list[str]:
        "Greets somebody."
        return [f"Hello {name}"] * times

What a tool returns is its answer; :class:`Ok`, :class:`Failed`, :class:`AskUser` and :class:`Halt` say more.
"""

from __future__ import annotations

from typing import Any

from ._answers import AskUser, Failed, Halt, Image, Ok
from ._context import Context
from ._host import HostError, host, log, progress
from ._options import DeclarationError
from ._tools import Registry
from ._trace import network

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


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no {name!r}{network(name)}", name=name)


_registry = Registry()
tool = _registry.tool
