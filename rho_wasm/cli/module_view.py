"""What a module has, for a person: imports, exports, memory, sections and functions with their sizes.

It is read and not run, whoever made it: every list is bounded, and every name is inert. What cannot be read of it is
left out, because a verb that also says why a module is refused should show what there is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from rho_wasm import wasm
from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.abi import PAGE_BYTES
from rho_wasm.sandbox.admission_module import CODE, EXPORT, FUNCTION, IMPORT, MEMORIES
from rho_wasm.sandbox.names import function_names
from rho_wasm.untrusted import inert
from rho_wasm.wasm import Reader

__all__ = ["FunctionSize", "ModuleView", "view"]

Found = TypeVar("Found")

_NAME_CHARS = 128
_MAX_NAMES = 1_000
_MAX_FUNCTIONS = 100_000
"""More than any module that is let in has."""
_LARGEST = 20

# By their ids, https://webassembly.github.io/spec/core/binary/modules.html#sections
_SECTIONS = (
    *("custom", "type", "import", "function", "table", "memory", "global"),
    *("export", "start", "element", "code", "data", "data_count", "tag"),
)
_KINDS = ("function", "table", "memory", "global", "tag")
_IMPORTED_FUNCTION = 0


class FunctionSize(NamedTuple):
    """One of the module's own functions. ``name`` is its name in the ``name`` section, or as an export, if any."""

    function: int
    """Its index; what is imported comes first."""
    name: str | None
    size: int
    """Bytes of its code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleView:
    """What was found, in the module's order."""

    sections: tuple[tuple[str, int], ...]
    """Name and bytes."""
    imports: tuple[str, ...]
    """``MODULE.NAME``, each once, sorted."""
    exports: tuple[tuple[str, str], ...]
    """Name and kind."""
    memory_min_bytes: int | None
    """Of the module's own memory; None where it has none."""
    memory_max_bytes: int | None
    """None where the module names none: then only the host's limit holds."""
    function_count: int
    largest: tuple[FunctionSize, ...]
    """The largest functions, that first, at most 20."""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "sections": [{"name": name, "bytes": size} for name, size in self.sections],
            "imports": list(self.imports),
            "exports": [name for name, _ in self.exports],
            "export_kinds": dict(self.exports),
            "memory_min_bytes": self.memory_min_bytes,
            "memory_max_bytes": self.memory_max_bytes,
            "function_count": self.function_count,
            "functions": [{"index": each.function, "name": each.name, "bytes": each.size} for each in self.largest],
        }


def view(module: bytes) -> ModuleView:
    """Looks at ``module``. Raises :class:`ModuleRejected` (``header`` ...) for what is no module at all."""
    sizes: list[tuple[str, int]] = []
    readers: dict[int, Reader] = {}
    names = b""
    for section in wasm.sections(module):
        name = _SECTIONS[section.id] if section.id < len(_SECTIONS) else f"section {section.id}"
        if section.id == wasm.CUSTOM:
            reader = section.reader(module)
            called = reader.name(max_bytes=1024)
            name = f"custom {inert(called, limit=64)}"
            if called == "name":
                names = module[reader.position : section.end]
        else:
            readers.setdefault(section.id, section.reader(module))
        sizes.append((name, section.end - section.start))
    imported = _read(readers.get(IMPORT), _imports) or []
    exports = _read(readers.get(EXPORT), _exports) or []
    minimum, maximum = _read(readers.get(MEMORIES), _memory) or (None, None)
    functions = sum(kind == _IMPORTED_FUNCTION for _, kind in imported)
    largest = heapq.nlargest(_LARGEST, _read(readers.get(CODE), _bodies) or (), key=lambda each: each[1])
    named = {index: name for name, kind, index in reversed(exports) if kind == _KINDS.index("function")} | dict(
        function_names(names, (functions + place for place, _ in largest))
    )
    return ModuleView(
        sections=tuple(sizes),
        imports=tuple(sorted({name for name, _ in imported})),
        exports=tuple((name, _KINDS[kind] if kind < len(_KINDS) else f"kind {kind}") for name, kind, _ in exports),
        memory_min_bytes=minimum,
        memory_max_bytes=maximum,
        function_count=_read(readers.get(FUNCTION), Reader.u32) or 0,
        largest=tuple(
            FunctionSize(
                functions + place,
                inert(named[functions + place], limit=_NAME_CHARS) if functions + place in named else None,
                size,
            )
            for place, size in largest
        ),
    )


def _read(reader: Reader | None, read: Callable[[Reader], Found]) -> Found | None:
    """What is in a section. None where there is no such section, or it cannot be read."""
    if reader is None:
        return None
    try:
        return read(reader)
    except ModuleRejected:
        return None


def _imports(reader: Reader) -> list[tuple[str, int]]:
    """Names and kinds, up to the first that is none of the kinds there are."""
    found = []
    for _ in range(min(reader.u32(), _MAX_NAMES)):
        name = f"{reader.name(max_bytes=1024)}.{reader.name(max_bytes=1024)}"
        kind = reader.byte()
        found.append((inert(name, limit=_NAME_CHARS), kind))
        if kind == 0:
            reader.u32()
        elif kind in (1, 2):
            reader.skip(kind == 1)
            _limits(reader)
        elif kind == 3:
            reader.skip(2)
        else:
            break
    return found


def _exports(reader: Reader) -> list[tuple[str, int, int]]:
    return [
        (inert(reader.name(max_bytes=1024), limit=_NAME_CHARS), reader.byte(), reader.u32())
        for _ in range(min(reader.u32(), _MAX_NAMES))
    ]


def _memory(reader: Reader) -> tuple[int | None, int | None]:
    if reader.u32() == 0:
        return None, None
    minimum, maximum = _limits(reader)
    return minimum * PAGE_BYTES, maximum * PAGE_BYTES if maximum is not None else None


def _limits(reader: Reader) -> tuple[int, int | None]:
    bounded = reader.byte() & 1
    return reader.u32(), reader.u32() if bounded else None


def _bodies(reader: Reader) -> list[tuple[int, int]]:
    """Place and bytes of each body."""
    found = []
    for place in range(min(reader.u32(), _MAX_FUNCTIONS)):
        size = reader.u32()
        reader.skip(size)
        found.append((place, size))
    return found
