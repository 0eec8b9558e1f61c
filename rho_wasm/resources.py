"""Files that ship with the package: the C header, the demo's guests and data."""

from __future__ import annotations

from pathlib import Path

__all__ = ["fixture", "sdk"]

_PACKAGE = Path(__file__).parent


def _find(shipped: str, checkout: str, name: str) -> Path:
    """In an installed package the files lie in ``_data``, in a checkout (an editable install) beside the package."""
    for folder in (_PACKAGE / "_data" / shipped, _PACKAGE.parent / checkout):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{name} is missing from this installation of rho_wasm: install the package again")


def fixture(name: str) -> Path:
    """The path of ``fixtures/NAME``. Raises FileNotFoundError in a broken installation."""
    return _find("fixtures", "fixtures", name)


def sdk(name: str) -> Path:
    """The path of ``guest_sdk/NAME``, for example ``c/rho.h``. Raises FileNotFoundError in a broken installation."""
    return _find("guest_sdk", "guest_sdk", name)
