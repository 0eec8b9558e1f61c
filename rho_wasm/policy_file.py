"""Where in a policy's file a key stands, and refusals that say so.

The standard library's TOML reader forgets lines. They are found again line by line, which is exact for one key a line
and near enough for values that span several.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rho_wasm.errors import PolicyError, PolicyProblem
from rho_wasm.policy_grants import unknown_key
from rho_wasm.untrusted import inert

__all__ = ["PolicyFile"]

_MOST_PROBLEMS: Final = 10
_REASONS: Final = {
    "extra_forbidden": "policy_unknown_key",
    "unknown_bound": "policy_unknown_key",
    "unknown_limit": "policy_unknown_key",
    "unknown_capability": "policy_unknown_capability",
}


class PolicyFile:
    """``text`` as read from ``name``."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._lines: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(text.splitlines(), start=1):
            for path in _paths(line):
                if line.lstrip().startswith("["):
                    table = path
                else:
                    path = (*table, *path)
                for length in range(1, len(path) + 1):
                    self._lines.setdefault(path[:length], number)

    def line_of(self, key: Sequence[str]) -> int | None:
        """The line of ``key``, or of the nearest table around it; None if not even that was found."""
        for length in range(len(key), 0, -1):
            line = self._lines.get(tuple(key[:length]))
            if line is not None:
                return line
        return None

    def place(self, key: Sequence[str]) -> str:
        """The file and the line of ``key``, in words."""
        line = self.line_of(key)
        return f"{self.name}, line {line}" if line is not None else self.name

    def refusal(self, error: ValidationError, model: type[BaseModel]) -> PolicyError:
        """What is wrong, in the order of the file: an error that names file, line, key and what is allowed."""
        found = [
            self._problem(each, model)
            for each in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        found.sort(key=lambda problem: (problem.line is None, problem.line or 0))
        first = found[0]
        return PolicyError(
            str(first),
            reason=first.reason,
            source=self.name if first.line is None else f"{self.name}, line {first.line}",
            problems=found[:_MOST_PROBLEMS],
            more=max(0, len(found) - _MOST_PROBLEMS),
        )

    def _problem(self, error: ErrorDetails, model: type[BaseModel]) -> PolicyProblem:
        key = [str(step) for step in error["loc"] if step != "[key]"]
        if error["type"] == "extra_forbidden":
            words = unknown_key(key[-1], _fields(model, key[:-1]))
        elif error["type"] == "tuple_type":
            words = "should be a list"
        else:
            words = error["msg"].removeprefix("Value error, ")
        reason = _REASONS.get(error["type"], "policy_invalid")
        return PolicyProblem(reason, inert(".".join(key), limit=200), words, self.line_of(key))


def _paths(line: str) -> Iterator[tuple[str, ...]]:
    """The keys that one line of TOML sets, outer first."""
    try:
        yield from _flat(tomllib.loads(line))
    except tomllib.TOMLDecodeError:
        # The first line of a value that goes on: only its key counts.
        key, equals, _ = line.partition("=")
        if equals:
            try:
                yield from _flat(tomllib.loads(f"{key}=0"))
            except tomllib.TOMLDecodeError:
                return


def _flat(value: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from ((key, *rest) for rest in _flat(item))
        else:
            yield (key,)


def _fields(model: type[BaseModel], path: Sequence[str]) -> Iterator[str]:
    """The keys that the table at ``path`` may have."""
    kind: Any = model
    for step in path:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = kind.model_fields[step].annotation
        else:
            kind = get_args(kind)[1]
    yield from kind.model_fields
