"""The clauses that are seen without running anything: every check of admission, and not only the first that says no."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rho_wasm.conform.clauses import CLAUSES
from rho_wasm.conform.imports import all_imports
from rho_wasm.conform.report import Findings
from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox import admission_checks as sections
from rho_wasm.sandbox import admission_layout as layout
from rho_wasm.sandbox.abi import ALLOC, CALL, INITIALIZE, MEMORY, PAGE_BYTES
from rho_wasm.sandbox.admission import CHECKS, admit
from rho_wasm.sandbox.admission_bodies import check_bodies
from rho_wasm.sandbox.admission_engine import claimed_engine, is_standalone_of
from rho_wasm.sandbox.admission_image import admit_image, is_image
from rho_wasm.sandbox.admission_module import Facts
from rho_wasm.sandbox.images import EngineFinder

__all__ = ["CALLED", "Looked", "clause_of", "look"]

_OF_GUESTS = tuple(
    identifier
    for identifier in CLAUSES
    if identifier.startswith(("wasm.", "imports.", "memory.o", "memory.s", "exports."))
)
_OF_MANIFESTS = tuple(identifier for identifier in CLAUSES if identifier.startswith("manifest."))
_OF_IMAGES = tuple(identifier for identifier in CLAUSES if identifier.startswith("image."))
_STATIC = (*_OF_GUESTS, *_OF_MANIFESTS, *_OF_IMAGES)
CALLED: tuple[str, ...] = tuple(identifier for identifier in CLAUSES if identifier not in _STATIC)
"""The clauses that are seen in calls."""

_CLAUSES: Mapping[str, str] = MappingProxyType(
    {
        "feature_off": "wasm.features",
        "memory_type": "memory.one",
        "table_type": "wasm.features",
        "start_section": "wasm.start",
        "import_forbidden": "imports.known",
        "import_type": "imports.types",
        "memory_count": "memory.one",
        "memory_minimum": "memory.start",
        "export_reserved": "exports.names",
        "export_duplicate": "exports.names",
        "export_index": "exports.names",
        "manifest_missing": "manifest.section",
        "manifest_duplicate": "manifest.section",
        "manifest_too_large": "manifest.section",
        "manifest_malformed": "manifest.plain",
        "abi_version": "manifest.abi",
        "manifest_requires": "manifest.requires",
        "manifest_invalid": "manifest.shape",
        "description_too_large": "manifest.tools",
        "manifest_engine": "image.engine",
        "image_engine": "image.engine",
        "image_section": "image.shape",
        "image_import": "image.shape",
        "image_memory": "image.memory",
        "image_segments": "image.segments",
        "image_too_large": "wasm.bounds",
        "compile_timeout": "wasm.bounds",
        "compile_memory": "wasm.bounds",
    }
)
_EXPORTS = {
    MEMORY: "exports.memory",
    ALLOC: "exports.rho_alloc",
    CALL: "exports.rho_call",
    INITIALIZE: "exports.initialize",
}
_NAMES = 8
"""So many of a fault's imports are named."""
_IN_TOOL = re.compile(r"tools\[\d+\]\.(\w+)")
_TOOL_FIELDS = {
    "input_schema": "manifest.schemas",
    "output_schema": "manifest.schemas",
    "examples": "manifest.examples",
}

_Check = Callable[[Facts], None]
_NEEDS: Mapping[_Check, tuple[_Check, ...]] = MappingProxyType(
    {
        sections.check_imports: (sections.check_types,),
        sections.check_functions: (sections.check_imports,),
        sections.check_exports: (
            sections.check_functions,
            sections.check_tables,
            sections.check_memory,
            sections.check_globals,
        ),
        sections.check_abi_exports: (sections.check_exports,),
        check_bodies: (sections.check_functions,),
    }
)
"""What a check takes for granted. All take it that the sections could be read."""
_DECIDES: Mapping[_Check, Sequence[str]] = MappingProxyType(
    {
        layout.check_start: ("wasm.start",),
        sections.check_imports: ("imports.known", "imports.types"),
        sections.check_memory: ("memory.one", "memory.start"),
        sections.check_exports: ("exports.names",),
        sections.check_abi_exports: tuple(_EXPORTS.values()),
        layout.check_manifest: (*_OF_MANIFESTS, "image.engine"),
    }
)
"""The clauses that one check alone decides. All others hold where no check says that they do not."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What can be told of a module without running it."""

    manifest: Manifest | None
    """None where it has none that can be read."""
    refused: ModuleRejected | None
    """The first refusal. None: a host would compile the module."""
    memory_bytes: int = 0
    """The memory that it starts with."""
    engine: bytes | None = None
    """The SHA-256 of the engine that it cannot be called without, since it is an image over it, or has it in it."""
    image: bool = False


