"""Options of the host's own code, held to what they may be where they are given: not where they are first used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from rho_wasm.signatures import is_async
from rho_wasm.untrusted import inert, type_name

__all__ = ["check_choice", "check_flag", "check_function", "check_items", "check_kind", "check_whole"]

_SHOWN_CHARS = 40


def check_kind(value: object, kinds: type | tuple[type, ...], what: str) -> None:
    """Raises TypeError, ``{what}, not a {type}``, unless ``value`` is one of ``kinds``."""
    if not isinstance(value, kinds):
        raise TypeError(f"{what}, not a {type_name(value)}")


def check_flag(value: object, name: str) -> None:
    """Raises TypeError for anything but True and False."""
    check_kind(value, bool, f"{name} is True or False")


def check_whole(value: object, name: str, *, least: int) -> None:
    """Raises TypeError for anything but an int (a bool is none), ValueError for one below ``least``."""
    wanted = f"{name} is a whole number, at least {least}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{wanted}, not a {type_name(value)}")
    if value < least:
        raise ValueError(f"{wanted}, not {inert(repr(value), limit=_SHOWN_CHARS)}")


def check_choice(value: object, choices: Iterable[str], name: str) -> None:
    """Raises TypeError for what is no text, ValueError for one that is none of ``choices``."""
    known = tuple(choices)
    wanted = f"{name} is {' or '.join(map(repr, known))}"
    check_kind(value, str, wanted)
    if value not in known:
        raise ValueError(f"{wanted}, not {inert(repr(value), limit=_SHOWN_CHARS)}")


def check_function(value: object, what: str, *, may_be_async: bool = True) -> None:
    """Raises TypeError, ``{what}, not a {type}``, for what cannot be called, or is async where none may be."""
    if not callable(value):
        raise TypeError(f"{what}, not a {type_name(value)}")
    if not may_be_async and is_async(value):
        raise TypeError(f"{what}, not an async one")


def check_items(value: object, what: str) -> None:
    """Raises TypeError, ``{what}, not a {type}``, for what has no items, and for text, a map and a model."""
    if isinstance(value, str | bytes | Mapping | BaseModel) or not isinstance(value, Iterable):
        raise TypeError(f"{what}, not a {type_name(value)}")
