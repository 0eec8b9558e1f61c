"""Joins an engine and the image of a tool over it into one module that keeps the guest ABI by itself.

It needs no engine on the host that runs it, and any host of the ABI can. It has the engine's code, so it is as large.
"""

from __future__ import annotations

import hashlib

from rho_wasm.errors import ModuleRejected
from rho_wasm.frozen import frozen_map, thaw
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import embed
from rho_wasm.sandbox.abi import ALLOC, CALL, ENGINE_EXTENSION, MEMORY, PAGE_BYTES
from rho_wasm.sandbox.admission_image import admit_image
from rho_wasm.sandbox.admission_module import DATA
from rho_wasm.sandbox.boot import Booted
from rho_wasm.sandbox.data_segments import InitialMemory, active_segments
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.snapshot import snapshot
from rho_wasm.wasm import sections

__all__ = ["standalone"]


def standalone(image: bytes, engine: bytes, *, limits: HostLimits | None = None) -> bytes:
    """One module of ``image`` and the module ``engine`` that it is over. The same input gives the same bytes.

    Its manifest names the engine in ``extensions`` only: a host that has that engine takes the module's code for the
    engine's, and holds it to the bounds of engines. Raises :class:`ModuleRejected` (``engine_hash``) for another engine
    than the image is over, and what admission raises for an image that is none.
    """
    limits = limits or HostLimits()
    admitted = admit_image(image, limits=limits)
    if hashlib.sha256(engine).digest() != admitted.engine:
        raise ModuleRejected("engine_hash", "the image is over another engine", limit=admitted.engine.hex())
    memory = InitialMemory(engine).whole()
    memory.extend(bytes(max(0, admitted.image.pages * PAGE_BYTES - len(memory))))
    for section in sections(image):
        if section.id == DATA:
            for offset, start, length in active_segments(
                section.reader(image), limit=limits.image_segments, reason="data_segments"
            ):
                memory[offset : offset + length] = image[start : start + length]
    booted = Booted(memory=bytes(memory), globals={}, output=b"", stopped=None)
    joined = snapshot(read_module(engine), booted, keep_exports=(MEMORY, ALLOC, CALL))
    said = thaw(admitted.manifest.extensions) if admitted.manifest.extensions is not None else {}
    extensions = said | {ENGINE_EXTENSION: admitted.engine}
    return embed(joined, admitted.manifest.model_copy(update={"engine": None, "extensions": frozen_map(extensions)}))
