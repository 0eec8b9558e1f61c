"""Which modules may be engines. Their bytes are pinned by a hash, so they are not held to the bounds of guests.

What is asked is what the host relies on: the imports that guests may have, exactly an engine's exports, one memory, no
start section. wasmtime validates the rest where it compiles.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox import admission_checks as sections
from rho_wasm.sandbox import admission_layout as layout
from rho_wasm.sandbox.abi import ENGINE_EXPORTS, GLOBAL_PREFIX, MEMORY
from rho_wasm.sandbox.admission_module import EXPORT, Facts, finished, shown
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.wasm import HEADER

__all__ = ["AdmittedEngine", "admit_engine"]

_FUNCTION_KIND, _MEMORY_KIND, _GLOBAL_KIND = 0, 2, 3


@dataclass(frozen=True, slots=True)
class AdmittedEngine:
    """``code`` is what is compiled: the module without its custom sections."""

    code: bytes
    code_bytes: int


def admit_engine(engine: EngineBinary, *, limits: HostLimits | None = None) -> AdmittedEngine:
    """Raises :class:`ModuleRejected`: ``engine_hash`` for other bytes than were named, ``engine_exports``, and what a
    guest is refused for."""
    if not hmac.compare_digest(hashlib.sha256(engine.wasm).digest(), engine.sha256):
        raise ModuleRejected(
            "engine_hash",
            f"the engine {shown(engine.name)} is not what its hash says",
            limit=engine.sha256.hex(),
            hint="install it again: rho-wasm engines install",
        )
    module = Facts(engine.wasm, (limits or HostLimits()).for_engines())
    for check in _CHECKS:
        check(module)
    ordered = sorted(module.sections.values(), key=lambda section: section.start)
    code = b"".join([HEADER, *(engine.wasm[section.start : section.end] for section in ordered)])
    return AdmittedEngine(code=code, code_bytes=module.code_bytes)


def _check_exports(module: Facts) -> None:
    """Exactly the functions of an engine, its memory and its mutable globals."""
    reader = module.reader(EXPORT)
    there: set[str] = set()
    for _ in range(reader.u32() if reader is not None else 0):
        assert reader is not None, "it has a count"
        name = reader.name(max_bytes=module.limits.name_bytes)
        kind, index = reader.byte(), reader.u32()
        if name in ENGINE_EXPORTS:
            right = kind == _FUNCTION_KIND and module.imported_functions <= index < len(module.functions)
            right = right and module.types[module.functions[index]] == ENGINE_EXPORTS[name]
        elif name == MEMORY:
            right = kind == _MEMORY_KIND and index == 0
        else:
            number = name.removeprefix(GLOBAL_PREFIX)
            right = number == str(index) != name and kind == _GLOBAL_KIND and index < module.globals
        if not right or name in there:
            raise ModuleRejected("engine_exports", f"an engine has no such export: {shown(name)}", name=shown(name))
        there.add(name)
    if missing := sorted({MEMORY, *ENGINE_EXPORTS} - there):
        raise ModuleRejected("engine_exports", f"an engine exports {missing[0]}", name=missing[0])
    if reader is not None:
        finished(reader, "export")


_CHECKS: tuple[Callable[[Facts], None], ...] = (
    layout.check_size,
    layout.check_sections,
    layout.check_code_size,
    layout.check_start,
    layout.check_tags,
    sections.check_types,
    sections.check_imports,
    sections.check_functions,
    sections.check_tables,
    sections.check_memory,
    sections.check_globals,
    _check_exports,
    sections.check_elements,
    sections.check_data,
)
