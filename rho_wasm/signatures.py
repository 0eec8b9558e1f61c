"""What a Python function takes, as a pydantic model: the arguments by name, and which parameter takes the context."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

__all__ = ["arguments_model", "is_async"]


def is_async(function: Any) -> bool:
    """Whether calling ``function`` makes a coroutine (a callable object or a partial of one, too)."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def arguments_model(
    function: Callable[..., Any],
    *,
    context: type,
    what: str,
    strict: bool = False,
    field: Callable[[Any], Any] = lambda annotation: annotation,
) -> tuple[type[BaseModel], str | None]:
    """The model of the arguments, and the name of the parameter that is annotated ``context``.

    ``what`` is what messages call the function, ``field`` may put another annotation in an argument's place. Raises
    TypeError for a parameter that is not annotated or cannot be passed by name.
    """
    name = getattr(function, "__name__", what.rpartition(" ")[2])
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context_name: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{name}: {what}'s arguments come by name, so {parameter} cannot be one of them")
        if parameter.name not in hints:
            raise TypeError(f"{name}: the parameter {parameter.name!r} needs an annotation, the schema is made from it")
        annotation = hints[parameter.name]
        if annotation is context or context in typing.get_args(annotation):
            context_name = parameter.name
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (field(annotation), default)
    config = ConfigDict(extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=False, strict=strict)
    return create_model(f"{name}_arguments", __config__=config, **fields), context_name
