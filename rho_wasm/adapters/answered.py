"""What an API answered, read field by field: one error says what is missing, whichever API it was."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rho_wasm.adapters.shapes import as_map
from rho_wasm.errors import RhoError
from rho_wasm.json_arguments import object_or_text
from rho_wasm.untrusted import type_name

__all__ = ["BadAnswer", "arguments_of", "awaited", "map_of", "maps_of", "said_of", "text_of"]

_READ_CHARS: Final = 4 * 1024
"""Of arguments that are read at once; longer ones stay text, which a runner reads in a thread."""


class BadAnswer(RhoError, ValueError):
    """An API answered something else than it documents. The message names the field, never what was in it."""

    reason = "bad_answer"

    def __init__(self, field: str, wanted: str, given: object) -> None:
        self.field = field
        got = "nothing" if given is None else type_name(given)
        super().__init__(f"the answer of the model's API is not as documented: {field} is {got}, wanted {wanted}")


def text_of(of: Mapping[str, Any], key: str, *, where: str, empty: bool = False) -> str:
    """The text under ``key``. Raises :class:`BadAnswer` where there is none, or (unless ``empty``) an empty one."""
    found = of.get(key)
    if type(found) is str and (found or empty):
        return found
    raise BadAnswer(f"{where}.{key}", "a text", found)


def said_of(of: Mapping[str, Any], *keys: str, where: str = "") -> str:
    """The first text under one of ``keys`` that is not empty; where there is none or null, an empty one.

    Raises :class:`BadAnswer` for one of them that is no text.
    """
    found = ""
    for key in keys:
        if (given := of.get(key)) is not None and type(given) is not str:
            raise BadAnswer(f"{where}.{key}" if where else key, "a text", given)
        found = found or given or ""
    return found


def maps_of(given: Any, *, where: str) -> list[Mapping[str, Any]]:
    """A list of objects; empty for None. Raises :class:`BadAnswer` for anything else."""
    if given is None:
        return []
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise BadAnswer(where, "a list", given)
    return [map_of(each, where=f"{where}[{n}]") for n, each in enumerate(given)]


def map_of(given: Any, *, where: str) -> Mapping[str, Any]:
    """An object. Raises :class:`BadAnswer`."""
    try:
        return as_map(given)
    except TypeError:
        raise BadAnswer(where, "an object", given) from None


def arguments_of(of: Mapping[str, Any], *, where: str) -> dict[str, Any] | str:
    """The arguments of a call that an API has as the text of JSON: the object where it is short and one, else the text.

    Some servers that speak as the API does answer the object itself. Raises :class:`BadAnswer` for anything else.
    """
    given = of.get("arguments")
    if type(given) is dict:
        return given
    if given is None:
        return ""
    if type(given) is not str:
        raise BadAnswer(f"{where}.arguments", "a text", given)
    return object_or_text(given) if len(given) <= _READ_CHARS else given


async def awaited(create: Any, request: Mapping[str, Any]) -> Any:
    """The response of an async client. Raises TypeError for another, which holds the event loop up."""
    response = create(**request)
    if not inspect.isawaitable(response):
        raise TypeError("a loop waits for its model, so it asks through the package's async client")
    return await response
