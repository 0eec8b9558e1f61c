"""How much there is of plain data, told without a copy; and how much of it the event loop's thread may look at."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["ITEMS_AT_ONCE", "REQUEST_BYTES_AT_ONCE", "items_of"]

ITEMS_AT_ONCE: Final = 400
"""Of plain data that is encoded, decoded or copied on the event loop's thread. An item takes 0.2 to 2 µs."""
REQUEST_BYTES_AT_ONCE: Final = 256
"""Of a guest's request that is decoded and looked at on that thread; the worst of that size takes 0.2 ms."""
_HOLDERS: Final = frozenset({dict, list})


def items_of(value: Any, *, most: int | None = None) -> int:
    """Its items, as the bounds of :func:`rho_wasm.plain.encode` count them: itself, each element, each key and value.

    ``value`` is plain data that holds nothing twice, such as was decoded or copied. Once there are more than ``most``
    the rest is not looked at, and what was counted until then is answered.
    """
    if type(value) not in _HOLDERS:
        return 1
    items = 1
    rest: list[Any] = [value]
    while rest:
        holder = rest.pop()
        if type(holder) is dict:
            items += 2 * len(holder)
            holder = holder.values()
        else:
            items += len(holder)
        if most is not None and items > most:
            break
        if holder and not _HOLDERS.isdisjoint(map(type, holder)):
            rest.extend([each for each in holder if type(each) in _HOLDERS])
    return items
