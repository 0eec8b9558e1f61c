"""What tests of adapters share: tools, results, and validation of dicts against the types of the real packages."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest
from pydantic import TypeAdapter

from rho_wasm import AskUser, Failed, Halt, Image, Ok, Tool, ToolResult, tool

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
PICTURE = Image("image/png", PNG)


@tool(read_only=True)
def forecast(city: str, days: int = 1) -> Ok:
    """The weather of a city."""
    return Ok(f"{city}: rain for {days}", details={"station": 7})


@tool
def picture() -> Ok:
    """A picture."""
    return Ok("here it is", images=(PICTURE,))


@tool
def broken(city: str) -> Failed:
    """Reports a failure."""
    return Failed(f"no such city: {city}", details={"asked": city})


@tool
def crash() -> str:
    """Crashes."""
    raise RuntimeError("a bug")


@tool
def book(city: str) -> AskUser:
    """Books a trip."""
    return AskUser(f"Book {city}?", {"yes": "book it", "no": "leave it"})


@tool
def finish(summary: str) -> Halt:
    """Ends."""
    return Halt("done", {"summary": summary})


@tool(manual=True)
def pay(amount: int) -> str:
    """Pays: a person does it."""
    raise AssertionError("a manual tool does not run")


ALL = (forecast, picture, broken, crash, book, finish, pay)

STORED = Tool(
    name="stored",
    description="From before. " * 200,
    input_schema={
        "type": ["object", "null"],
        "properties": {"rows": {"type": "array"}, "any": True, "map": {"type": "object"}, "é": {"enum": [True]}},
        "oneOf": [{"required": ["rows"]}, {"properties": {"more": {"type": "array", "items": {"type": "array"}}}}],
    },
)
"""A tool with all that one API or another refuses, as an old store may have it."""


def result(text: str = "", **more: Any) -> ToolResult:
    return ToolResult(**{"call_id": "c1", "tool": "t", "status": "ok", "kind": "ok", "text": text} | more)


OBJECTS = pytest.mark.parametrize("objects", [False, pytest.param(True, marks=pytest.mark.slow)])
"""The package's own response objects, or what came over the wire. (Importing a package takes seconds.)"""


def peers(name: str) -> Any:
    """A type of a package, ``module:Name``, imported when a test asks for it."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def check(kind: str, value: Any, *, many: bool = False) -> None:
    """Fails unless ``value`` is what the package's type ``kind`` says, and has no key that this does not know."""
    wanted: Any = list[peers(kind)] if many else peers(kind)  # type: ignore[misc]
    adapter = TypeAdapter(wanted)  # What it validates later needs it alive.
    assert _whole(adapter.validate_python(value)) == value


def _whole(value: Any) -> Any:
    """``value`` with what pydantic validates only when it is read (an Iterable) read."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [_whole(item) for item in value]
    return value
