"""Helpers for tests of code that uses rho_wasm, and for our own: a source in your hand, a clock that stands still."""

from __future__ import annotations

from collections.abc import Sequence

from rho_wasm.calls import RunningCall
from rho_wasm.tools import Tool

__all__ = ["FakeSource", "FixedClock"]


class FakeSource:
    """A source whose tools are what you set, that fails when told to, and that counts what it was asked.

    ``failing`` holds the operations (``list``, ``lookup``, ``watch``, ``version``) that raise ``error``. ``watched``
    are the calls that it was told of. ``versioned`` gives it a ``version`` that moves with every change of ``tools``.
    """

    def __init__(self, *tools: Tool, name: str = "fake", versioned: bool = False) -> None:
        self.name = name
        self.error: Exception = RuntimeError("told to fail")
        self.failing: set[str] = set()
        self.asked: dict[str, int] = {"list": 0, "lookup": 0, "watch": 0}
        self.watched: list[RunningCall] = []
        self._version = 1 if versioned else None
        self._tools: dict[str, Tool] = {tool.name: tool for tool in tools}

    @property
    def version(self) -> int | None:
        if "version" in self.failing:
            raise self.error
        return self._version

    def set(self, *tools: Tool) -> None:
        """Its tools from now on."""
        self._tools = {tool.name: tool for tool in tools}
        if self._version is not None:
            self._version += 1

    def list(self) -> Sequence[Tool]:
        self._ask("list")
        return tuple(self._tools.values())

    def lookup(self, name: str) -> Tool | None:
        self._ask("lookup")
        return self._tools.get(name)

    def watch(self, call: RunningCall) -> None:
        self._ask("watch")
        self.watched.append(call)

    def _ask(self, operation: str) -> None:
        self.asked[operation] += 1
        if operation in self.failing:
            raise self.error


class FixedClock:
    """A clock for whatever takes ``now: () -> seconds``: it stands still until it is told to move."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Moves on by ``seconds``, which is not negative: clocks of hosts do not run backwards."""
        if seconds < 0:
            raise ValueError("a clock does not run backwards")
        self.now += seconds
