"""Whether a module keeps the guest ABI: looked at, then called in a sandbox of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import anyio.to_thread

from rho_wasm.conform.calls import check_calls
from rho_wasm.conform.probe import Probe
from rho_wasm.conform.report import ConformReport, Findings
from rho_wasm.conform.static import CALLED, Looked, clause_of, look
from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.compile import CompileUnavailable
from rho_wasm.sandbox.images import EngineFinder

__all__ = ["conform"]

_SECONDS: Final = 120.0
_ENGINE_REASONS = ("engine_missing", "engine_hash", "engine_exports")


async def conform(
    wasm: bytes,
    *,
    limits: HostLimits | None = None,
    engines: EngineFinder | None = None,
    cache: NativeCache | None = None,
    seconds: float = _SECONDS,
    progress: Callable[[str], None] = lambda _: None,
) -> ConformReport:
    """Looks at every clause of guest_sdk/ABI.md, of which :data:`CLAUSES` is the list, and reports on each.

    The module's calls have no grants, nothing of them is kept, and together they take at most ``seconds`` and the end
    of one call, the making of their arguments included; what is then not looked at is ``not_applicable``. ``engines``
    finds the engine of an image, or of a module that has one in it; where it is not found, nothing is called, and the
    report says which it is. ``limits`` are those of the host that is to run it (the defaults), ``cache`` spares
    compiling again. ``progress`` hears in a few words what is done next: the module's own words may be among them.

    Raises :class:`ModuleRejected` (``compile_unavailable``) only where this host could not compile anything just now.
    """
    limits = limits or HostLimits()
    found = Findings()
    looked = await anyio.to_thread.run_sync(lambda: look(wasm, found, limits=limits, engines=engines))
    calls = 0
    if looked.refused is not None:
        found.skipped(CALLED, f"not looked at: {clause_of(looked.refused)} failed first")
    elif looked.engine is not None and (
        engines is None or await anyio.to_thread.run_sync(engines, looked.engine) is None
    ):
        needed = f"it needs the engine {looked.engine.hex()}, which is not installed here"
        found.skipped(CALLED, f"not called: {needed}; install it, then ask again: rho-wasm engines install")
    else:
        progress("compiling")
        calls = await _call(
            wasm, looked, found, limits=limits, engines=engines, cache=cache, seconds=seconds, progress=progress
        )
    return ConformReport(
        sha256=hashlib.sha256(wasm).hexdigest(),
        clauses=found.results(),
        engine=looked.engine.hex() if looked.engine is not None else None,
        calls=calls,
    )


async def _call(
    wasm: bytes,
    looked: Looked,
    found: Findings,
    *,
    limits: HostLimits,
    engines: EngineFinder | None,
    cache: NativeCache | None,
    seconds: float,
    progress: Callable[[str], None],
) -> int:
    async with Sandbox(limits=limits, cache=cache, way="public", engines=engines) as sandbox:
        try:
            module = await sandbox.load(wasm)
        except CompileUnavailable:
            raise
        except ModuleRejected as refusal:
            clause = clause_of(refusal) if refusal.reason not in _ENGINE_REASONS else "image.engine"
            found.failed(clause, f"{refusal.reason}: {refusal.detail}")
            found.skipped(CALLED, f"not looked at: {clause} failed first")
            return 0
        with module:
            bounds = limits.call_of(image=looked.image, standalone=module.standalone)
            probe = Probe(module, limits=bounds, seconds=seconds)
            await check_calls(sandbox, module, probe, found, memory_bytes=looked.memory_bytes, progress=progress)
            return probe.calls
