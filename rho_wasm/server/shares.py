"""What one client may hold of something that all share: a quarter, so that three others find room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Shares"]


class Shares:
    """Counts by the address of whoever holds one of ``most``."""

    def __init__(self, most: int) -> None:
        self.of_one = max(1, most // 4)
        self._held: dict[str, int] = {}

    @contextmanager
    def one(self, peer: str) -> Iterator[bool]:
        """Inside, ``peer`` holds one; false where it holds its share already, and got none."""
        held = self._held.get(peer, 0)
        if held >= self.of_one:
            yield False
            return
        self._held[peer] = held + 1
        try:
            yield True
        finally:
            self._held[peer] -= 1
            if not self._held[peer]:
                del self._held[peer]

    def __len__(self) -> int:
        return len(self._held)
