"""Everything that a policy can say, as one TOML file with comments: made of the models, so that it is what they are."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rho_wasm.grants import BOUNDS
from rho_wasm.limits import Limits
from rho_wasm.policy import Policy
from rho_wasm.secret_policy import SecretPolicy
from rho_wasm.toml_text import toml_key, toml_text

__all__ = ["policy_example"]

_WIDTH: Final = 110
_ROLE: Final = re.compile(r":[a-z]+:`[~.]?([^`]*)`")
_ASIDE: Final = re.compile(r" \(:[a-z]+:`[^`]*`\)")
_HEAD: Final = """\
Everything that a policy can say. What stands here for the whole host is what holds without a policy; what stands
for the tool example_tool are the defaults of each limit and bound, where there are any. Leave out what you do not
need, above all grants: what a policy does not grant is denied, and an empty list means none.
"""
_TOOLS: Final = """\
For tools of one name, or of a prefix that ends in * (and "*" is every tool). The most specific name that says
something about a limit decides it; the grants of the most specific one that has any are all that a tool has.
"""
_SAMPLES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "hosts": ("https://api.example.com/v1",),
        "folders": {"reports": "/srv/reports"},
        "tools": ("local_time", "weather_*"),
        "secrets": ("api_key",),
        "kinds": ("trapped", "out_of_fuel"),
        "origin": "https://api.example.com",
        "env": "API_KEY",
        "file": "/run/secrets/api_key",
    }
)
"""Of what has no default that would say anything."""
_INSTEAD: Final = frozenset({"kinds", "file"})
"""Samples that would change a default, or stand where another one does."""


def policy_example() -> str:
    """The file's text. Nothing in it is granted to a tool but ``example_tool``."""
    words = _Words()
    blocks = ["\n".join(_comment(_HEAD))]
    for name, field in Policy.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            blocks.append(_table(words, name, field.annotation))
    blocks.append(_table(words, "secrets.api_key", SecretPolicy))
    limits = _table(words, "tools.example_tool.limits", Limits)
    blocks.append("\n".join([*_comment(_TOOLS), limits]))
    grants = [f"{toml_key(name)} = {{}}" for name, bounds in BOUNDS.items() if not bounds.model_fields]
    blocks.append("\n".join(["[tools.example_tool.grants]", *grants]))
    for name, bounds in BOUNDS.items():
        if bounds.model_fields:
            blocks.append(_table(words, f"tools.example_tool.grants.{toml_key(name)}", bounds))
    return "\n\n".join(blocks) + "\n"


def _table(words: _Words, name: str, model: type[BaseModel]) -> str:
    told = words.of(model)
    lines = [*_comment(inspect.cleandoc(model.__doc__ or "")), f"[{name}]"]
    for key, field in model.model_fields.items():
        said = " ".join(filter(None, (told.get(key, ""), _allowed(field))))
        value = _SAMPLES[key] if key in _SAMPLES else field.get_default()
        lines += [*_comment(said), f"{'# ' if key in _INSTEAD else ''}{key} = {toml_text(value)}"]
    return "\n".join(lines)


def _comment(text: str) -> Iterator[str]:
    plain = _ROLE.sub(lambda found: found[1].rpartition(".")[2], _ASIDE.sub("", text)).replace("``", "")
    for paragraph in plain.split("\n\n"):
        for line in textwrap.wrap(" ".join(paragraph.split()), _WIDTH, break_long_words=False, break_on_hyphens=False):
            yield f"# {line}"


def _allowed(field: FieldInfo) -> str:
    """What may stand there, as far as the model says it in numbers or words."""
    if get_origin(field.annotation) is Literal:
        return f"One of {', '.join(map(toml_text, get_args(field.annotation)))}."
    bounds = {
        name: f"{value:,}"
        for constraint in field.metadata
        for name in ("ge", "gt", "le")
        if (value := getattr(constraint, name, None)) is not None
    }
    if "ge" in bounds and "le" in bounds:
        return f"({bounds['ge']} to {bounds['le']})"
    words = {"ge": "at least", "gt": "more than", "le": "at most"}
    said = ", ".join(f"{words[name]} {bound}" for name, bound in bounds.items())
    return f"({said})" if said else ""


class _Words:
    """What the sources say below each field of models; nothing where there are no sources."""

    def __init__(self) -> None:
        self._of_modules: dict[str, dict[str, dict[str, str]]] = {}

    def of(self, model: type[BaseModel]) -> dict[str, str]:
        told: dict[str, str] = {}
        for kind in reversed(model.__mro__):
            if kind.__module__ not in self._of_modules and issubclass(kind, BaseModel) and kind is not BaseModel:
                self._of_modules[kind.__module__] = _of_module(kind.__module__)
            told |= self._of_modules.get(kind.__module__, {}).get(kind.__name__, {})
        return told


def _of_module(name: str) -> dict[str, dict[str, str]]:
    """By class and field."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (OSError, SyntaxError):
        return {}
    return {each.name: dict(_of_class(each)) for each in tree.body if isinstance(each, ast.ClassDef)}


def _of_class(kind: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in itertools.pairwise(kind.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            yield field.target.id, inspect.cleandoc(str(ast.literal_eval(text.value)))
