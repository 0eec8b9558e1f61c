"""What a version of a tool would be called with, had a model given it the arguments of a recorded call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rho_wasm.errors import PlainError
from rho_wasm.limits import Limits
from rho_wasm.plain import copied
from rho_wasm.repair import TooMuch, repaired
from rho_wasm.schema import ArgumentSchema

__all__ = ["arguments_taken"]

_BOUNDS = Limits()


def arguments_taken(
    given: dict[str, Any], schema: ArgumentSchema, input_schema: Mapping[str, Any], *, reads_only: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """``given`` as the runner would hand it on: put right where ``schema`` refuses it and it can mean one thing only.

    And what is wrong with it, where that cannot be: then ``given`` itself. ``input_schema`` is what ``schema`` was made
    of, ``reads_only`` as in :func:`rho_wasm.repair.repaired`. Blocks for as long as :func:`mended_arguments
    <rho_wasm.arguments.mended_arguments>` takes in a thread.
    """
    problems = schema.problems(given)
    if not problems:
        return given, ()
    try:
        found = repaired(given, input_schema, reads_only=reads_only)
        if found is None:
            return given, problems
        mended, _ = found
        copied(mended, max_bytes=_BOUNDS.request_bytes, max_depth=_BOUNDS.depth, max_items=_BOUNDS.items)
    except (TooMuch, PlainError):
        return given, problems
    return (given, problems) if schema.problems(mended) else (mended, ())
