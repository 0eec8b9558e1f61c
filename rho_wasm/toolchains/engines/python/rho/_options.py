"""What ``@tool(...)`` is told beside its function, looked at where the author said it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._answers import answer

__all__ = ["DeclarationError", "options"]

_EXAMPLE = 'a map with "arguments" and "answer"'
_KINDS: dict[str, tuple[type, str]] = {
    "name": (str, "text"),
    "description": (str, "text"),
    "input_schema": (Mapping, "a map"),
    "output_schema": (Mapping, "a map"),
    "examples": (Iterable, f"a list, of which each is {_EXAMPLE}"),
    "timeout_ms": (int, "a whole number"),
    "read_only": (bool, "True or False"),
    "destructive": (bool, "True or False"),
    "idempotent": (bool, "True or False"),
    "metadata": (Mapping, "a map"),
    "capabilities": (Iterable, 'a list of names, like ["kv.get"]'),
}
_NOT_A_LIST = (str, bytes, bytearray, Mapping)
"""They can be gone through, and what comes is letters, numbers or keys."""
_CAPABILITY = re.compile(r"[^\s,]+")


class DeclarationError(TypeError):
    """A tool that cannot be declared so.

    ``function`` and ``parameter``, or ``option`` (a keyword of ``@tool``), say where in the source that is.
    """

    def __init__(
        self,
        why: str,
        *,
        function: Callable[..., Any] | None = None,
        parameter: str | None = None,
        option: str | None = None,
    ) -> None:
        super().__init__(why)
        self.function = function
        self.parameter = parameter
        self.option = option


def options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that say something, each of its kind: lists are new ones, and an example's answer is a map.

    Raises :class:`DeclarationError`.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _KINDS:
            raise DeclarationError(_unknown(name), option=name)
        if value is None:
            continue
        if not _fits(value, _KINDS[name][0]):
            raise _wrong(name, f"not {type(value).__name__}")
        if (each_of := _LISTS.get(name)) is not None:
            value = [each_of(each) for each in value]
            if not value:
                continue
        found[name] = value
    return found


def _fits(value: Any, kind: type) -> bool:
    if kind is Iterable:
        return isinstance(value, Iterable) and not isinstance(value, _NOT_A_LIST)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, _KINDS, n=1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return f"@tool has no option {name!r}{meant}; it has {', '.join(_KINDS)}"


def _wrong(name: str, why: str) -> DeclarationError:
    return DeclarationError(f"{name} is {_KINDS[name][1]}, {why}", option=name)


def _capability(name: Any) -> str:
    if not isinstance(name, str):
        raise _wrong("capabilities", f"and {type(name).__name__} is no name")
    if _CAPABILITY.fullmatch(name) is None:
        raise _wrong("capabilities", f"and {name!r:.80} is no name")
    return name


def _example(example: Any) -> dict[str, Any]:
    if not isinstance(example, Mapping) or not {"arguments", "answer"} <= example.keys():
        raise DeclarationError(f"an example is {_EXAMPLE}", option="examples")
    if not isinstance(example["arguments"], Mapping):
        why = f"an example's arguments are a map, not {type(example['arguments']).__name__}"
        raise DeclarationError(why, option="examples")
    found = dict(example)
    if not isinstance(found["answer"], Mapping):
        found["answer"] = answer(found["answer"])
    return found


_LISTS: dict[str, Callable[[Any], Any]] = {"examples": _example, "capabilities": _capability}
