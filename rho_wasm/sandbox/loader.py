"""From the bytes of a module to native code: refused before, alive already, cached, or compiled in a child."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable

import anyio.lowlevel
import anyio.to_thread

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.admission import Admitted, admit, check_standalone
from rho_wasm.sandbox.admission_engine import claimed_engine
from rho_wasm.sandbox.admission_image import AdmittedImage, admit_image, is_image
from rho_wasm.sandbox.cache import NativeCache, native_key
from rho_wasm.sandbox.compile import CompileUnavailable, compile_native
from rho_wasm.sandbox.images import COPIED_AT_ONCE, EngineFinder
from rho_wasm.sandbox.interpreters import EngineMissing, Interpreters, link_native, sealed
from rho_wasm.sandbox.module import GuestModule, NativeModule
from rho_wasm.sandbox.rewrite import rewritten
from rho_wasm.sandbox.runtime import Runtime
from rho_wasm.sandbox.sealed import SealedFile, can_seal
from rho_wasm.sandbox.turns import Turns

__all__ = ["Loader"]

_COMPILE_AT_ONCE = 2
"""Children that compile at once: each may take a core and a gigabyte."""
_COMPILING = "compiling"
"""The key of their turns. Those of loads are hashes."""
_REFUSED_KEPT = 1_024
_IN_THREAD = sys.maxsize
"""Of a module that is known to hold the event loop's thread for too long: as if it had done so that often."""


