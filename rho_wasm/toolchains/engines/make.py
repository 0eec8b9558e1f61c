"""Makes an engine and tries it: a tiny tool must load and answer before the engine is kept anywhere."""

from __future__ import annotations

import hashlib

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.errors import BuildError, Diagnostic, ModuleRejected, ToolError
from rho_wasm.limits import HostLimits
from rho_wasm.results import Ok
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.toolchains.engines.spec import EngineSpec, Progress
from rho_wasm.toolchains.interpreted import image_of
from rho_wasm.untrusted import inert

__all__ = ["make_engine", "try_engine", "unavailable"]

_TRY_MS = 60_000
_TRACE_LINES = 8


async def make_engine(
    spec: EngineSpec, given: bytes, *, cache: NativeCache | None, limits: HostLimits, progress: Progress
) -> EngineBinary:
    """The engine of ``spec``, made of its pinned file ``given``, compiled (into ``cache``) and tried.

    Raises :class:`BuildError` (``engine_failed``).
    """
    progress("starting it inside the sandbox", 0.05)
    try:
        wasm = await spec.build(given)
    except (ModuleRejected, CallFailed) as error:
        raise _failed(spec, error) from error
    engine = EngineBinary(sha256=hashlib.sha256(wasm).digest(), wasm=wasm, name=spec.title)
    progress("compiling it for this machine", 0.35)
    await try_engine(spec, engine, cache=cache, limits=limits, progress=progress)
    return engine


async def try_engine(
    spec: EngineSpec, engine: EngineBinary, *, cache: NativeCache | None, limits: HostLimits, progress: Progress
) -> None:
    """Loads and calls the tool of ``spec.test``. Raises :class:`BuildError` (``engine_failed``)."""
    test = spec.test
    async with Sandbox(
        limits=limits, cache=cache, engines=lambda sha256: engine if sha256 == engine.sha256 else None
    ) as sandbox:
        try:
            image = await image_of(
                sandbox, engine, test.source, file=test.file, language=spec.languages[0], limits=limits
            )
            progress("trying it", 0.9)
            with await sandbox.load(image.wasm) as module:
                result = await sandbox.call(
                    module,
                    tool=test.tool,
                    arguments=test.arguments,
                    context={},
                    limits=limits.engine_call,
                    meter=CallMeter(CallClock(_TRY_MS)),
                )
        except (ModuleRejected, ToolError, BuildError) as error:
            raise _failed(spec, error) from error
    if not isinstance(result, Ok) or result.value != test.answer:
        raise unavailable(spec, "engine_failed", "the engine did not answer its test as it must")


def unavailable(spec: EngineSpec, reason: str, why: str, *, hint: str = "") -> BuildError:
    """Why there is no engine, in words of ours or inert ones."""
    return BuildError(spec.languages[0], [Diagnostic(f"{spec.title}: {why}")], reason=reason, hint=hint)


def _failed(spec: EngineSpec, error: ModuleRejected | CallFailed | ToolError | BuildError) -> BuildError:
    if isinstance(error, BuildError):
        diagnostics = [Diagnostic(f"{spec.title}: its test does not load"), *error.diagnostics]
    else:
        trace = error.trace if isinstance(error, CallFailed) else getattr(error, "backtrace", ())
        why = f"{error.reason}: {inert(error.detail, limit=500)}"
        diagnostics = [Diagnostic(f"{spec.title}: {why}")]
        diagnostics += [Diagnostic(line, severity="note") for line in trace[:_TRACE_LINES]]
    return BuildError(spec.languages[0], diagnostics, reason="engine_failed")
