"""Maps and lists that were copied once and do not change again.

A tool's schema and metadata are shared by every call and every snapshot, so nobody may alter them in place. They stay
``dict`` and ``list`` for whoever reads them (json, comparison, ``isinstance``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rho_wasm.errors import NotPlain
from rho_wasm.untrusted import inert, type_name

__all__ = ["FrozenList", "FrozenMap", "freeze", "frozen_map", "thaw"]

_SCALARS = (type(None), bool, int, float, str, bytes)


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(f"{type(self).__name__} is read-only: change a copy (rho_wasm.frozen.thaw)")


class FrozenMap(dict[str, Any]):
    """A read-only dict."""

    __slots__ = ()
    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __copy__(self) -> FrozenMap:
        return self

    def __deepcopy__(self, memo: object) -> FrozenMap:
        return self

    def __reduce__(self) -> Any:
        return freeze, (dict(self),)


class FrozenList(list[Any]):
    """A read-only list."""

    __slots__ = ()
    __setitem__ = __delitem__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __iadd__ = __imul__ = _refuse

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self

    def __reduce__(self) -> Any:
        return freeze, (list(self),)


def freeze(value: Any, *, depth: int = 64) -> Any:
    """A read-only copy of plain data. Raises :class:`NotPlain` for anything else, or if deeper than ``depth``."""
    return _freeze(value, "$", depth)


def _freeze(value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if depth == 0:
        raise _refusal(path, value, "nested too deeply")
    if isinstance(value, Mapping):
        for key in value:
            if type(key) is not str:
                raise _refusal(path, key, "keys are text")
        return FrozenMap(
            {key: _freeze(item, f"{path}.{inert(key, limit=40)}", depth - 1) for key, item in value.items()}
        )
    if kind in (list, tuple, FrozenList):
        return FrozenList(_freeze(item, f"{path}[{index}]", depth - 1) for index, item in enumerate(value))
    raise _refusal(path, value)


def _refusal(path: str, value: object, detail: str = "") -> NotPlain:
    return NotPlain(inert(path, limit=200), type_name(value), detail)


def frozen_map(value: object) -> FrozenMap:
    """The same for what must be a map, as a validator of pydantic takes it: raises ValueError for anything else."""
    if not isinstance(value, Mapping):
        raise ValueError("must be a map with text keys")
    try:
        frozen = freeze(value)
    except NotPlain as error:
        raise ValueError(str(error)) from None
    assert isinstance(frozen, FrozenMap)
    return frozen


def thaw(value: Any) -> Any:
    """A deep copy of exact ``dict`` and ``list``, for libraries that take no subclass."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [thaw(item) for item in value]
    return value
