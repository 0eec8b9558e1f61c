"""A worker process: runs guests for a host, one call at a time, told and heard through one socket.

    python -I -c "... from rho_wasm.sandbox.worker import main; main()" '{"fd": 7, "limits": {...}, "way": ...}'

It gets native code and requests and answers what guests answer. Before the first guest it shuts itself in: from then on
it reads no file, writes none, opens no TCP connection and signals nobody outside (where the kernel has Landlock), so
a guest that breaks out of WebAssembly finds itself before a second wall. It has one thread, which looks at the socket
at every tick of the epoch while a guest runs: whatever is there then ends the call, and an end of file the process.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

from rho_wasm import plain
from rho_wasm.errors import CapabilityError
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.sandbox import confine
from rho_wasm.sandbox.admission_image import admit_image
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.frames import (
    HEAD,
    CallAsked,
    Ended,
    Granted,
    framed,
    framed_answer,
    largest_of_worker,
    read_call,
)
from rho_wasm.sandbox.loading import LoadCall, LoadedEngine
from rho_wasm.sandbox.module import Linked
from rho_wasm.sandbox.runtime import Runtime
from rho_wasm.sandbox.sealed import SealedFile
from rho_wasm.sandbox.slices import SlicedCall
from rho_wasm.sandbox.source_message import loaded_message
from rho_wasm.sandbox.state import CallState, Elsewhere, GuestTrap
from rho_wasm.untrusted import type_name

__all__ = ["main"]

_TICKS = 1
"""So often a guest is looked after: nobody else wants this process's interpreter."""


def main() -> None:
    """Serves until the host is gone."""
    job = json.loads(sys.argv[1])
    if job["way"] == "native":
        # Imported before the walls go up.
        from rho_wasm.sandbox import engines, fiber, native, suspending, suspending_fiber  # noqa: F401
    line = _Line(socket.socket(fileno=job["fd"]))
    confine.apply({"read": [], "write": []})
    limits = HostLimits.model_validate(job["limits"])
    make_runtime = partial(
        Runtime, limits, way=job["way"], ticker=job["ticker"], signals_based_traps=job["signals_based_traps"]
    )
    worker = _Worker(line, limits, make_runtime)
    line.say({"ready": os.getpid()})
    worker.serve()


