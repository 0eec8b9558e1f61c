"""What this host vouches for: an HMAC under a key of its own, kept outside every store.

A store is a folder, and folders are copied, unpacked and cloned. What its rows say of themselves ("built here",
"approved") holds only where the host that wrote them can be told by a key that the folder does not carry.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Self

from rho_wasm.host_key import KEY_BYTES, host_key

__all__ = ["Seal", "default_key_path"]


def default_key_path() -> Path:
    """``$XDG_STATE_HOME/rho_wasm/store.key``, by default under ``~/.local/state``."""
    base = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return folder / "rho_wasm" / "store.key"


class Seal:
    """Seals and checks rows under one key. A key of None seals nothing and holds nothing: everything is claimed."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    @classmethod
    def random(cls) -> Self:
        """A key for as long as the process lives."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def of_host(cls, path: Path) -> Self:
        """The key in ``path``, made at the first use (mode 0600). None where there can be none, or it is not ours."""
        try:
            return cls(host_key(path))
        except OSError:
            return cls(None)

    def over(self, *fields: str) -> bytes | None:
        """The seal over ``fields``, in this order. None without a key."""
        if self._key is None:
            return None
        mac = hmac.new(self._key, digestmod=hashlib.sha256)
        for field in fields:
            data = field.encode("utf-8", "surrogatepass")
            mac.update(len(data).to_bytes(8, "big") + data)
        return mac.digest()

    def holds(self, seal: bytes | None, *fields: str) -> bool:
        """Whether ``seal`` was made here over exactly these fields."""
        right = self.over(*fields)
        return seal is not None and right is not None and hmac.compare_digest(seal, right)
