"""The checks of function bodies: as many as functions, and each within what a compiler bears."""

from __future__ import annotations

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.admission_code import count_body
from rho_wasm.sandbox.admission_module import CODE, Facts, finished, over, value_type
from rho_wasm.wasm import Reader

__all__ = ["check_bodies"]

_SPLIT = "split the function, or optimise for size"


def check_bodies(module: Facts) -> None:
    """As many bodies as functions, and each within what a compiler bears."""
    reader = module.reader(CODE)
    count = reader.u32() if reader is not None else 0
    declared = len(module.functions) - module.imported_functions
    if count != declared:
        raise ModuleRejected(
            "function_count", f"{declared} functions are declared, {count} have a body", limit=declared, value=count
        )
    if reader is None:
        return
    for index in range(module.imported_functions, len(module.functions)):
        size = reader.u32()
        start = reader.skip(size)
        _check_body(module, index, start, start + size)
    finished(reader, "code")


def _check_body(module: Facts, index: int, start: int, end: int) -> None:
    limits = module.limits
    name = f"function {index}"
    if (size := end - start) > limits.function_bytes:
        raise over(
            "function_bytes", f"bytes in {name}", limit=limits.function_bytes, value=size, name=name, hint=_SPLIT
        )
    reader = Reader(module.data, start, end)
    _check_locals(reader, limits.locals_per_function, name)
    counts = count_body(module.data, reader.position, end, types=module.types, nesting_limit=limits.nesting, name=name)
    for reason, what, value, limit in (
        ("loops", "loops", counts.loops, limits.loops),
        ("blocks", "blocks", counts.blocks, limits.blocks),
        ("br_table", "br_table entries", counts.br_table_entries, limits.br_table_entries),
        ("nesting", "blocks inside blocks", counts.nesting, limits.nesting),
        ("block_type", "results of a block", counts.block_results, limits.block_results),
    ):
        if value > limit:
            raise over(reason, f"{what} in {name}", limit=limit, value=value, name=name, hint=_SPLIT)


def _check_locals(reader: Reader, limit: int, name: str) -> None:
    groups = reader.u32()
    if groups > limit:
        raise over("locals", f"groups of locals in {name}", limit=limit, value=groups, name=name)
    total = 0
    for _ in range(groups):
        total += reader.u32()
        if total > limit:
            raise over("locals", f"locals in {name}", limit=limit, value=total, name=name, hint=_SPLIT)
        value_type(reader)