class _Line:
    """The socket to the host. Its end is this process's end."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def say(self, message: Mapping[str, Any], *, max_bytes: int = 4_096) -> None:
        self.say_framed(framed(message, max_bytes=max_bytes))

    def say_framed(self, frame: bytes) -> None:
        try:
            self._socket.sendall(frame)
        except OSError:
            _leave()

    def hear(self) -> bytes:
        """The next frame."""
        (length,) = HEAD.unpack(self._read(HEAD.size))
        return self._read(length)

    def hear_message(self) -> dict[str, Any]:
        return _message(self.hear())

    def spoken_to(self) -> bool:
        """Whether the host has said something that waits."""
        try:
            data = self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            _leave()
        return True

    def file(self) -> SealedFile:
        """The file that was sent behind the last message."""
        try:
            _, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        except OSError:
            descriptors = []
        if not descriptors:
            _leave()
        return SealedFile(descriptors[0])

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            try:
                # No more than that: behind it may be a file.
                piece = self._socket.recv(length - len(data), socket.MSG_WAITALL)
            except OSError:
                _leave()
            if not piece:
                _leave()
            data += piece
        return data


class _LookedAfter(SlicedCall):
    """A call that the host may end by saying anything."""

    line: _Line

    def ask(self) -> int:
        if self.line.spoken_to():
            self.state.cancelled = True
        return min(super().ask(), _TICKS)


class _Loading(_LookedAfter, LoadCall):
    """The same of a source that is loaded."""


class _Module:
    def __init__(
        self, linked: Linked, names: bytes, declared: frozenset[str], *, source_of: LoadedEngine | None = None
    ) -> None:
        self.linked = linked
        self.source_of = source_of
        """Calls load a source into this engine, whose code it is."""
        self.names = names
        self.declared = declared

    def close(self) -> None:
        if self.source_of is None:
            self.linked.close()


class _OfHost:
    """The capabilities of one call, which are the host's: it is asked, and this process waits."""

    def __init__(self, line: _Line, asked: CallAsked, limits: Limits, granted: Granted) -> None:
        self._line = line
        self._number = asked.number
        self._deadline_ms = round(asked.deadline_ms)
        self._bounds = {"max_bytes": limits.request_bytes, "max_depth": limits.depth, "max_items": limits.items}
        self._most = largest_of_worker(limits)
        self.clock_ns, self.seed = granted

    def answer_now(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        self._line.say(
            {"call": self._number, "capability": capability, "arguments": plain.encode(arguments, **self._bounds)},
            max_bytes=self._most,
        )
        told = self._line.hear_message()
        if "reply" in told:
            data = told["reply"]  # Within the call's own bounds, which the host held it to.
            reply = plain.decode(data, max_bytes=len(data), max_depth=plain.MAX_DEPTH, max_items=len(data))
            if "ok" in reply:
                return reply["ok"]
            raise CapabilityError(reply["error"]["kind"], reply["error"]["message"])
        if "overdue" in told:
            # The host's clock began a moment before this process's.
            detail = f"its time was over while it waited for {capability}"
            raise GuestTrap("deadline", detail, limit="deadline_ms", value=self._deadline_ms)
        raise GuestTrap("cancelled", "the call was cancelled")

    async def answer(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        raise AssertionError("it was answered")


class _Worker:
    def __init__(self, line: _Line, limits: HostLimits, make_runtime: Callable[..., Runtime]) -> None:
        self._line = line
        self._host_limits = limits
        self._make_runtime = make_runtime
        self._runtime = make_runtime()
        self._modules: dict[str, _Module] = {}
        self._interpreters: Runtime | None = None
        self._engines: list[LoadedEngine] = []
        self._limits = Limits()

    def serve(self) -> NoReturn:
        while True:
            body = self._line.hear()
            if (asked := read_call(body)) is not None:
                self._call(asked)
                continue
            message = _message(body)
            if "over" in message:
                self._modules[message["load"]] = self._over(self._engines[message["over"]], message)
            elif "load" in message:
                runtime = self._for_interpreters() if message["interpreter"] else self._runtime
                self._modules[message["load"]] = _Module(
                    runtime.link(message["native"], guest=True), message["names"], frozenset(message["declared"])
                )
            elif "engine" in message:
                self._add_engine(message["engine"], message["frames"])
            elif "drop" in message:
                self._modules.pop(message["drop"]).close()
            elif "limits" in message:
                self._limits = Limits(**message["limits"])
            # What is left is a cancellation that came after its call had ended.

    def _for_interpreters(self) -> Runtime:
        if self._interpreters is None:
            self._interpreters = self._make_runtime(interpreters=True)
        return self._interpreters

    def _add_engine(self, native: bytes | None, frames: bytes) -> None:
        linked = self._for_interpreters().link(self._line.file() if native is None else native)
        linked.frames = frames
        if linked.file is not None:
            linked.file.close()  # It is mapped, and goes nowhere from here.
        self._engines.append(LoadedEngine(b"", "", linked))

    def _over(self, engine: LoadedEngine, message: dict[str, Any]) -> _Module:
        if message["image"] is None:
            return _Module(engine.linked, b"", frozenset(), source_of=engine)
        image = admit_image(message["image"], limits=self._host_limits).image
        return _Module(engine.linked.over(image), b"", frozenset(message["declared"]))

    def _call(self, asked: CallAsked) -> None:
        module, limits, number = self._modules[asked.module], self._limits, asked.number
        capabilities = None if asked.granted is None else _OfHost(self._line, asked, limits, asked.granted)

        def new_call() -> _LookedAfter:
            if module.source_of is not None:
                load = _Loading(module.source_of, limits=limits, image_bytes=self._host_limits.image_bytes)
                load.line = self._line
                return load
            state = CallState(
                limits=limits,
                declared=module.declared,
                capabilities=capabilities,
                names=module.names,
            )
            call = _LookedAfter(module.linked.owner, module.linked, state, deadline_ms=asked.deadline_ms)
            call.line = self._line
            return call

        call = new_call()
        failed, answer, before_ms, before_cpu_ms = None, b"", 0.0, 0.0
        try:
            try:
                answer = self._run(call, asked.request)
            except Elsewhere:
                # Nobody sees that it begins again: it had no effect outside of itself.
                before_ms, before_cpu_ms = call.guest_ms, call.guest_cpu_ms + call.host_cpu_ms
                call = new_call()
                answer = call.run(asked.request)
        except CallFailed as failure:
            failed = failure
        except Exception as error:
            failed = CallFailed("capability_fault", f"a host function raised {type_name(error)}")
        call.finish()
        ended = Ended(
            answer=answer,
            failed=failed,
            fuel_used=call.fuel_used,
            guest_ms=call.guest_ms + before_ms,
            guest_cpu_ms=call.guest_cpu_ms + call.host_cpu_ms + before_cpu_ms,
            memory_refused=call.memory_refused,
            log=call.log,
        )
        frame = framed_answer(ended, number)
        self._line.say_framed(frame or framed(ended.as_message(number), max_bytes=largest_of_worker(limits)))

    def _run(self, call: SlicedCall, request: bytes) -> bytes:
        if isinstance(call, _Loading):
            return loaded_message(call, call.run(request), limits=call.state.limits)
        if self._runtime.way == "public" or call.state.capabilities is not None:
            return call.run(request)
        # A slice without a ticker first: a short call is over by then.
        call.prepare(request, sliced=True)
        return call.answer if call.advance() else call.rest()


def _message(body: bytes) -> dict[str, Any]:
    message: dict[str, Any] = plain.decode(body, max_bytes=len(body))
    return message


def _leave() -> NoReturn:
    # No handler and no destructor: the host is gone, and a guest may be half-way through.
    os._exit(0)