class Loader:
    """Loads modules for one Runtime. The same bytes compile once, however many load them at once."""

    def __init__(
        self,
        runtime: Runtime,
        limits: HostLimits,
        cache: NativeCache | None,
        *,
        make_interpreters: Callable[[], Runtime],
        engines: EngineFinder | None = None,
    ) -> None:
        self.interpreters = Interpreters(limits, make_runtime=make_interpreters, cache=cache, finder=engines)
        self._runtime = runtime
        self._limits = limits
        self._cache = cache
        self._lock = threading.Lock()
        self._alive: dict[str, NativeModule] = {}
        self._refusals: OrderedDict[str, ModuleRejected] = OrderedDict()
        self._of_loop: anyio.lowlevel.RunVar[Turns] = anyio.lowlevel.RunVar("rho_wasm.sandbox.loader")
        self.compiled = 0
        """Modules that were compiled here."""
        self.refused = 0
        """Loads that ended in a refusal."""

    @property
    def alive(self) -> int:
        """Modules whose native code is in memory."""
        return len(self._alive)

    async def load(self, wasm: bytes) -> GuestModule:
        """Raises :class:`ModuleRejected`. A refusal is remembered by hash, so it costs once.

        One load of the same bytes goes on at a time. Where it is cancelled, or a signal handler raises in it, the next
        one takes over.
        """
        try:
            return await self._load(wasm)
        except ModuleRejected:
            self.refused += 1
            raise

    async def _load(self, wasm: bytes) -> GuestModule:
        if len(wasm) > self._limits.for_engines().module_bytes:
            admit(wasm, limits=self._limits)  # It is refused for its size, before anything reads it.
        sha256 = await anyio.to_thread.run_sync(_sha256, wasm)
        return await self._turns().run(sha256, lambda: self._load_now(wasm, sha256))

    async def _load_now(self, wasm: bytes, sha256: str) -> GuestModule:
        if (refusal := self._refusals.get(sha256)) is not None:
            raise _again(refusal)
        native = self._alive.get(sha256)
        if native is not None and native.hold():
            return GuestModule(native)
        try:
            admitted = await anyio.to_thread.run_sync(self._admit, wasm)
            native = await self._native(admitted) if isinstance(admitted, Admitted) else None
        except (CompileUnavailable, EngineMissing):
            raise
        except ModuleRejected as rejected:
            self._remember(sha256, rejected)
            raise
        if native is None:
            assert isinstance(admitted, AdmittedImage), "there are no others"
            # What an engine is refused for is not its images' fault, and is not remembered of them.
            native = await self._over_engine(admitted)
        with self._lock:
            self._alive[sha256] = native
        return GuestModule(native)

    def _admit(self, wasm: bytes) -> Admitted | AdmittedImage:
        limits = self._limits
        if is_image(wasm):
            return admit_image(wasm, limits=limits)
        if (claimed := claimed_engine(wasm, limits=limits)) is None:
            return admit(wasm, limits=limits)
        if (engine := self.interpreters.find(claimed)) is not None:
            return admit(wasm, limits=limits, engine=engine)
        try:
            return admit(wasm, limits=limits)
        except ModuleRejected:
            # What it would be refused for with its engine too is what is wrong with it.
            check_standalone(wasm, limits=limits)
            raise EngineMissing(claimed, needs="the module") from None

    async def _over_engine(self, admitted: AdmittedImage) -> NativeModule:
        engine = await self.interpreters.of_hash(admitted.engine)
        image = admitted.image
        linked = engine.linked.over(image, overruns=_IN_THREAD if image.touched > COPIED_AT_ONCE else 0)
        return NativeModule(admitted.sha256, admitted.manifest, linked, names=b"", on_end=self._ended)

    async def _native(self, admitted: Admitted) -> NativeModule:
        runtime, limits = self._runtime, self._limits
        if admitted.standalone:
            runtime, limits = await self.interpreters.runtime(), limits.for_engines()
        key = native_key(admitted.sha256, runtime.config)
        if self._cache is not None:
            # Native code of an engine is copied nowhere: that would hold the interpreter lock for 100 ms.
            load = self._cache.load_sealed if admitted.standalone and can_seal() else self._cache.load
            cached: SealedFile | bytes | None = await anyio.to_thread.run_sync(load, key)
            if cached is not None:
                try:
                    return await anyio.to_thread.run_sync(self._link, runtime, admitted, cached)
                except ValueError:
                    await anyio.to_thread.run_sync(self._cache.discard, key)
        code = await anyio.to_thread.run_sync(rewritten, admitted.code)
        compiled = await self._turns().run(
            _COMPILING,
            lambda: compile_native(
                code,
                original=b"" if code is admitted.code else admitted.code,
                names=admitted.names,
                code_bytes=admitted.code_bytes,
                limits=limits,
                config=runtime.config,
            ),
            most=_COMPILE_AT_ONCE,
        )
        try:
            native = await anyio.to_thread.run_sync(self._link, runtime, admitted, compiled)
        except ValueError as error:
            raise ModuleRejected("compile_failed", str(error)) from None
        self.compiled += 1
        if self._cache is not None:
            await anyio.to_thread.run_sync(self._cache.store, key, compiled)
        return native

    def _link(self, runtime: Runtime, admitted: Admitted, code: SealedFile | bytes) -> NativeModule:
        if admitted.standalone and isinstance(code, bytes):
            code = sealed(code)
        linked = link_native(runtime, code, guest=True)
        return NativeModule(
            admitted.sha256,
            admitted.manifest,
            linked,
            names=admitted.names,
            on_end=self._ended,
            standalone=admitted.standalone,
        )

    def _ended(self, native: NativeModule) -> None:
        with self._lock:
            if self._alive.get(native.sha256) is native:
                del self._alive[native.sha256]

    def _remember(self, sha256: str, refusal: ModuleRejected) -> None:
        self._refusals[sha256] = _again(refusal)
        while len(self._refusals) > _REFUSED_KEPT:
            self._refusals.popitem(last=False)

    def _turns(self) -> Turns:
        """Those of this event loop, where they are waited for."""
        turns = self._of_loop.get(None)
        if turns is None:
            turns = Turns()
            self._of_loop.set(turns)
        return turns


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _again(refusal: ModuleRejected) -> ModuleRejected:
    """The same refusal without the traceback, and what hangs on it, of the first."""
    return ModuleRejected(
        refusal.reason,
        refusal.detail,
        limit=refusal.limit,
        value=refusal.value,
        name=refusal.name,
        hint=refusal.hint,
    )
