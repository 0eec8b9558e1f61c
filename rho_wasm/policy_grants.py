"""Grants as a policy says them: each capability known, its bounds valid, and what is wrong said by its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from rho_wasm.capability_names import misspelt
from rho_wasm.frozen import FrozenMap
from rho_wasm.grants import BOUNDS, Bounds, UncheckedBounds, capability_name
from rho_wasm.spelling import did_you_mean
from rho_wasm.untrusted import inert

__all__ = ["KnownCapabilities", "KnownCapability", "at", "checked_grants", "refusal", "unknown_key"]

_SHOWN_NAMES = 5


class KnownCapability(Protocol):
    """What a policy must know of a host's own capability: :class:`rho_wasm.Capability` is one."""

    @property
    def name(self) -> str: ...
    @property
    def bounds(self) -> type[Bounds]: ...


class KnownCapabilities(NamedTuple):
    """What may be granted. ``elsewhere``: beside ``bounds`` also what no name that ships was meant by."""

    bounds: Mapping[str, type[Bounds]] = BOUNDS
    elsewhere: bool = False

    def model(self, name: str) -> type[Bounds] | None:
        """The model of what a grant of ``name`` may say; None where there is no such capability."""
        known = self.bounds.get(name)
        return UncheckedBounds if known is None and self.elsewhere and not misspelt(name) else known


def checked_grants(given: object, known: KnownCapabilities) -> Mapping[str, Bounds]:
    """Each of the grants ``given`` with its bounds. Raises pydantic's errors, which show nothing but names: all."""
    if not isinstance(given, Mapping):
        raise PydanticCustomError("dict_type", "should be a table of capabilities, each with its bounds")
    granted: dict[str, Bounds] = {}
    wrong: list[InitErrorDetails] = []
    for name, bounds in given.items():
        model = known.model(name) if isinstance(name, str) else None
        if model is None:
            wrong.append(_unknown(name if isinstance(name, str) else "", bounds, known.bounds))
            continue
        try:
            granted[name] = model.model_validate(bounds)
        except ValidationError as error:
            wrong.extend(_out_of_bounds(name, error, model))
    if wrong:
        raise refusal(wrong)
    return FrozenMap(granted)


def unknown_key(name: str, allowed: Iterable[str]) -> str:
    """What is said of a key that is none of those ``allowed``."""
    known = sorted(allowed)
    return f"unknown key (allowed: {', '.join(known) or 'none'}){did_you_mean(name, known)}"


def at(where: tuple[int | str, ...], error: PydanticCustomError) -> InitErrorDetails:
    """``error`` at a place inside what a validator looks at: pydantic puts the way to that before it."""
    return InitErrorDetails(type=error, loc=where, input=None)


def refusal(wrong: list[InitErrorDetails]) -> ValidationError:
    """All that is ``wrong`` in what a validator looks at."""
    return ValidationError.from_exception_data("policy", wrong, hide_input=True)


def _unknown(name: str, bounds: object, known: Mapping[str, type[Bounds]]) -> InitErrorDetails:
    shown = inert(name, limit=80)
    words = f"unknown capability '{shown}'"
    if dotted := _dotted(name, bounds):
        words += f": a name with a dot is quoted: {', '.join(dotted)}"
    elif meant := did_you_mean(name, known):
        words += meant
    else:
        words += f" (known: {', '.join(sorted(known))})"
        if not misspelt(name):
            words += "; one of your program's own is known where its policy is loaded with capabilities=[...]"
    return at((shown,), PydanticCustomError("unknown_capability", "{words}", {"words": words}))


def _dotted(name: str, bounds: object) -> list[str]:
    """What TOML makes a table of a table where somebody left out the quotes: ``kv.get = {}``."""
    found = []
    for part in bounds if isinstance(bounds, Mapping) and "." not in name else ():
        try:
            found.append(f'"{capability_name(f"{name}.{part}")}"')
        except ValueError:
            return []
    return found[:_SHOWN_NAMES]


def _out_of_bounds(name: str, error: ValidationError, model: type[Bounds]) -> Iterator[InitErrorDetails]:
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        kind, words = _words(problem, model)
        yield at((name, *problem["loc"]), PydanticCustomError(kind, "{words}", {"words": words}))


def _words(problem: ErrorDetails, model: type[Bounds]) -> tuple[str, str]:
    match problem["type"]:
        case "extra_forbidden":
            return "unknown_bound", unknown_key(str(problem["loc"][-1]), model.model_fields)
        case "tuple_type":
            return "bounds_invalid", "should be a list"
        case "model_type":
            return "bounds_invalid", "should be a table of bounds, {} for the defaults"
        case _:
            return "bounds_invalid", problem["msg"].removeprefix("Value error, ")
