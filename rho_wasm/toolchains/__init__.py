"""Source text -> artifact, one file a language.

A compiled language (C, C++, Zig, Rust, Go, AssemblyScript, WebAssembly text) has a toolchain that is given the texts of
a project and runs in child processes bounded in time, memory and output (:class:`BuildLimits`), on Linux in reach of
nothing else. What a guest declares of itself is asked in the sandbox. Python, JavaScript and TypeScript are loaded by
an interpreter inside the sandbox, and become images. Most need an extra: ``rho-wasm doctor`` says which.
"""

from __future__ import annotations

from rho_wasm.toolchains.engines import EngineShelf, Progress
from rho_wasm.toolchains.image_builder import ImageBuilder
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.pipeline import build, languages

__all__ = ["BuildLimits", "EngineShelf", "ImageBuilder", "Progress", "build", "languages"]
