"""Chance, in a snapshot: the generator's state is frozen, so each call seeds it anew when it first draws."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["CallRandom", "install"]

_draw = random.Random.random
_bits = random.Random.getrandbits
_seed = random.Random.seed


class CallRandom(random.Random):
    """Seeded by the system when it first draws after :meth:`forget`, unless the tool has chosen a seed itself."""

    _fresh = False
    _chosen = False

    def random(self) -> float:
        if not self._fresh:
            self._renew()
        return _draw(self)

    def getrandbits(self, k: int) -> int:
        if not self._fresh:
            self._renew()
        return _bits(self, k)

    def seed(self, a: Any = None, version: int = 2) -> None:
        self._fresh = True
        self._chosen = a is not None
        _seed(self, a, version)

    def setstate(self, state: Any) -> None:
        self._fresh = self._chosen = True
        super().setstate(state)

    def getstate(self) -> Any:
        if not self._fresh:
            self._renew()
        return super().getstate()

    def forget(self) -> None:
        """What was drawn until now is no part of what is drawn next."""
        if not self._chosen:
            self._fresh = False
            self.gauss_next = None  # gauss() draws two at once, and keeps one.

    def _renew(self) -> None:
        self.seed()


def install() -> CallRandom:
    """Makes the module :mod:`random` draw from a :class:`CallRandom`, and answers it."""
    shared = CallRandom()
    random._inst = shared
    for name in random.__all__:
        if hasattr(shared, name):
            setattr(random, name, getattr(shared, name))
    shared.forget()
    return shared
