"""A toy engine as if somebody's distribution had brought it: a specification, and the distribution itself."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import wasmtime

from rho_wasm.toolchains.engines.spec import EngineSpec, SelfTest

__all__ = ["TOY_WASM", "install_toy", "same", "toy_spec"]

TOY_WASM = bytes(wasmtime.wat2wasm((Path(__file__).parents[3] / "fixtures" / "engines" / "toy.wat").read_bytes()))


async def same(given: bytes) -> bytes:
    return given


def toy_spec(*, build: Callable[[bytes], Awaitable[bytes]] = same, **changes: Any) -> EngineSpec:
    fields: dict[str, Any] = {
        "name": "toy",
        "languages": ("toyish",),
        "extra": "toy",
        "distribution": "toy-engine",
        "version": "1.0",
        "file": "toy_engine/toy.wasm",
        "sha256": hashlib.sha256(TOY_WASM).hexdigest(),
        "licence": "Apache-2.0",
        "upstream": "a file of these tests",
        "revision": 1,
        "test": SelfTest(file="t", source="--", tool="t", arguments={}, answer=["--", 1, 1]),
    }
    return EngineSpec(build=build, **fields | changes)


def install_toy(folder: Path, *, wasm: bytes = TOY_WASM) -> None:
    """What ``pip install toy-engine`` would do, in ``folder``, which must be on the path."""
    (folder / "toy_engine").mkdir()
    (folder / "toy_engine" / "toy.wasm").write_bytes(wasm)
    about = folder / "toy_engine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-engine\nVersion: 1.0\n")
