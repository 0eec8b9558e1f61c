"""One built guest: its bytes, what they declare, and what is known of where they came from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias

from rho_wasm import wasm as module
from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import KIB, MIB, HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.portable import check_declared
from rho_wasm.sandbox.abi import ENGINE_EXTENSION, MANIFEST_SECTION
from rho_wasm.sandbox.admission_engine import claimed_engine

__all__ = ["MAX_LOG_CHARS", "MAX_SOURCE_CHARS", "Artifact", "Provenance"]

Provenance: TypeAlias = Literal["built here", "claimed"]

MAX_SOURCE_CHARS = 1 * MIB
"""Of an artifact's source text. A longer one is refused: a reviewer is shown all of it or none."""
MAX_LOG_CHARS = 64 * KIB
"""Of a build's log. The rest is cut."""
_MAX_NAME_CHARS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One built guest, named by the SHA-256 of its bytes. ``manifest`` and ``sha256`` are read from ``wasm`` itself.

    ``provenance`` is ``built here`` where this host's toolchain made the bytes of ``source``, else ``claimed``: then
    source, language and toolchain are what somebody said. It is never read from a file: :meth:`from_wasm` always
    answers ``claimed``, only a toolchain calls :meth:`built`, and a store keeps it under its host's key.

    Raises :class:`ModuleRejected` (``module_bytes``, ``manifest_*``, ``header`` ...) for bytes that hold no manifest
    of this ABI. Whether the module itself is let in is decided by the switch gate ``admission``.
    """

    wasm: bytes = field(repr=False)
    source: str | None = field(default=None, repr=False)
    language: str | None = None
    toolchain: str | None = None
    log: str = field(default="", repr=False)
    provenance: Provenance = "claimed"
    manifest: Manifest = field(init=False, repr=False, compare=False)
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        limits = HostLimits()
        limit, size = limits.module_bytes, len(self.wasm)
        if limit < size <= limits.for_engines().module_bytes and claimed_engine(self.wasm, limits=limits) is not None:
            limit = size  # It has an engine in it, it says; admission sees whether that is so.
        if size > limit:
            raise ModuleRejected("module_bytes", "the module is too large", limit=limit, value=len(self.wasm))
        if self.source is not None and len(self.source) > MAX_SOURCE_CHARS:
            raise ModuleRejected(
                "source_too_large", "the source is too long", limit=MAX_SOURCE_CHARS, value=len(self.source)
            )
        if self.source is not None and not _is_text(self.source):
            raise ModuleRejected("source_not_text", "the source has lone surrogates, which no file can hold")
        payload = module.custom(self.wasm, MANIFEST_SECTION)
        if payload is None:
            raise ModuleRejected(
                "manifest_missing",
                f"the module has no section {MANIFEST_SECTION}",
                hint="build it with rho-wasm build, which embeds the manifest",
            )
        manifest = Manifest.decode(payload)
        if ENGINE_EXTENSION not in (manifest.extensions or {}):
            self._check_size(HostLimits().module_bytes)
        object.__setattr__(self, "wasm", bytes(self.wasm))
        object.__setattr__(self, "log", _text(self.log, MAX_LOG_CHARS))
        for name in ("language", "toolchain"):
            if (text := getattr(self, name)) is not None:
                object.__setattr__(self, name, _text(text, _MAX_NAME_CHARS))
        object.__setattr__(self, "manifest", manifest)
        object.__setattr__(self, "sha256", hashlib.sha256(self.wasm).hexdigest())

    def _check_size(self, limit: int) -> None:
        if len(self.wasm) > limit:
            raise ModuleRejected("module_bytes", "the module is too large", limit=limit, value=len(self.wasm))

    @classmethod
    def from_wasm(cls, wasm: bytes, *, source: str | None = None, language: str | None = None) -> Self:
        """An artifact of bytes from elsewhere: whatever is said of them is ``claimed``."""
        return cls(wasm=wasm, source=source, language=language)

    @classmethod
    def built(cls, wasm: bytes, *, source: str | None, language: str, toolchain: str, log: str = "") -> Self:
        """An artifact that a toolchain of this host has just made of ``source``. For toolchains alone to call.

        Raises :class:`ModuleRejected` (``schema_unportable``) too, for a tool that the API of a model would refuse.
        """
        made = cls(wasm=wasm, source=source, language=language, toolchain=toolchain, log=log, provenance="built here")
        check_declared(made.manifest.tools)
        return made

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of its tools, in the manifest's order."""
        return tuple(tool.name for tool in self.manifest.tools)

    def as_json(self) -> dict[str, Any]:
        """What it is, without its bytes, source and log."""
        return {
            "sha256": self.sha256,
            "bytes": len(self.wasm),
            "tools": list(self.tools),
            "language": self.language or self.manifest.language,
            "toolchain": self.toolchain,
            "provenance": self.provenance,
            "has_source": self.source is not None,
        }


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(text: str, limit: int) -> str:
    return text[:limit].encode("utf-8", "replace").decode()
