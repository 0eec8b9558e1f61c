"""What this host vouches for: an HMAC under a key of its own, kept outside every store.

A store is a folder, and folders are copied, unpacked and cloned. What its rows say of themselves ("built here",
"approved") holds only where the host that wrote them can be told by a key that the folder does not carry.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Self

from rho_wasm.dynamic.files import sync_folder

__all__ = ["Seal", "default_key_path"]

_KEY_BYTES = 32


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
        return cls(secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def of_host(cls, path: Path) -> Self:
        """The key in ``path``, made at the first use (mode 0600). None where there can be none, or it is not ours."""
        try:
            return cls(_read_key(path) or _make_key(path))
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


def _read_key(path: Path) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PermissionError(f"{path} is not this user's alone")
        key = file.read(_KEY_BYTES + 1)
    return key if len(key) == _KEY_BYTES else None


def _make_key(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(_KEY_BYTES)
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        # A link and not a rename: of two processes that make the key at once, one wins and both use it.
        with suppress(FileExistsError):
            os.link(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
    made = _read_key(path)
    if made is None:
        raise PermissionError(f"{path} is damaged")
    return made
