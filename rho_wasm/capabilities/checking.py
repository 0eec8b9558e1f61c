"""What a guest gave to a capability, held to the model of its arguments: bounded first, since nothing interrupts that.

pydantic keeps the interpreter lock for all of one validation, and makes an error of each item that is wrong: 50,000
unknown arguments took 120 ms, in whichever thread. So names are compared with the model's first, and what it would look
into is counted.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Union

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rho_wasm.counting import items_of
from rho_wasm.errors import CapabilityError
from rho_wasm.spelling import Enough, Looks, near_ones
from rho_wasm.untrusted import inert

__all__ = ["TYPED_ITEMS", "ArgumentsCheck", "problem_text"]

TYPED_ITEMS: Final = 10_000
"""Of all arguments together whose items have a type; the worst take 20 ms. One that is ``Any``, or a list or a map of
``Any``, may have as many as a request has."""
_TOLD_PROBLEMS: Final = 100
"""So many are looked through for the first of them."""
_NEAR_LOOKS: Final = 80
"""For what a guest meant, which may ask again and again: some 0.3 ms."""
_TOLD_NAMES: Final = 12
_NAME_CHARS: Final = 64


class ArgumentsCheck:
    """Makes a model of arguments, once it is sure that this does not take long."""

    __slots__ = ("_closed", "_free", "_model", "_names", "_required")

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model
        self._closed = model.model_config.get("extra") == "forbid"
        named = [(_names(model, key, field), field) for key, field in model.model_fields.items()]
        self._names = dict.fromkeys(name for names, _ in named for name in names)
        self._required = tuple(names for names, field in named if field.is_required())
        self._free = frozenset(
            name
            for key, field in model.model_fields.items()
            if _is_free(field.annotation)
            for name in _names(model, key, field)
        )

    def made(self, arguments: Mapping[str, Any], *, capability: str) -> BaseModel:
        """The model. Raises :class:`CapabilityError` (``invalid_arguments``), which shows nothing of what was given."""
        items = 0
        for name, value in arguments.items():
            if self._closed and name not in self._names:
                raise CapabilityError("invalid_arguments", self._unknown(name, arguments), capability=capability)
            if name not in self._free:
                items += items_of(value, most=TYPED_ITEMS - items)
            if items > TYPED_ITEMS:
                told = f"{inert(name, limit=120)}: more than {TYPED_ITEMS:,} items"
                raise CapabilityError("invalid_arguments", told, capability=capability)
        try:
            return self._model.model_validate(arguments)
        except ValidationError as error:
            told = problem_text(error, whole="arguments")
            raise CapabilityError("invalid_arguments", told, capability=capability) from None

    def _unknown(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What is told of an argument that there is not: what was meant, which one is missing, and which there are."""
        try:
            near = near_ones(name, (each for each in self._names if each not in arguments), look=Looks(_NEAR_LOOKS))
        except Enough:
            near = ()
        missing = [names[0] for names in self._required if not any(each in arguments for each in names)]
        told = [f"{inert(name, limit=120)}: unknown argument"]
        if near:
            told.append(f"did you mean {_listed(near[:1])}?")
        elif missing:
            told.append(f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        return f"{', '.join(told)} (it takes {_listed(tuple(self._names)) or 'none'})"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _TOLD_NAMES} more" if len(names) > _TOLD_NAMES else ""
    return ", ".join(inert(name, limit=_NAME_CHARS) for name in names[:_TOLD_NAMES]) + more


def problem_text(error: ValidationError, *, whole: str) -> str:
    """The first problem in inert words, without what was given; ``whole`` is what it is called if it is all of it.

    Where there are more than a hundred, only how many: pydantic tells them all or none.
    """
    count = error.error_count()
    if count > _TOLD_PROBLEMS:
        return f"{whole}: {count:,} problems"
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    where = ".".join(str(step) for step in problems[0]["loc"]) or whole
    words = problems[0]["msg"].removeprefix("Value error, ")
    more = f" (and {count - 1} more)" if count > 1 else ""
    return f"{inert(where, limit=120)}: {inert(words, limit=300)}{more}"


def _names(model: type[BaseModel], key: str, field: FieldInfo) -> tuple[str, ...]:
    """What the argument may be called."""
    alias = field.validation_alias or field.alias
    if alias is None:
        return (key,)
    if not isinstance(alias, str):
        raise TypeError(f"{model.__name__}.{key}: an argument has one name")
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    return (alias, key) if by_name else (alias,)


def _is_free(annotation: Any) -> bool:
    """Whether nothing is looked for in the argument's items."""
    if annotation is Any or annotation in (list, dict, object):
        return True
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _is_free(inner[0])
    if origin in (Union, types.UnionType):
        return any(map(_is_free, inner)) and all(_is_free(each) or each is type(None) for each in inner)
    if origin is list:
        return inner[0] is Any
    return origin is dict and inner[0] is str and inner[1] is Any
