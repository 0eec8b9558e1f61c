"""Runs one confined child process: the compiler of native code, and the toolchains of others.

The child is spawned, never forked: it shares no memory with the host. It gets a clean environment, its own session,
bounded CPU time, memory and output, and on Linux it can reach no file but those named and no network (confine.py).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from rho_wasm.sandbox import confine

__all__ = ["ChildOutcome", "Confinement", "run_child"]

_CHUNK = 64 * 1024

ChildEnd: TypeAlias = Literal["cpu", "wall", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a child may use. None: not limited (for paths: all). Units are in the names."""

    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    """Address space, which is more than what is resident."""
    file_bytes: int | None = None
    """The largest file that it may write."""
    read: tuple[str, ...] | None = None
    """Files and folders that it may read and execute. Holds where the kernel has Landlock."""
    write: tuple[str, ...] | None = None
    """Files and folders that it may also write. The same."""
    one_session: bool = False
    """No process of it can leave its session, and so outlive it. Holds on Linux on x86-64 and aarch64."""

    def as_json(self, environment: Mapping[str, str] | None = None) -> str:
        """What confine.py reads. ``environment`` is for the program that it then starts."""
        return json.dumps(
            {
                "cpu_ms": None if self.cpu_seconds is None else max(1, round(self.cpu_seconds * 1000)),
                "memory_bytes": self.memory_bytes,
                "file_bytes": self.file_bytes,
                "read": self.read,
                "write": self.write,
                "one_session": self.one_session,
                "environment": dict(environment or {}),
            }
        )

    def wrap(self, argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """``argv`` started through confine.py with exactly ``environment``: for what cannot confine itself."""
        return [sys.executable, "-I", "-S", confine.__file__, self.as_json(environment), "--", *argv]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOutcome:
    """How a child ended.

    ``returncode`` is negative where a signal ended it, and then ``signal`` is that signal. ``reason`` says which bound
    it met: ``cpu``, ``wall`` or ``output`` (it wrote more than it may); None where it ended by itself.
    ``stdout`` and ``stderr`` are bounded, and are bytes of an untrusted program.
    """

    returncode: int
    signal: int | None
    stdout: bytes
    stderr: bytes
    reason: ChildEnd | None

    @property
    def ok(self) -> bool:
        return self.returncode == 0 and self.reason is None


@dataclass(slots=True)
class _Ears:
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    overflow: bool = False


async def run_child(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    confinement: Confinement = Confinement(),
    confines_itself: bool = False,
    wall_seconds: float,
    max_output_bytes: int,
    max_error_bytes: int = 64 * 1024,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> ChildOutcome:
    """Runs ``argv`` to its end and answers how that was. Raises OSError if it cannot be started.

    ``confines_itself`` leaves it to the program to apply ``confinement`` (it imports confine.py); else it is started
    through confine.py. At ``wall_seconds`` or ``max_output_bytes`` (of standard output) it and all that it started
    are killed; standard error beyond ``max_error_bytes`` is dropped. ``env`` replaces the clean environment.
    Cancellation kills too, and waits until the child is gone.
    """
    ears = _Ears()
    environment = dict(env) if env is not None else {"PATH": os.defpath, "LANG": "C.UTF-8"}
    process = await anyio.open_process(
        list(argv) if confines_itself else confinement.wrap(argv, environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=environment,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        with anyio.move_on_after(wall_seconds) as wall:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_feed, process.stdin, stdin)
                tasks.start_soon(_hear, process.stderr, ears.stderr, max_error_bytes)
                if not await _listen(process.stdout, ears.stdout, max_output_bytes):
                    ears.overflow = True
                    tasks.cancel_scope.cancel()
            if not ears.overflow:
                await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            _kill_session(process)
            await process.wait()
            await process.aclose()
    code = process.returncode
    assert code is not None
    return ChildOutcome(
        returncode=code,
        signal=-code if code < 0 else None,
        stdout=bytes(ears.stdout),
        stderr=bytes(ears.stderr),
        reason=_reason(code, wall=wall.cancelled_caught, overflow=ears.overflow),
    )


def _reason(code: int, *, wall: bool, overflow: bool) -> ChildEnd | None:
    if overflow:
        return "output"
    if wall:
        return "wall"
    return "cpu" if code in (-signal.SIGPROF, -signal.SIGXCPU) else None


async def _feed(stream: ByteSendStream, data: bytes) -> None:
    try:
        if data:
            await stream.send(data)
        await stream.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, BrokenPipeError, ConnectionError):
        return  # It ended without reading all; how it ended says the rest.


async def _listen(stream: ByteReceiveStream, into: bytearray, bound: int) -> bool:
    """Reads to the end, or answers False once there is more than ``bound``."""
    try:
        while True:
            into += await stream.receive(_CHUNK)
            if len(into) > bound:
                del into[bound:]
                return False
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return True


async def _hear(stream: ByteReceiveStream, into: bytearray, bound: int) -> None:
    """Reads to the end and keeps the first ``bound`` bytes."""
    try:
        while True:
            chunk = await stream.receive(_CHUNK)
            into += chunk[: bound - len(into)]
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


def _kill_session(process: Process) -> None:
    # The child leads a session of its own, so this ends what it started too.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
