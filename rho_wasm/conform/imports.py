"""All that is wrong with a module's imports: admission stops at the first, and its author has to mend each."""

from __future__ import annotations

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.abi import ALLOWED_IMPORTS
from rho_wasm.sandbox.admission_module import IMPORT, Facts, shown

__all__ = ["all_imports"]

_FUNCTION = 0


def all_imports(facts: Facts) -> tuple[list[str], list[str]] | None:
    """The names that no guest is given, and those with a wrong type, in their order and each once.

    ``facts`` then has every imported function, so that the checks that count functions can go on. None, and ``facts``
    as they were, where an import is no function or cannot be read.
    """
    reader = facts.reader(IMPORT)
    if reader is None:
        return None
    unknown, mistyped, functions = dict[str, None](), dict[str, None](), list[int]()
    try:
        for _ in range(min(reader.u32(), facts.limits.imports)):
            key = tuple(reader.name(max_bytes=facts.limits.name_bytes) for _ in range(2))
            if reader.byte() != _FUNCTION or (index := reader.u32()) >= len(facts.types):
                return None
            functions.append(index)
            name = f"{shown(key[0])}.{shown(key[1])}"
            wanted = ALLOWED_IMPORTS.get((key[0], key[1]))
            if wanted is None:
                unknown.setdefault(name)
            elif wanted != facts.types[index]:
                mistyped.setdefault(f"{name}, which is {wanted}")
    except ModuleRejected:
        return None
    if not reader.done:
        return None
    facts.functions[:] = functions
    facts.imported_functions = len(functions)
    return list(unknown), list(mistyped)
