"""The engine of ``fixtures/engines/toy.wat``, and images of sources over it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

import wasmtime

from rho_wasm import plain
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.images import EngineBinary, LoadedSource
from rho_wasm.toolchains.image import write_image
from rho_wasm.wasm import CUSTOM, HEADER, encode_name, encode_section, encode_u32
from tests.fixture_build import FIXTURES

__all__ = ["MANIFEST", "engine", "find", "image", "image_of", "load", "loading", "raw_image", "segment", "toy"]

MANIFEST = Manifest.from_json(
    {"abi": 1, "tools": [{"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}]}
)


def engine(text: str, name: str = "toy") -> EngineBinary:
    """An engine of WebAssembly text."""
    wasm = bytes(wasmtime.wat2wasm(text))
    return EngineBinary(hashlib.sha256(wasm).digest(), wasm, name)


@cache
def toy() -> EngineBinary:
    return engine((FIXTURES / "engines" / "toy.wat").read_text(encoding="utf-8"))


def find(sha256: bytes) -> EngineBinary | None:
    """A host that has installed the toy engine."""
    return toy() if sha256 == toy().sha256 else None


def loading(source: str) -> bytes:
    """The request of ``rho_load``."""
    return plain.encode({"file": "f", "source": source})


async def load(sandbox: Sandbox, source: str, *, limits: Limits | None = None) -> LoadedSource:
    return await sandbox.load_source(toy(), loading(source), limits=limits)


async def image(sandbox: Sandbox, source: str) -> bytes:
    """The image of a source over the toy engine, with the tool ``t``."""
    return image_of(await load(sandbox, source))


def image_of(loaded: LoadedSource, manifest: Manifest = MANIFEST) -> bytes:
    return write_image(
        engine=toy().wasm, pages=loaded.pages, changes=loaded.changes, manifest=manifest, limits=HostLimits()
    )


def segment(offset: int, content: bytes, *, head: bytes = b"\0\x41") -> bytes:
    """A data segment as a hostile writer may make it. ``head`` is its flags and its opcode; the offset is unsigned."""
    signed = offset - (1 << 32) if offset >= 1 << 31 else offset
    leb = bytearray()
    for _ in range(4):
        leb.append(signed & 0x7F | 0x80)
        signed >>= 7
    leb.append(signed & 0x7F)
    return head + bytes(leb) + b"\x0b" + encode_u32(len(content)) + content


def raw_image(
    segments: Sequence[bytes] = (),
    *,
    pages: int = 4,
    memory: bytes | None = None,
    imports: Sequence[bytes] | None = None,
    before: bytes = b"",
    after: bytes = b"",
    manifest: Manifest | None = None,
) -> bytes:
    """An image put together by hand. ``before`` and ``after`` stand round its data section, whole sections."""
    kind = memory if memory is not None else b"\0" + encode_u32(pages)
    entries = imports if imports is not None else [encode_name("rho_engine") + encode_name("memory") + b"\x02" + kind]
    declared = manifest or MANIFEST.model_copy(update={"engine": toy().sha256})
    return b"".join(
        [
            HEADER,
            encode_section(2, encode_u32(len(entries)) + b"".join(entries)),
            before,
            encode_section(11, encode_u32(len(segments)) + b"".join(segments)) if segments else b"",
            after,
            encode_section(CUSTOM, encode_name("rho.manifest") + declared.encode()),
        ]
    )
