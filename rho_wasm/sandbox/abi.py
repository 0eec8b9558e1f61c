"""The guest ABI's names and types as data, so that admission, the linker and tests check against one table.

Imports neither wasmtime nor anything that runs: a process that only inspects modules reads it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

__all__ = [
    "ABI_VERSION",
    "ALLOC",
    "ALLOWED_IMPORTS",
    "CALL",
    "ENGINE_EXPORTS",
    "ENGINE_EXTENSION",
    "EXPORT_TYPES",
    "GLOBAL_PREFIX",
    "IMAGE_MEMORY",
    "IMAGE_MODULE",
    "INITIALIZE",
    "LOAD",
    "MANIFEST_SECTION",
    "MEMORY",
    "PAGE_BYTES",
    "REQUIRED_EXPORTS",
    "RESERVED_PREFIX",
    "RHO",
    "RHO_IMPORTS",
    "WASI",
    "WASI_IMPORTS",
    "FunctionType",
    "ValueType",
]

ABI_VERSION = 1
MANIFEST_SECTION = "rho.manifest"
PAGE_BYTES = 65_536

RHO = "rho"
WASI = "wasi_snapshot_preview1"

MEMORY = "memory"
ALLOC = "rho_alloc"
CALL = "rho_call"
INITIALIZE = "_initialize"
LOAD = "rho_load"
RESERVED_PREFIX = "rho:"
"""Exports of such names are the host's own additions."""
GLOBAL_PREFIX = "rho:global:"
"""Under such names an engine exports each of its mutable globals, so that the host sees whether one changed."""

ENGINE_EXTENSION = "rho_wasm.engine"
"""In the ``extensions`` of a standalone module's manifest: the SHA-256 of the engine that it has in it."""

IMAGE_MODULE, IMAGE_MEMORY = "rho_engine", "memory"
"""What an image imports, and all that it does: the memory of its engine."""

ValueType: TypeAlias = Literal["i32", "i64", "f32", "f64", "v128", "funcref", "externref"]


class FunctionType(NamedTuple):
    """Parameters and results of a function, as the core specification names value types."""

    params: tuple[ValueType, ...]
    results: tuple[ValueType, ...]

    def __str__(self) -> str:
        return f"({', '.join(self.params)}) -> ({', '.join(self.results)})"


def _type(params: str, result: ValueType | None = None) -> FunctionType:
    """``params`` has one letter a parameter: ``i`` for i32, ``I`` for i64."""
    return FunctionType(tuple("i32" if letter == "i" else "i64" for letter in params), (result,) if result else ())


EXPORT_TYPES: Mapping[str, FunctionType] = MappingProxyType(
    {ALLOC: _type("i", "i32"), CALL: _type("ii", "i64"), INITIALIZE: _type("")}
)
"""The functions that the host calls."""

ENGINE_EXPORTS: Mapping[str, FunctionType] = MappingProxyType(
    {ALLOC: _type("i", "i32"), LOAD: _type("ii", "i64"), CALL: _type("ii", "i64")}
)
"""The functions of an engine: ``rho_load`` takes a tool's source and leaves its memory ready for ``rho_call``."""

REQUIRED_EXPORTS: tuple[str, ...] = (MEMORY, ALLOC, CALL)

RHO_IMPORTS: Mapping[str, FunctionType] = MappingProxyType(
    {"log": _type("iii"), "host_call": _type("ii", "i32"), "host_take": _type("ii", "i32")}
)

WASI_IMPORTS: Mapping[str, FunctionType] = MappingProxyType(
    {
        "args_get": _type("ii", "i32"),
        "args_sizes_get": _type("ii", "i32"),
        "environ_get": _type("ii", "i32"),
        "environ_sizes_get": _type("ii", "i32"),
        "clock_res_get": _type("ii", "i32"),
        "clock_time_get": _type("iIi", "i32"),
        "fd_close": _type("i", "i32"),
        "fd_fdstat_get": _type("ii", "i32"),
        "fd_fdstat_set_flags": _type("ii", "i32"),
        "fd_filestat_get": _type("ii", "i32"),
        "fd_prestat_get": _type("ii", "i32"),
        "fd_prestat_dir_name": _type("iii", "i32"),
        "fd_read": _type("iiii", "i32"),
        "fd_seek": _type("iIii", "i32"),
        "fd_tell": _type("ii", "i32"),
        "fd_write": _type("iiii", "i32"),
        "poll_oneoff": _type("iiii", "i32"),
        "proc_exit": _type("i"),
        "random_get": _type("ii", "i32"),
        "sched_yield": _type("", "i32"),
    }
)
"""What language runtimes need of WASI, and no more: no files, no sockets. Toolchains stub any other."""

ALLOWED_IMPORTS: Mapping[tuple[str, str], FunctionType] = MappingProxyType(
    {
        **{(RHO, name): signature for name, signature in RHO_IMPORTS.items()},
        **{(WASI, name): signature for name, signature in WASI_IMPORTS.items()},
    }
)
