"""Source text -> artifact, one file a language.

Each language has a toolchain that runs in child processes bounded in time, memory and output (:class:`BuildLimits`).
For WebAssembly text nothing has to be installed; C needs the extra ``c``. Both take the declaration of their tools from
a manifest that is embedded after linking.
"""

from __future__ import annotations

from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.pipeline import build, languages

__all__ = ["BuildLimits", "build", "languages"]