def clause_of(refusal: ModuleRejected) -> str:
    """The clause that a module breaks which is refused so."""
    if refusal.reason in ("export_missing", "export_type", "export_reexported"):
        return _EXPORTS.get(refusal.name or "", "exports.names")
    if refusal.reason == "manifest_invalid":
        if refusal.detail.startswith("abi"):
            return "manifest.abi"
        if refusal.detail.startswith("requires"):
            return "manifest.requires"
        if refusal.detail.startswith("two tools"):
            return "manifest.tools"
        if (field := _IN_TOOL.match(refusal.detail)) is not None:
            return _TOOL_FIELDS.get(field[1], "manifest.tools")
    if (clause := _CLAUSES.get(refusal.reason)) is not None:
        return clause
    return "wasm.binary" if refusal.limit is None or refusal.reason == "function_count" else "wasm.bounds"


def look(wasm: bytes, found: Findings, *, limits: HostLimits, engines: EngineFinder | None) -> Looked:
    """Tells ``found`` of every static clause. Takes time linear in the module's size, and raises nothing."""
    if is_image(wasm):
        return _image(wasm, found, limits)
    found.skipped(_OF_IMAGES, "the module is no image")
    claimed = claimed_engine(wasm, limits=limits)
    engine = engines(claimed) if claimed is not None and engines is not None else None
    size = len(engine.wasm) if engine is not None and is_standalone_of(wasm, engine) else None
    needed = None
    checks: tuple[_Check, ...] = CHECKS
    if size is not None or (claimed is not None and engine is None and not _is_guest(wasm, limits)):
        # As loader.py has it: what is an engine's in it, or may be one's that is not here, has the bounds of engines.
        needed = claimed
        limits = limits.for_standalone(size)
        checks = tuple(check for check in CHECKS if check is not check_bodies)
    facts = Facts(wasm, limits)
    refused = _run(facts, checks, found)
    return Looked(facts.manifest, refused, facts.memory_pages * PAGE_BYTES, engine=needed)


def _is_guest(wasm: bytes, limits: HostLimits) -> bool:
    try:
        admit(wasm, limits=limits)
    except ModuleRejected:
        return False
    return True


def _run(facts: Facts, checks: Sequence[_Check], found: Findings) -> ModuleRejected | None:
    first: ModuleRejected | None = None
    broken: dict[_Check, str] = {}
    for check in checks:
        because = next((broken[need] for need in _NEEDS.get(check, ()) if need in broken), None)
        if because is not None:
            broken[check] = because
            found.skipped(_DECIDES.get(check, ()), f"not looked at: {because} failed first")
            continue
        try:
            check(facts)
        except ModuleRejected as refusal:
            first = first or refusal
            clause = clause_of(refusal)
            if check is sections.check_imports and (every := all_imports(facts)) is not None:
                _tell_imports(refusal, *every, found)
                continue
            broken[check] = clause
            found.failed(clause, _told(refusal))
            found.skipped(_DECIDES.get(check, ()), f"not looked at: {clause} failed first")
            if check is layout.check_sections or check is layout.check_size:
                found.skipped(_STATIC, f"not looked at: {clause} failed first")
                return first
        else:
            for decided in _DECIDES.get(check, ()):
                found.passed(decided)
    if first is None:
        found.passed("wasm.binary")
    else:
        found.skipped(["wasm.binary"], f"not looked at to its end: {clause_of(first)} failed first")
    for clause in ("wasm.features", "wasm.bounds"):
        found.passed(clause)
    return first


def _tell_imports(refusal: ModuleRejected, unknown: Sequence[str], mistyped: Sequence[str], found: Findings) -> None:
    for clause, names, why in (
        ("imports.known", unknown, "the module imports what no guest is given"),
        ("imports.types", mistyped, "the module imports these with a wrong type"),
    ):
        if not names:
            found.passed(clause)
        elif len(names) == 1 and clause == clause_of(refusal):
            found.failed(clause, _told(refusal))
        else:
            more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
            found.failed(clause, f"{why}: {'; '.join(names[:_NAMES])}{more}")


def _image(wasm: bytes, found: Findings, limits: HostLimits) -> Looked:
    found.skipped(_OF_GUESTS, "an image has no code of its own")
    try:
        admitted = admit_image(wasm, limits=limits)
    except ModuleRejected as refusal:
        clause = clause_of(refusal)
        found.failed(clause, _told(refusal))
        found.skipped(_STATIC, f"not looked at: {clause} failed first")
        return Looked(None, refusal, image=True)
    for clause in (*_OF_IMAGES, *_OF_MANIFESTS, "wasm.binary", "wasm.bounds"):
        found.passed(clause)
    memory = admitted.image.pages * PAGE_BYTES
    return Looked(admitted.manifest, None, memory, engine=admitted.engine, image=True)


def _told(refusal: ModuleRejected) -> str:
    bound = f" (limit {refusal.limit}, found {refusal.value})" if refusal.limit is not None else ""
    return f"{refusal.reason}: {refusal.detail}{bound}" + (f"; {refusal.hint}" if refusal.hint else "")
