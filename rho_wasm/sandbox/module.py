"""A module that was admitted and compiled, and how long its native code lives."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import wasmtime

from rho_wasm.errors import Closed
from rho_wasm.limits import Limits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.abi import CALL, ENGINE_EXPORTS, EXPORT_TYPES
from rho_wasm.sandbox.entry import sure_entry
from rho_wasm.sandbox.sealed import SealedFile

if TYPE_CHECKING:
    from rho_wasm.sandbox.instance import GuestInstance

__all__ = ["Export", "GuestModule", "Linked", "Loadable", "NativeModule", "Preparation"]

_SHAPES = {
    name: (len(signature.params), len(signature.results))
    for name, signature in (*EXPORT_TYPES.items(), *ENGINE_EXPORTS.items())
}
_count = ctypes.c_size_t.from_param


class Export(NamedTuple):
    """An export that the host uses: at which place it stands, how many parameters and results it has.

    The first three are as ctypes takes them, for those who call it often.
    """

    place_argument: Any
    params_argument: Any
    results_argument: Any
    params: int
    results: int

    @classmethod
    def at(cls, place: int, name: str) -> Export:
        params, results = _SHAPES.get(name, (0, 0))
        return cls(_count(place), _count(params), _count(results), params, results)


class Preparation(Protocol):
    """What is done with a fresh instance before anything in it is called: an image is laid over its memory."""

    def prepare(self, instance: GuestInstance, limits: Limits) -> None:
        """Raises :class:`CallFailed` where it cannot be done."""


class Linked:
    """Native code with its imports resolved.

    ``exports`` says which of the exports that the host uses are there: what is looked up once is not looked up at each
    call.
    """

    __slots__ = (
        "_module",
        "_suspending",
        "argument",
        "engine",
        "entry",
        "exports",
        "file",
        "frames",
        "overruns",
        "owner",
        "pre",
        "preparation",
    )

    def __init__(
        self,
        module: wasmtime.Module,
        pre: wasmtime.InstancePre,
        exports: Mapping[str, int],
        *,
        owner: Any = None,
        file: SealedFile | None = None,
    ) -> None:
        self.owner = owner
        """What it was linked by, and can be run by; nothing else."""
        self._module = module
        self.pre = pre
        self.argument: Any = ctypes.c_void_p.from_param(ctypes.cast(pre.ptr(), ctypes.c_void_p).value)
        """``pre``, as ctypes takes it."""
        self._suspending: tuple[wasmtime.InstancePre, Any] | None = None
        self.exports = {name: Export.at(place, name) for name, place in exports.items()}
        self.entry = CALL
        """The export that takes the request."""
        self.preparation: Preparation | None = None
        self.engine: Linked | None = None
        """What it lies over, and shares its code with."""
        self.file = file
        """Where its code was mapped from. It is closed with it: until then other processes can map it too."""
        self.frames = b""
        """Of an engine: how its frames are read, as ``frames_section`` has it."""
        self.overruns = 0
        """How often it held the event loop's thread for much longer than a slice."""

    def over(self, preparation: Preparation, *, entry: str = CALL, overruns: int = 0) -> Linked:
        """The same code, prepared so before each call. It lives as long as this does, and is not closed by itself."""
        other = Linked.__new__(Linked)
        other.owner, other.pre, other.argument, other.exports = self.owner, self.pre, self.argument, self.exports
        other._module, other._suspending, other.file, other.engine = self._module, None, None, self
        other.frames = self.frames
        other.entry, other.preparation, other.overruns = entry, preparation, overruns
        return other

    def suspending(self) -> Any:
        """What :attr:`argument` is, of the same code with host functions that a guest can be left in.

        Made when it is first asked for: calls without capabilities need none.
        """
        if self.engine is not None:
            return self.engine.suspending()
        with self.owner.lock:
            if self._suspending is None:
                pre = self.owner.link_suspending(self._module)
                self._suspending = pre, ctypes.c_void_p.from_param(ctypes.cast(pre.ptr(), ctypes.c_void_p).value)
            return self._suspending[1]

    def native(self) -> bytes:
        """The native code, for another process of this host."""
        return bytes(self._module.serialize())

    def close(self) -> None:
        if self.engine is None:
            self.pre.close()
            if self._suspending is not None:
                self._suspending[0].close()
            self._module.close()
        if self.file is not None:
            self.file.close()


class Loadable(Protocol):
    """What a worker process is told of a module."""

    sha256: str
    names: bytes
    declared: frozenset[str]
    linked: Linked


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
        standalone: bool = False,
    ) -> None:
        self.sha256 = sha256
        self.names = names
        """The payload of its ``name`` section."""
        self.manifest = manifest
        self.linked = linked
        self.standalone = standalone
        self.tools = frozenset(tool.name for tool in manifest.tools)
        self.declared = frozenset(manifest.capabilities)
        self._on_end = on_end
        self._holders = 1
        self._lock = threading.Lock()

    def hold(self) -> bool:
        """One more holder. False if it is gone already."""
        held = False
        try:
            with self._lock:
                if self._holders:
                    self._holders += 1
                    held = True
        except BaseException:
            if held:
                self.release()
            raise
        return held

    @sure_entry
    def release(self) -> None:
        """One holder less. Each calls it once."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        try:
            self.linked.close()
        finally:
            self._on_end(self)


class GuestModule:
    """A guest that a Sandbox may call. Made by ``Sandbox.load``; close it when it is no longer offered.

    Calls that run when it is closed end on it; its native code is let go when the last of them ended.
    """

    def __init__(self, native: NativeModule) -> None:
        self.sha256 = native.sha256
        """Of the whole file as it was loaded, in hex."""
        self.manifest: Manifest = native.manifest
        self.standalone = native.standalone
        """It has the code of an engine in it that is installed here, and may be given the limits of engines."""
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
