"""Source text -> artifact, one file a language.

A compiled language has a toolchain that runs in child processes bounded in time, memory and output
(:class:`BuildLimits`): WebAssembly text, for which nothing has to be installed, and C, which needs the extra ``c``.
Both take the declaration of their tools from a manifest that is embedded after linking. Python, JavaScript and
TypeScript (extras ``python`` and ``javascript``) are loaded by an interpreter inside the sandbox, and become images.
"""

from __future__ import annotations

from rho_wasm.toolchains.engines import EngineShelf, Progress
from rho_wasm.toolchains.image_builder import ImageBuilder
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.pipeline import build, languages

__all__ = ["BuildLimits", "EngineShelf", "ImageBuilder", "Progress", "build", "languages"]
