"""A module that was admitted and compiled, and how long its native code lives."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from typing import Self

import wasmtime

from rho_wasm.errors import Closed
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.abi import EXPORT_TYPES

__all__ = ["GuestModule", "Linked", "NativeModule"]


class Linked:
    """Native code with its imports resolved.

    ``exports`` says which of the exports that the host uses are there, at which place each stands and how many results
    it has: what is looked up once is not looked up at each call.
    """

    __slots__ = ("_module", "address", "exports", "overruns", "owner", "pre")

    def __init__(
        self, module: wasmtime.Module, pre: wasmtime.InstancePre, exports: Mapping[str, int], *, owner: object = None
    ) -> None:
        self.owner = owner
        """What it was linked by, and can be run by; nothing else."""
        self._module = module
        self.pre = pre
        self.address = ctypes.cast(pre.ptr(), ctypes.c_void_p).value
        """Of ``pre``, for calls of C."""
        self.exports = {
            name: (place, len(EXPORT_TYPES[name].results) if name in EXPORT_TYPES else 0)
            for name, place in exports.items()
        }
        self.overruns = 0
        """How often it held the event loop's thread for much longer than a slice."""

    def native(self) -> bytes:
        """The native code, for another process of this host."""
        return bytes(self._module.serialize())

    def close(self) -> None:
        self.pre.close()
        self._module.close()


class NativeModule:
    """Native code ready to be instantiated, shared by everything that loaded the same bytes. Counted: 1 at the start.

    ``on_end`` is called once, when the last holder let go and the code is gone.
    """

    def __init__(
        self,
        sha256: str,
        manifest: Manifest,
        linked: Linked,
        *,
        names: bytes,
        on_end: Callable[[NativeModule], None],
    ) -> None:
        self.sha256 = sha256
        self.names = names
        """The payload of its ``name`` section."""
        self.manifest = manifest
        self.linked = linked
        self.tools = frozenset(tool.name for tool in manifest.tools)
        self.declared = frozenset(manifest.capabilities)
        self._on_end = on_end
        self._holders = 1
        self._lock = threading.Lock()

    def hold(self) -> bool:
        """One more holder. False if it is gone already."""
        with self._lock:
            if self._holders == 0:
                return False
            self._holders += 1
            return True

    def release(self) -> None:
        """One holder less. Each calls it once."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            self.linked.close()
        self._on_end(self)


class GuestModule:
    """A guest that a Sandbox may call. Made by ``Sandbox.load``; close it when it is no longer offered.

    Calls that run when it is closed end on it; its native code is let go when the last of them ended.
    """

    def __init__(self, native: NativeModule) -> None:
        self.sha256 = native.sha256
        """Of the whole file as it was loaded, in hex."""
        self.manifest: Manifest = native.manifest
        self._native: NativeModule | None = native

    def held(self) -> NativeModule:
        """The native code, held for one call more: whoever asks releases it. Raises :class:`Closed`."""
        native = self._native
        if native is None or not native.hold():
            raise Closed(f"the module {self.sha256[:12]}")
        return native

    def close(self) -> None:
        """Idempotent."""
        native, self._native = self._native, None
        if native is not None:
            native.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
