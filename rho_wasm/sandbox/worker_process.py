"""The host's end of one worker process: starting it, hearing it within bounds, and how it ended."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from rho_wasm.limits import HostLimits, Limits
from rho_wasm.sandbox.frames import HEAD, CallAsked, Granted, Strange, framed, framed_call
from rho_wasm.sandbox.images import Image
from rho_wasm.sandbox.module import Linked, Loadable
from rho_wasm.sandbox.sealed import SealedFile
from rho_wasm.sandbox.ticker import TickerKind
from rho_wasm.sandbox.ways import Way

__all__ = ["PROGRAM", "Gone", "Job", "WorkerProcess", "signal_name"]

_CHUNK = 64 * 1024
_MORE_S = 0.25
"""How much later a worker is looked at again that has said something: this process may have been asleep meanwhile."""
_NATIVE_BYTES = 256 * 1024 * 1024
"""Of native code that one worker keeps. The least recently called modules are let go."""
_FRAME_BYTES = 2**31 - 1
"""Of what a host says: its parts are bounded already."""
_HELLO_BYTES = 4_096
_EXIT_S = 1.0
"""How long a worker that closed its end may take to be gone. Then it is killed."""
_GREETING_S = 30.0
"""How long one may take to serve from when it is first waited for. It takes 0.2 s where nobody else computes."""
_InThread: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Does something in a thread, and waits until it is done."""
PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])["path"]
from rho_wasm.sandbox.worker import main
main()
"""
"""What a worker runs. It finds modules where this process does, and looks at no variable of the environment."""


class Gone(Exception):
    """The worker's end of the socket is closed. ``unread``: it had not read all that it was sent."""

    def __init__(self, *, unread: bool = False) -> None:
        super().__init__(unread)
        self.unread = unread


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every worker of a host is started with."""

    limits: HostLimits
    way: Way
    ticker: TickerKind | None
    signals_based_traps: bool

    def as_json(self, fd: int) -> str:
        return json.dumps(
            {
                "path": [str(Path(folder).absolute()) for folder in sys.path],
                "fd": fd,
                "limits": self.limits.model_dump(),
                "way": self.way,
                "ticker": self.ticker,
                "signals_based_traps": self.signals_based_traps,
            }
        )


class WorkerProcess:
    """One worker. One task uses it at a time; :meth:`kill` comes from anywhere.

    What was sent and heard in part stays in here, so whoever is cancelled in between leaves it as it was. Whoever is
    interrupted may leave it otherwise: then it is not ``intact``, and of no use any more.
    """

    def __init__(self, job: Job) -> None:
        """Starts it: a moment, in which nothing is waited for. Raises OSError where the system starts no process."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and words of ours
                    [sys.executable, "-I", "-c", PROGRAM, job.as_json(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    cwd="/",
                    env=_environment(),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self._socket = ours
        self._out = bytearray()
        self._in = bytearray()
        self._number = 0
        self._limits: Limits | None = None
        self._modules: OrderedDict[str, int] = OrderedDict()
        self._engines: list[Linked] = []
        """Those that it has. It knows each by its place here."""
        self._files: deque[tuple[int, SealedFile]] = deque()
        """Files that go over behind so many bytes of all that is sent, each beside one byte more."""
        self._sent = 0
        self._ready = False
        self.intact = True
        """False while it is not known here what was sent, or what was heard is not yet dealt with."""
        self.lease: weakref.ref[object] | None = None
        """Whose it is. It and the next two are the pool's (workers.py)."""
        self.doomed = False
        """It is not used any more, and is to end."""
        self.used = 0
        """When it was last taken: a higher number is later."""
        self.until = math.inf
        """When it is killed if it said nothing meanwhile, by the monotonic clock."""
        self.overdue = False
        """It was."""

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self) -> None:
        """Waits until it serves. Raises :class:`Gone` (of one that takes too long, too), :class:`Strange`."""
        if not self._ready:
            self.until = time.monotonic() + _GREETING_S
            try:
                await self.hear(_HELLO_BYTES)
            finally:
                self.until = math.inf
            self._ready = self.intact = True

    @property
    def quiet(self) -> bool:
        """Whether it is there and says nothing, as one without a call must."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self._in
        except OSError:
            return False
        return False

    async def load(self, module: Loadable, *, in_thread: _InThread) -> None:
        """Puts the module's native code before the next call, unless it is there."""
        if module.sha256 in self._modules:
            self._modules.move_to_end(module.sha256)
            return
        if (engine := module.linked.engine) is None:
            frame, size = await in_thread(partial(_load_frame, module))
        else:
            if engine not in self._engines:
                await self._load_engine(engine, in_thread)
            frame, size = _frame_over(self._engines.index(engine), module)
        self.intact = False
        self._modules[module.sha256] = size
        while sum(self._modules.values()) > _NATIVE_BYTES and len(self._modules) > 1:
            dropped, _ = self._modules.popitem(last=False)
            self.put({"drop": dropped})
        self._out += frame
        self.intact = True

    async def _load_engine(self, engine: Linked, in_thread: _InThread) -> None:
        """Puts the native code of an engine before the next module: as a file to map, where there are such files."""
        if engine.file is None:
            frame = await in_thread(
                lambda: framed({"engine": engine.native(), "frames": engine.frames}, max_bytes=_FRAME_BYTES)
            )
            self.intact = False
            self._out += frame
        else:
            self.intact = False
            self.put({"engine": None, "frames": engine.frames})
            self._files.append((self._sent + len(self._out), engine.file))
        self._engines.append(engine)
        self.intact = True

    def put_call(
        self, module: Loadable, request: bytes, *, limits: Limits, deadline_ms: float, granted: Granted | None
    ) -> int:
        """Puts one call of a loaded module. Answers the call's number."""
        self.intact = False
        self._number += 1
        if limits is not self._limits and limits != self._limits:
            self.put({"limits": limits.model_dump()})
        self._limits = limits
        self._out += framed_call(CallAsked(self._number, module.sha256, deadline_ms, granted, request))
        self.intact = True
        return self._number

    def put(self, message: Mapping[str, Any]) -> None:
        """The next :meth:`flush` sends it."""
        self._out += framed(message, max_bytes=_FRAME_BYTES)

    async def flush(self) -> None:
        """Sends what was not sent yet. Raises :class:`Gone`."""
        while self._out or self._files:
            before = self._files[0][0] - self._sent if self._files else None
            self.intact = False
            try:
                if before is None:
                    sent = self._socket.send(self._out)
                elif before > 0:
                    sent = self._socket.send(self._out[:before])
                else:
                    socket.send_fds(self._socket, [b"\0"], [self._files[0][1].descriptor])
                    self._files.popleft()
                    sent = 0
            except BlockingIOError:
                self.intact = True
                await anyio.wait_writable(self._socket)
                continue
            except OSError:
                raise Gone(unread=True) from None
            self._sent += sent
            del self._out[:sent]
            self.intact = True

    async def hear(self, max_bytes: int) -> bytes:
        """The next frame, of at most ``max_bytes``. Raises :class:`Gone`, :class:`Strange`.

        It is said once: the worker is ``intact`` again when whoever hears it says so.

        Linux resets a socket whose other end is closed with something unread in it; elsewhere ``unread`` is not known.
        """
        more = False
        while True:
            if not more:
                # Whoever hears has just sent, and nobody answers before this process lets go of its core.
                await anyio.wait_readable(self._socket)
            self.intact = False
            try:
                piece = self._socket.recv(_CHUNK)
            except BlockingIOError:
                self.intact, more = True, False
                continue
            except OSError as error:
                raise Gone(unread=isinstance(error, ConnectionResetError)) from None
            if not piece:
                raise Gone
            self._in += piece
            if (body := self._whole(max_bytes)) is not None:
                return body
            more = len(piece) == _CHUNK
            self.intact = True

    def look(self, now: float) -> None:
        """Kills it if it should have spoken by ``now`` (monotonic clock). From the thread that watches the workers."""
        if now < self.until:
            return
        try:
            if self._socket.recv(1, socket.MSG_PEEK):
                self.until = now + _MORE_S
                return
        except BlockingIOError:
            self.overdue = True
        except OSError:
            return  # It is closed, or gone.
        self.kill()

    def kill(self) -> None:
        """Ends it, whatever it does. Idempotent, and from any thread."""
        self._process.kill()

    def close(self) -> None:
        """Lets go of the socket: a worker that is left alone ends. Idempotent; not while somebody hears it."""
        self._socket.close()

    def reap(self) -> int:
        """Waits until it is gone, and kills it where that takes long. Its exit code; negative is a signal's number."""
        try:
            return self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def ends_within(self, seconds: float) -> bool:
        """Waits so long for its end, and answers whether that came. It is no zombie then."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _whole(self, max_bytes: int) -> bytes | None:
        """The frame that was received, and nothing but it: a worker says one thing and then waits."""
        if len(self._in) < HEAD.size:
            return None
        (length,) = HEAD.unpack_from(self._in)
        if length > max_bytes:
            raise Strange("it sent more than its limits allow")
        if len(self._in) < HEAD.size + length:
            return None
        if len(self._in) > HEAD.size + length:
            raise Strange("it spoke out of turn")
        body = bytes(self._in[HEAD.size :])
        self._in.clear()
        return body


def _load_frame(module: Loadable) -> tuple[bytes, int]:
    native = module.linked.native()
    message = {
        "load": module.sha256,
        "native": native,
        "names": module.names,
        "declared": sorted(module.declared),
        "interpreter": module.linked.owner.interpreters,
    }
    return framed(message, max_bytes=_FRAME_BYTES), len(native)


def _frame_over(engine: int, module: Loadable) -> tuple[bytes, int]:
    """Of an image, or of what calls the engine's ``rho_load``."""
    image = module.linked.preparation
    data = image.data if isinstance(image, Image) else None
    message = {"load": module.sha256, "over": engine, "image": data, "declared": sorted(module.declared)}
    return framed(message, max_bytes=_FRAME_BYTES), len(data or b"")


def _environment() -> dict[str, str]:
    """Nothing of the host's, which may be secret, but where its libraries lie."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    return {"PATH": os.defpath, "LANG": "C.UTF-8", **kept}


def signal_name(number: int) -> str:
    """SIGSEGV for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
