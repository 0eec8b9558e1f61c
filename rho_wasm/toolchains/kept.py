"""Where toolchains keep what they compiled of their own: a standard library, once, instead of at each build.

Only builds of trusted texts write there; a build of anybody's source reads it, and leaves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rho_wasm.own_files import own_folder
from rho_wasm.sandbox import NativeCache

__all__ = ["kept_folder"]


def kept_folder(name: str, *, environment: Mapping[str, str] | None = None) -> Path:
    """The folder of the toolchain called ``name``, made (0700) unless it is there.

    Below ``RHO_WASM_TOOLCHAINS``, or ``toolchains`` beside the cache of native code. Raises OSError, PermissionError
    too: where others may write in it.
    """
    given = os.environ if environment is None else environment
    cache = NativeCache.default(environment=environment).folder
    if given.get("RHO_WASM_TOOLCHAINS"):
        folder = Path(given["RHO_WASM_TOOLCHAINS"])
    elif given.get("RHO_WASM_CACHE"):
        folder = cache.with_name(f"{cache.name}-toolchains")
    else:
        folder = cache.with_name("toolchains")
    # The kernel's rules know real paths only.
    made = folder.absolute().resolve() / name
    own_folder(made.parent)
    own_folder(made)
    return made
