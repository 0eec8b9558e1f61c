"""Grants as a policy says them: each capability known, its bounds valid, and what is wrong said by its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from rho_wasm.frozen import FrozenMap
from rho_wasm.grants import Bounds
from rho_wasm.untrusted import inert

__all__ = ["KnownCapability", "at", "checked_grants"]


class KnownCapability(Protocol):
    """What a policy must know of a host's own capability: :class:`rho_wasm.Capability` is one."""

    @property
    def name(self) -> str: ...
    @property
    def bounds(self) -> type[Bounds]: ...


def checked_grants(given: object, known: Mapping[str, type[Bounds]]) -> Mapping[str, Bounds]:
    """Each of the grants ``given`` with its bounds. Raises pydantic's errors, which show nothing but names."""
    if not isinstance(given, Mapping):
        raise PydanticCustomError("dict_type", "should be a table of capabilities, each with its bounds")
    return FrozenMap({name: _bounds(name, bounds, known) for name, bounds in given.items()})


def _bounds(name: object, given: object, known: Mapping[str, type[Bounds]]) -> Bounds:
    model = known.get(name) if isinstance(name, str) else None
    if model is None:
        shown = inert(name if isinstance(name, str) else "", limit=80)
        detail = {"name": shown, "known": ", ".join(sorted(known))}
        words = "unknown capability '{name}' (known: {known})"
        raise at((shown,), PydanticCustomError("unknown_capability", words, detail))
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        kind, words = "bounds_invalid", first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            kind = "unknown_bound"
            words = f"unknown key (allowed: {', '.join(sorted(model.model_fields)) or 'none'})"
        elif first["type"] == "tuple_type":
            words = "should be a list"
        elif first["type"] == "model_type":
            words = "should be a table of bounds, {} for the defaults"
        where = (str(name), *first["loc"])
        raise at(where, PydanticCustomError(kind, "{words}", {"words": words})) from None


def at(where: tuple[int | str, ...], error: PydanticCustomError) -> ValidationError:
    """``error`` at a place inside what a validator looks at: pydantic puts the way to that before it."""
    details = InitErrorDetails(type=error, loc=where, input=None)
    return ValidationError.from_exception_data("policy", [details], hide_input=True)
