"""An event loop without sockets, threads and signals: enough for ``async def`` tools and ``asyncio.run`` in them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

__all__ = ["Loop", "Policy", "run"]


class _Timer:
    """Stands for a selector: nothing is ever ready, so waiting is sleeping, and the sandbox's clock does not wait."""

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("the tool waits for something that cannot happen: nothing else runs in the sandbox")
        if timeout > 0:
            time.sleep(timeout)
        return []

    def close(self) -> None:
        return


class Loop(asyncio.BaseEventLoop):
    """Runs callbacks and timers, in one thread."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Timer()

    def _process_events(self, events: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        return


class Policy(asyncio.DefaultEventLoopPolicy):
    """What makes ``asyncio.run`` use :class:`Loop`."""

    _loop_factory = Loop


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What ``coroutine`` returns."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(coroutine)
