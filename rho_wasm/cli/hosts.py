"""A host on a store, for a verb that calls no guest with grants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio

from rho_wasm.cli.options import policy_of
from rho_wasm.cli.which_store import existing_store
from rho_wasm.host import Host

__all__ = ["with_host"]

Answer = TypeVar("Answer")


def with_host(
    store: Path, policy: Path | None, job: Callable[[Host], Awaitable[Answer]], *, new: bool = False
) -> Answer:
    """What ``job`` does on the store, for the program that goes by the policy; ``new``: the store may be made.

    No guest is called with grants, so nothing that only the program has is needed here.
    """
    if not new:
        existing_store(store)

    async def run() -> Answer:
        async with Host.open(store, policy=policy_of(policy), elsewhere=True) as host:
            return await job(host)

    return anyio.run(run)
