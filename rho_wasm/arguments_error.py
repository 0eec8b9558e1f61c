"""What a call becomes whose arguments are no plain data, or more of it than a call may be given."""

from __future__ import annotations

from typing import Final

from rho_wasm.errors import PlainError, TooLarge, ToolError
from rho_wasm.untrusted import inert

__all__ = ["arguments_error", "arguments_words"]

_BOUNDS: Final = {
    "bytes": ("request_bytes", "give less at once"),
    "depth": ("depth", "nest lists and maps less"),
    "items": ("items", "give less at once"),
}
"""Of a request: what :class:`Limits` calls each bound, and what to do about it."""


def arguments_error(error: PlainError, *, tool: str) -> ToolError:
    """``invalid_arguments``, with the bound that was met in ``limit`` and ``value`` where it was one."""
    detail = arguments_words(error)
    if not isinstance(error, TooLarge) or error.what not in _BOUNDS:
        return ToolError("invalid_arguments", tool=tool, detail=detail)
    return ToolError("invalid_arguments", tool=tool, detail=detail, limit=_BOUNDS[error.what][0], value=error.limit)


def arguments_words(error: PlainError) -> str:
    """The same in one inert line, for who asks: of a host call, the guest."""
    if not isinstance(error, TooLarge) or error.what not in _BOUNDS:
        return inert(str(error))
    limit, advice = _BOUNDS[error.what]
    return f"the arguments have {error.excess} (Limits.{limit}): {advice}"
