"""Native code from an admitted module, or only whether it is valid: found out in a child that it may bring down.

Compilation cannot be interrupted, and modules exist that make a compiler take hours or all memory. Admission keeps the
worst out; the child bears the rest: its CPU time and address space are bounded, and it can write nothing.
"""

from __future__ import annotations

import errno
import json
import signal
import sys
from pathlib import Path
from typing import Literal, TypeAlias

from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox import capi
from rho_wasm.sandbox.child import ChildOutcome, Confinement, run_child
from rho_wasm.sandbox.config import EngineConfig, guest_config
from rho_wasm.sandbox.invalid import one_line
from rho_wasm.untrusted import inert

__all__ = ["CompileUnavailable", "compile_native", "validate"]

_REFUSED = 3
_NATIVE_BYTES = 512 * 1024 * 1024
_WALL_FACTOR, _WALL_EXTRA_S = 4, 10
"""The child shares the host's cores: it may wait for them much longer than it computes."""
_MESSAGE_CHARS = 500

_Task: TypeAlias = Literal["compile", "validate"]


class CompileUnavailable(ModuleRejected):
    """The child could not do its work for a reason that is not the module's. Trying again may help."""

    def __init__(self, detail: str) -> None:
        super().__init__("compile_unavailable", detail, hint="try again; the module was not looked at")


async def compile_native(
    code: bytes, *, original: bytes = b"", names: bytes = b"", code_bytes: int, limits: HostLimits, config: EngineConfig
) -> bytes:
    """Native code of the module ``code`` for engines of ``config``.

    ``original`` is what ``code`` was made of by the host, if it was: it must be valid by itself.

    Raises :class:`ModuleRejected`: ``invalid`` with wasmtime's own message, ``compile_timeout``, ``compile_memory``,
    ``compile_failed`` where the compiler crashed; :class:`CompileUnavailable` where the host is at fault.
    """
    return await _run(
        "compile", code, original=original, names=names, code_bytes=code_bytes, limits=limits, config=config
    )


async def validate(code: bytes, *, names: bytes = b"", code_bytes: int, limits: HostLimits) -> None:
    """Raises :class:`ModuleRejected` as :func:`compile_native` would for an invalid module, and compiles nothing.

    ``invalid`` names the function: by ``names``, the payload of the module's ``name`` section, else by its export. The
    bounds are those of compiling, which takes many times as long.
    """
    # What is valid hangs on the features, which are the same whatever traps are made of.
    config = guest_config(stack_bytes=limits.guest_stack_bytes, signals_based_traps=False)
    await _run("validate", b"", original=code, names=names, code_bytes=code_bytes, limits=limits, config=config)


async def _run(
    task: _Task,
    code: bytes,
    *,
    original: bytes,
    names: bytes,
    code_bytes: int,
    limits: HostLimits,
    config: EngineConfig,
) -> bytes:
    budget_ms = limits.compile_budget_ms(code_bytes)
    confinement = Confinement(
        cpu_seconds=budget_ms / 1000,
        memory_bytes=limits.compile_memory_bytes,
        file_bytes=0,
        read=(),
        write=(),
    )
    job = {
        "task": task,
        "original": len(original),
        "library": capi.library_path(),
        "settings": json.loads(config.as_json()),
        "limits": json.loads(confinement.as_json()),
    }
    try:
        outcome = await run_child(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("compile_child.py")), json.dumps(job)],
            stdin=original + code,
            confines_itself=True,
            wall_seconds=budget_ms / 1000 * _WALL_FACTOR + _WALL_EXTRA_S,
            max_output_bytes=_NATIVE_BYTES,
        )
    except OSError as error:
        raise CompileUnavailable(f"no child process could be started (error {error.errno})") from None
    if outcome.ok and (outcome.stdout or task == "validate"):
        return outcome.stdout
    said = outcome.stderr.decode("utf-8", "replace").strip()
    if outcome.returncode == _REFUSED:
        said = one_line(said, original or code, names=names)
    raise _rejection(outcome, inert(said, limit=_MESSAGE_CHARS), budget_ms=budget_ms, limits=limits)


def _rejection(outcome: ChildOutcome, said: str, *, budget_ms: int, limits: HostLimits) -> ModuleRejected:
    if outcome.reason == "cpu":
        return ModuleRejected(
            "compile_timeout", "compiling it took too long", limit=budget_ms, hint="make its functions smaller"
        )
    if outcome.reason == "wall":
        return CompileUnavailable("the host was too busy to compile it")
    if _out_of_memory(outcome):
        return ModuleRejected(
            "compile_memory",
            "compiling it took too much memory",
            limit=limits.compile_memory_bytes,
            hint="make its functions smaller",
        )
    if outcome.returncode == _REFUSED:
        return ModuleRejected("invalid", said, hint="wasmtime does not accept this module")
    if outcome.signal == signal.SIGKILL:
        return CompileUnavailable("the compiling process was killed from outside")
    how = f"signal {outcome.signal}" if outcome.signal else f"exit code {outcome.returncode}"
    return ModuleRejected("compile_failed", f"the compiler ended with {how}: {said}")


def _out_of_memory(outcome: ChildOutcome) -> bool:
    text = outcome.stderr
    if outcome.signal == signal.SIGABRT:
        return b"memory allocation of" in text  # Rust aborts where an allocation fails, and says so.
    return b"MemoryError" in text or f"os error {errno.ENOMEM}".encode() in text
