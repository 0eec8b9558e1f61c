"""Which modules are let in: a pure function of bytes and limits, before anything is compiled or run.

``admit`` runs the flat list :data:`CHECKS`, cheap ones first; each looks at one thing. It is sync, takes time linear
in the module's size (0.1 s for a megabyte of code) and memory bounded by it, whatever the bytes are. What passes is
well-formed as far as sections, counts and instructions go; wasmtime then validates types while it compiles, in a child
process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox import admission_checks as sections
from rho_wasm.sandbox import admission_layout as layout
from rho_wasm.sandbox.abi import EXPORT_TYPES, INITIALIZE, MEMORY, PAGE_BYTES
from rho_wasm.sandbox.admission_bodies import check_bodies
from rho_wasm.sandbox.admission_engine import is_standalone_of
from rho_wasm.sandbox.admission_module import Facts
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.wasm import HEADER

__all__ = ["CHECKS", "Admitted", "admit", "check_standalone"]

_NAME_SECTION = "name"


CHECKS: tuple[Callable[[Facts], None], ...] = (
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
    sections.check_exports,
    sections.check_abi_exports,
    sections.check_elements,
    sections.check_data,
    layout.check_manifest,
    check_bodies,
)
"""All of them, in the order they run in. wasmtime's own validation comes after, where the module is compiled."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A module that passed. ``code`` is what is compiled: the module without its custom sections."""

    sha256: str
    """Of the whole file as it was given, in hex."""
    manifest: Manifest
    code: bytes
    code_bytes: int
    """Size of the code section: what a compilation's budget follows."""
    names: bytes
    """The payload of its ``name`` section, for backtraces; empty if there is none or it is too large."""
    memory_min_bytes: int
    imports: frozenset[tuple[str, str]]
    """Module and name of each host function that it may call."""
    exports: frozenset[str]
    """Those of the ABI that it has."""
    standalone: bool = False
    """Its code is an installed engine's (admission_engine.py), and is held to the bounds of engines."""

    @property
    def has_initialize(self) -> bool:
        """Whether ``_initialize`` is there, to be run once before anything else."""
        return INITIALIZE in self.exports


def admit(wasm: bytes, *, limits: HostLimits | None = None, engine: EngineBinary | None = None) -> Admitted:
    """Lets ``wasm`` in, or raises :class:`ModuleRejected` with the reason of the first check that said no.

    ``engine`` is the one that it claims to have in it, where that is installed. If it does, byte for byte, that part of
    it is not held to the bounds of guests.
    """
    limits = limits or HostLimits()
    standalone = engine is not None and is_standalone_of(wasm, engine)
    if engine is not None and standalone:
        module = _standalone(wasm, limits, engine_bytes=len(engine.wasm))
    else:
        module = _checked(wasm, limits, CHECKS)
    assert module.manifest is not None, "check_manifest fills it or raises"
    return Admitted(
        sha256=hashlib.sha256(wasm).hexdigest(),
        manifest=module.manifest,
        code=_without_customs(module),
        code_bytes=module.code_bytes,
        names=_names(module),
        memory_min_bytes=module.memory_pages * PAGE_BYTES,
        imports=frozenset(module.imports),
        exports=frozenset(module.exports) & {MEMORY, *EXPORT_TYPES},
        standalone=standalone,
    )


def check_standalone(wasm: bytes, *, limits: HostLimits) -> None:
    """Raises what ``wasm`` would be refused for if all that is an engine's in it were known to be one's."""
    _standalone(wasm, limits, engine_bytes=None)


def _standalone(wasm: bytes, limits: HostLimits, *, engine_bytes: int | None) -> Facts:
    # The bodies are the engine's. They are as they are.
    checks = tuple(check for check in CHECKS if check is not check_bodies)
    return _checked(wasm, limits.for_standalone(engine_bytes), checks)


def _checked(wasm: bytes, limits: HostLimits, checks: tuple[Callable[[Facts], None], ...]) -> Facts:
    module = Facts(wasm, limits)
    for check in checks:
        check(module)
    return module


def _without_customs(module: Facts) -> bytes:
    """The module as it will be compiled. Why names are left out too is said in :mod:`rho_wasm.sandbox.names`."""
    ordered = sorted(module.sections.values(), key=lambda section: section.start)
    return b"".join([HEADER, *(module.data[section.start : section.end] for section in ordered)])


def _names(module: Facts) -> bytes:
    for name, section, payload in module.customs:
        if name == _NAME_SECTION:
            small = section.end - section.start <= module.limits.name_section_bytes
            return module.data[payload : section.end] if small else b""
    return b""
