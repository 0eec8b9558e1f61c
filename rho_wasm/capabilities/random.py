"""``random.bytes {"count"}``: so many bytes from the operating system, fit for keys.

``max_bytes`` of the grant bounds what one call of the tool takes in all; beyond it ``quota``, and nothing is taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from rho_wasm.capabilities.capability import Arguments, Capability, CapabilityContext
from rho_wasm.errors import CapabilityError
from rho_wasm.grants import RandomBounds

__all__ = ["random_capabilities"]


class _Count(Arguments):
    count: Annotated[int, Field(ge=0, lt=2**32)]


def random_capabilities(*, source: Callable[[int], bytes] = os.urandom) -> tuple[Capability, ...]:
    """``random.bytes``, from ``source``."""

    def take(arguments: _Count, context: CapabilityContext) -> bytes:
        bounds: RandomBounds = context.bounds
        taken = context.used.get(context.capability, 0) + arguments.count
        if taken > bounds.max_bytes:
            raise CapabilityError("quota", f"a call may take {bounds.max_bytes} random bytes in all")
        context.used[context.capability] = taken
        return source(arguments.count)

    return (Capability(name="random.bytes", arguments=_Count, bounds=RandomBounds, now=take),)
