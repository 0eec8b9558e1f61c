"""The checks of the module as a whole: its size, its sections and their order, what must not be there, the manifest."""

from __future__ import annotations

from collections.abc import Sequence

from rho_wasm import wasm
from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox import abi
from rho_wasm.sandbox import admission_module as parts
from rho_wasm.sandbox.admission_module import Facts, over

__all__ = [
    "check_code_size",
    "check_manifest",
    "check_sections",
    "check_size",
    "check_start",
    "check_tags",
    "manifest_of",
]

_ORDER = (
    parts.TYPE,
    parts.IMPORT,
    parts.FUNCTION,
    parts.TABLE,
    parts.MEMORIES,
    parts.TAG,
    parts.GLOBAL,
    parts.EXPORT,
    parts.START,
    parts.ELEMENT,
    parts.DATA_COUNT,
    parts.CODE,
    parts.DATA,
)


def check_size(module: Facts) -> None:
    if (size := len(module.data)) > (limit := module.limits.module_bytes):
        raise ModuleRejected(
            "too_large",
            "the module is too large",
            limit=limit,
            value=size,
            hint="build it without debug information and optimised for size",
        )


def check_sections(module: Facts) -> None:
    """Header, sizes, known ids, each section once and in the specification's order (5.5.16)."""
    last = -1
    for section in wasm.sections(module.data):
        if section.id == wasm.CUSTOM:
            if len(module.customs) >= (limit := module.limits.custom_sections):
                raise over("custom_sections", "custom sections", limit=limit, value=limit + 1)
            reader = section.reader(module.data)
            name = reader.name(max_bytes=module.limits.name_bytes)
            module.customs.append((name, section, reader.position))
            continue
        if section.id not in _ORDER:
            raise ModuleRejected("section_id", f"there is no section of id {section.id}", value=section.id)
        if (rank := _ORDER.index(section.id)) <= last:
            raise ModuleRejected(
                "section_order", f"the section of id {section.id} stands twice or too late", value=section.id
            )
        last = rank
        module.sections[section.id] = section


def check_code_size(module: Facts) -> None:
    if (size := module.code_bytes) > (limit := module.limits.code_bytes):
        raise ModuleRejected(
            "code_too_large", "the code section is too large", limit=limit, value=size, hint="optimise for size"
        )


def check_start(module: Facts) -> None:
    if parts.START in module.sections:
        raise ModuleRejected(
            "start_section",
            "the module has a start section, which would run before any limit is known to it",
            hint=f"export the function as {abi.INITIALIZE} instead",
        )


def check_tags(module: Facts) -> None:
    if parts.TAG in module.sections:
        raise ModuleRejected(
            "feature_off", "the module has tags, exceptions are off", hint="build it without WebAssembly exceptions"
        )


def check_manifest(module: Facts) -> None:
    module.manifest = manifest_of(module.data, module.customs, module.limits)
    if module.manifest.engine is not None:
        raise ModuleRejected(
            "manifest_engine", "a module with code names an engine, only images do", hint="leave out engine"
        )


def manifest_of(data: bytes, customs: Sequence[tuple[str, wasm.Section, int]], limits: HostLimits) -> Manifest:
    """The one manifest among the custom sections of ``data``, each with its name and where its payload begins."""
    found = [(section, start) for name, section, start in customs if name == abi.MANIFEST_SECTION]
    if len(found) != 1:
        raise ModuleRejected(
            "manifest_duplicate" if found else "manifest_missing",
            f"the module has {len(found)} sections {abi.MANIFEST_SECTION}, it must have one",
            name=abi.MANIFEST_SECTION,
            limit=1,
            value=len(found),
            hint="build it with rho-wasm build, which embeds the manifest",
        )
    section, start = found[0]
    if (size := section.end - start) > (limit := limits.manifest_bytes):
        raise ModuleRejected("manifest_too_large", "the manifest is too large", limit=limit, value=size)
    return Manifest.decode(data[start : section.end], limits=limits)
