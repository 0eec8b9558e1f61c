"""Which images are let in: data and a manifest, and nothing that could run (guest_sdk/ABI.md, "Images").

An image is memory contents of a tool, so a hostile one can do what hostile source could: it is bounded, it stays inside
the engine's memory, and what the engine does with it is sandboxed as any guest is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.abi import IMAGE_MEMORY, IMAGE_MODULE, MANIFEST_SECTION, PAGE_BYTES
from rho_wasm.sandbox.admission_layout import manifest_of
from rho_wasm.sandbox.admission_module import CODE, DATA, IMPORT, finished, shown
from rho_wasm.sandbox.data_segments import DataSegment, active_segments
from rho_wasm.sandbox.images import Image
from rho_wasm.wasm import CUSTOM, Reader, Section, sections

__all__ = ["AdmittedImage", "admit_image", "is_image"]

_MEMORY_KIND = 2
_SHARED, _IS_64 = 2, 4
_NAME_BYTES = 1024
_REBUILD: Final = "build the tool again with rho-wasm build"


@dataclass(frozen=True, slots=True)
class AdmittedImage:
    """An image that passed. Whether its engine is there, and is as large as it needs, is seen when it is loaded."""

    sha256: str
    """Of the whole file, in hex."""
    manifest: Manifest
    engine: bytes
    """The SHA-256 of the engine that it was made over: 32 bytes."""
    image: Image


def is_image(wasm: bytes) -> bool:
    """Whether ``wasm`` means to be an image: it imports from ``rho_engine``, or has a memory to fill and no code."""
    try:
        found: dict[int, Section] = {}
        for section in sections(wasm):
            found.setdefault(section.id, section)
        if IMPORT not in found:
            return False
        reader = found[IMPORT].reader(wasm)
        if reader.u32() == 0:
            return False
        module = reader.name(max_bytes=_NAME_BYTES)
        reader.name(max_bytes=_NAME_BYTES)
        return module == IMAGE_MODULE or (CODE not in found and reader.byte() == _MEMORY_KIND)
    except ModuleRejected:
        return False  # The admission of guests says what is wrong with it.


def admit_image(wasm: bytes, *, limits: HostLimits | None = None) -> AdmittedImage:
    """Lets an image in, or raises :class:`ModuleRejected`. Takes time linear in its size, which is bounded."""
    facts = _Image(wasm, limits or HostLimits())
    for check in _CHECKS:
        check(facts)
    assert facts.manifest is not None, "the check of the manifest fills it or raises"
    assert facts.manifest.engine is not None, "and sees to the engine"
    return AdmittedImage(
        sha256=hashlib.sha256(wasm).hexdigest(),
        manifest=facts.manifest,
        engine=facts.manifest.engine,
        image=Image(wasm, facts.segments, pages=facts.pages),
    )


@dataclass(slots=True)
class _Image:
    data: bytes
    limits: HostLimits
    imports: Reader | None = None
    contents: Reader | None = None
    customs: list[tuple[str, Section, int]] = field(default_factory=list)
    pages: int = 0
    segments: Sequence[DataSegment] = ()
    manifest: Manifest | None = None


def _check_size(image: _Image) -> None:
    if (size := len(image.data)) > (limit := image.limits.image_bytes):
        raise ModuleRejected(
            "image_too_large",
            "the image is too large",
            limit=limit,
            value=size,
            hint="let the tool's file make less when it is loaded",
        )


def _check_sections(image: _Image) -> None:
    """An import section, a data section, the manifest: each once, in this order, and nothing else."""
    last = 0
    for section in sections(image.data):
        if section.id == CUSTOM:
            reader = section.reader(image.data)
            name = reader.name(max_bytes=image.limits.name_bytes)
            if name != MANIFEST_SECTION:
                raise ModuleRejected(
                    "image_section", f"an image has no section {shown(name)}", name=shown(name), hint=_REBUILD
                )
            image.customs.append((name, section, reader.position))
            continue
        if section.id not in (IMPORT, DATA) or section.id <= last:
            raise ModuleRejected(
                "image_section",
                f"an image holds one import and data, and no section of id {section.id} here",
                value=section.id,
                hint=_REBUILD,
            )
        last = section.id
        if section.id == IMPORT:
            image.imports = section.reader(image.data)
        else:
            image.contents = section.reader(image.data)


def _check_import(image: _Image) -> None:
    """One, the engine's memory, 32-bit, unshared and without a maximum."""
    reader = image.imports
    count = reader.u32() if reader is not None else 0
    if reader is None or count != 1:
        raise ModuleRejected(
            "image_import", "an image imports its engine's memory alone", limit=1, value=count, hint=_REBUILD
        )
    module, name = (reader.name(max_bytes=image.limits.name_bytes) for _ in range(2))
    full = shown(f"{module}.{name}")
    if (module, name) != (IMAGE_MODULE, IMAGE_MEMORY) or reader.byte() != _MEMORY_KIND:
        raise ModuleRejected(
            "image_import",
            f"an image imports the memory {IMAGE_MODULE}.{IMAGE_MEMORY}, not {full}",
            name=full,
            hint=_REBUILD,
        )
    flags = reader.byte()
    if flags != 0:
        what = "shared" if flags & _SHARED else "64-bit" if flags & _IS_64 else "bounded or of another kind"
        raise ModuleRejected("image_memory", f"the memory of an image is {what}", value=flags, hint=_REBUILD)
    image.pages = reader.u32()
    finished(reader, "import")
    limit = image.limits.engine_call.memory_bytes
    if (size := image.pages * PAGE_BYTES) > limit:
        raise ModuleRejected(
            "image_memory",
            "the memory that the image needs is too large",
            limit=limit,
            value=size,
            hint="let the tool's file make less when it is loaded",
        )


def _check_segments(image: _Image) -> None:
    """Few, active, at constant offsets that ascend, none into another, all inside the memory."""
    if image.contents is None:
        return
    segments = active_segments(image.contents, limit=image.limits.image_segments, reason="image_segments")
    end = 0
    for index, segment in enumerate(segments):
        if segment.offset < end:
            raise ModuleRejected(
                "image_segments",
                f"data segment {index} begins before the one in front of it ends",
                limit=end,
                value=segment.offset,
                hint=_REBUILD,
            )
        end = segment.end
    if end > (size := image.pages * PAGE_BYTES):
        raise ModuleRejected(
            "image_segments", "the last data segment leaves the memory", limit=size, value=end, hint=_REBUILD
        )
    image.segments = segments


def _check_manifest(image: _Image) -> None:
    image.manifest = manifest_of(image.data, image.customs, image.limits)
    if image.manifest.engine is None:
        raise ModuleRejected("image_engine", "the manifest of an image must name its engine", hint=_REBUILD)


_CHECKS: tuple[Callable[[_Image], None], ...] = (
    _check_size,
    _check_sections,
    _check_import,
    _check_segments,
    _check_manifest,
)
