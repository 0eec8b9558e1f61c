"""Which modules may be engines. Their bytes are pinned by a hash, so they are not held to the bounds of guests.

What is asked is what the host relies on: the imports that guests may have, exactly an engine's exports, one memory, no
start section. wasmtime validates the rest where it compiles. A guest that is an engine but for its memory, exports and
manifest, and says which, is a standalone tool: what the engine's part of it costs to compile is known, so that part is
held to the bounds of engines too.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox import admission_checks as checks
from rho_wasm.sandbox import admission_layout as layout
from rho_wasm.sandbox.abi import ENGINE_EXPORTS, ENGINE_EXTENSION, GLOBAL_PREFIX, MANIFEST_SECTION, MEMORY
from rho_wasm.sandbox.admission_module import DATA, DATA_COUNT, EXPORT, MEMORIES, Facts, finished, shown
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.wasm import CUSTOM, HEADER, sections

__all__ = ["AdmittedEngine", "admit_engine", "check_engine_hash", "claimed_engine", "is_standalone_of"]

_OF_STANDALONE = (CUSTOM, MEMORIES, EXPORT, DATA_COUNT, DATA)
"""What a standalone tool has of its own. All else is its engine's."""
_HASH_BYTES = 32

_FUNCTION_KIND, _MEMORY_KIND, _GLOBAL_KIND = 0, 2, 3


@dataclass(frozen=True, slots=True)
class AdmittedEngine:
    """``code`` is what is compiled: the module without its custom sections."""

    code: bytes
    code_bytes: int


def admit_engine(engine: EngineBinary, *, limits: HostLimits | None = None) -> AdmittedEngine:
    """Raises :class:`ModuleRejected`: ``engine_hash`` for other bytes than were named, ``engine_exports``, and what a
    guest is refused for."""
    check_engine_hash(engine)
    module = Facts(engine.wasm, (limits or HostLimits()).for_engines())
    for check in _CHECKS:
        check(module)
    ordered = sorted(module.sections.values(), key=lambda section: section.start)
    code = b"".join([HEADER, *(engine.wasm[section.start : section.end] for section in ordered)])
    return AdmittedEngine(code=code, code_bytes=module.code_bytes)


def check_engine_hash(engine: EngineBinary) -> None:
    """Raises :class:`ModuleRejected` (``engine_hash``) for other bytes than were named."""
    if not hmac.compare_digest(hashlib.sha256(engine.wasm).digest(), engine.sha256):
        raise ModuleRejected(
            "engine_hash",
            f"the engine {shown(engine.name)} is not what its hash says",
            limit=engine.sha256.hex(),
            hint="install it again: rho-wasm engines install",
        )


def claimed_engine(wasm: bytes, *, limits: HostLimits) -> bytes | None:
    """The SHA-256 of the engine that a module says it has in it. None for most, and for what cannot be read or is no
    SHA-256. Takes no longer for a larger module."""
    try:
        payload = _manifest_of(wasm, limits)
        if ENGINE_EXTENSION.encode() not in payload:
            return None
        extensions = Manifest.decode(payload, limits=limits).extensions or {}
    except ModuleRejected:
        return None  # The admission of guests says what is wrong with it.
    claimed = extensions.get(ENGINE_EXTENSION)
    return claimed if isinstance(claimed, bytes) and len(claimed) == _HASH_BYTES else None


def _manifest_of(wasm: bytes, limits: HostLimits) -> bytes:
    """The first one. Empty where there is none, and for one that is too large to be looked at."""
    for section in sections(wasm):
        if section.id == CUSTOM:
            reader = section.reader(wasm)
            if reader.name(max_bytes=limits.name_bytes) == MANIFEST_SECTION:
                small = section.end - reader.position <= limits.manifest_bytes
                return wasm[reader.position : section.end] if small else b""
    return b""


def is_standalone_of(wasm: bytes, engine: EngineBinary) -> bool:
    """Whether ``wasm`` is ``engine``, byte for byte, but for its memory, its data, its exports and its manifest."""
    return _engine_part(wasm) == _engine_part(engine.wasm)


def _engine_part(wasm: bytes) -> bytes:
    # Copies of megabytes hold the interpreter lock, and with it the event loop. Hashing lets go of it.
    part, view = hashlib.sha256(), memoryview(wasm)
    for section in sections(wasm):
        if section.id not in _OF_STANDALONE:
            part.update(view[section.start : section.end])
    return part.digest()


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
    checks.check_types,
    checks.check_imports,
    checks.check_functions,
    checks.check_tables,
    checks.check_memory,
    checks.check_globals,
    _check_exports,
    checks.check_elements,
    checks.check_data,
)
