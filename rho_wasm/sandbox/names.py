"""Names of functions for backtraces, read from a module's ``name`` section by code of ours, only when it faults.

The section is never compiled into the module. wasmtime renders a backtrace with names for each text of an error,
demangles C++ and Rust names for that, and the demangler expands their substitutions: a name of 240 bytes took 19 s and
1.6 GiB of the host. Here a name is bytes: cut, decoded, made inert by whoever shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rho_wasm.errors import ModuleRejected
from rho_wasm.wasm import Reader

__all__ = ["MAX_NAME_BYTES", "function_names"]

MAX_NAME_BYTES = 512
"""Bytes of one name that are kept."""
_MAX_NAMES = 20_000
"""Names that are looked through: more than a module may have functions."""
_FUNCTION_NAMES = 1
_SUBSECTIONS = 32
"""Each of those that are specified is there at most once. An empty one has two bytes."""


def function_names(payload: bytes, wanted: Iterable[int]) -> Mapping[int, str]:
    """The names of the functions ``wanted``, by index, as far as the payload of a ``name`` section has them.

    https://webassembly.github.io/spec/core/appendix/custom.html#name-section. A payload that is not well-formed gives
    what it gave up to there: it is a guest's, and decides nothing.
    """
    sought = frozenset(wanted)
    found: dict[int, str] = {}
    reader = Reader(payload)
    try:
        for _ in range(_SUBSECTIONS if sought else 0):
            identifier = reader.byte()
            size = reader.u32()
            start = reader.skip(size)
            if identifier == _FUNCTION_NAMES:
                names = Reader(payload, start, start + size)
                for _ in range(min(names.u32(), _MAX_NAMES)):
                    index, length = names.u32(), names.u32()
                    at = names.skip(length)
                    if index in sought:
                        found[index] = payload[at : at + min(length, MAX_NAME_BYTES)].decode("utf-8", "replace")
                break
    except ModuleRejected:
        return found
    return found
