"""What an engine says of how its frames are read: which interpreter it is, and where that keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rho_wasm.errors import PlainError
from rho_wasm.plain import decode, encode
from rho_wasm.sandbox.interpreter_frames import FrameReader, InterpreterMemory, Stopped
from rho_wasm.sandbox.javascript_frames import JavaScriptFrames
from rho_wasm.sandbox.python_frames import PythonFrames
from rho_wasm.wasm import custom, with_custom

__all__ = ["FRAMES_SECTION", "frames_section", "stopped_at", "with_frames"]

FRAMES_SECTION: Final = "rho.frames"
"""Of an engine: a map of plain CBOR, ``{"cpython-3.12": address}`` or ``{"quickjs-ng-0.15": address}``."""
_MAX_BYTES: Final = 64
_READERS: Final[dict[str, Callable[[int], FrameReader]]] = {
    "cpython-3.12": PythonFrames,
    "quickjs-ng-0.15": JavaScriptFrames,
}


def frames_section(engine: bytes) -> bytes:
    """The payload of the section, empty where the module ``engine`` has none, or one that is too large."""
    said = custom(engine, FRAMES_SECTION) or b""
    return said if len(said) <= _MAX_BYTES else b""


def stopped_at(section: bytes, base: int, size: int) -> Stopped:
    """Where the tool is whose memory is the ``size`` bytes at ``base``, by the payload of its engine's section.

    Nowhere where that is of no interpreter that is known.
    """
    try:
        said = decode(section, max_bytes=_MAX_BYTES)
    except PlainError:
        return Stopped()
    for name, reader in _READERS.items():
        if isinstance(said, dict) and type(at := said.get(name)) is int:
            return reader(at).read(InterpreterMemory(base, size))
    return Stopped()


def with_frames(engine: bytes, name: str, current: int) -> bytes:
    """The module ``engine`` with a section that says so."""
    assert name in _READERS, "it is known"
    return with_custom(engine, FRAMES_SECTION, encode({name: current}, max_bytes=_MAX_BYTES))
