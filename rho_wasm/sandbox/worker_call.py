"""One call in a worker process: the same results and the same reasons as in this one."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio

from rho_wasm import envelope
from rho_wasm.counting import REQUEST_BYTES_AT_ONCE
from rho_wasm.errors import ToolError
from rho_wasm.host_threads import HostThreads, NoThread
from rho_wasm.limits import Limits
from rho_wasm.long_work import LONG_BYTES, NoTurn, Place
from rho_wasm.results import HandlerResult
from rho_wasm.sandbox.asking import Asking, Step
from rho_wasm.sandbox.crossing import as_tool_error, blamed, encode, encode_at_once, read_at_once
from rho_wasm.sandbox.errands import to_its_end
from rho_wasm.sandbox.frames import (
    Ended,
    Granted,
    HostCall,
    Strange,
    heard,
    is_answer,
    largest_of_worker,
    read_answer,
    read_ended,
    read_host_call,
)
from rho_wasm.sandbox.module import Loadable
from rho_wasm.sandbox.slots import Overloaded
from rho_wasm.sandbox.state import Capabilities
from rho_wasm.sandbox.worker_process import Gone, WorkerProcess, signal_name
from rho_wasm.sandbox.workers import Lease, WorkerPool

__all__ = ["WorkerCall"]

_T = TypeVar("_T")

_GRACE_S = 1.0
"""How much longer than its guest a worker may take to say how that ended. Then it is killed."""
_LOST = (Gone, Strange)
_BYTES_AT_ONCE = 128 * 1024
_SAID_AT_ONCE = 4 * 1024
"""Of an answer, and of anything else that a worker says (a log is long to read), on the event loop's thread."""


class WorkerCall:
    """:meth:`run` once. ``used`` is what the call used and left behind, however it ended."""

    def __init__(
        self,
        pool: WorkerPool,
        threads: HostThreads,
        module: Loadable,
        request: Mapping[str, Any],
        *,
        tool: str,
        limits: Limits,
        deadline_ms: float,
        capabilities: Capabilities | None,
    ) -> None:
        self._pool = pool
        self._threads = threads
        self._module = module
        self._request = request
        self._tool = tool
        self._limits = limits
        self._deadline_ms = deadline_ms
        self._capabilities = capabilities
        self._unavailable: tuple[str, Exception] | None = None
        self._began = 0.0
        self._host_calls = 0
        self._host_cpu_s = 0.0
        """Of what was done for these."""
        self._between_calls = True
        """The worker has said how the call ended, or knows of none."""
        self.used = Ended()

    async def run(self) -> HandlerResult | ToolError:
        """What the guest answered, or the error that the call became. Raises :class:`Overloaded`.

        Cancellation stops the guest, and leaves once it is gone.
        """
        limits = self._limits
        try:
            data = encode_at_once(self._request, limits=limits)
            if data is None:
                data = await self.in_thread(lambda: encode(self._request, limits=limits))
            answer = await self.answer(data)
            result = read_at_once(answer, limits=limits)
            if result is None:
                result = await self._parsed(answer)
            return result
        except Overloaded:
            raise
        except ToolError as error:
            return error
        except Exception as error:
            ended = as_tool_error(error, tool=self._tool, memory_refused=self.used.memory_refused)
            return blamed(ended, self._unavailable)

    async def _parsed(self, answer: bytes) -> HandlerResult:
        """What the guest answered, in a thread, in its turn where that is long."""
        parse = partial(envelope.parse_answer, answer, limits=self._limits)
        if len(answer) <= LONG_BYTES:
            return await self.in_thread(parse)
        place = Place(self._module.sha256)
        try:
            return await self.in_thread(lambda: self._in_turn(place, parse))
        except NoTurn:
            raise self._out_of_time("its time was over while its answer was to be read") from None
        finally:
            place.leave()

    def _in_turn(self, place: Place, function: Callable[[], _T]) -> _T:
        with place.turn(within_s=self._remaining_ms() / 1000):
            return function()

    async def answer(self, data: bytes) -> bytes:
        """What the guest answers to the request ``data``, in bytes. Raises what the call failed for."""
        try:
            self.used = await self._in_worker(data)
        finally:
            self.used = replace(self.used, host_cpu_ms=self._host_cpu_s * 1000)
        if self.used.failed is not None:
            raise self.used.failed
        return self.used.answer

    async def in_thread(self, function: Callable[[], _T]) -> _T:
        try:
            outcome = await self._threads.run(function)
        except NoThread:
            raise self._no_thread() from None
        if outcome.error is not None:
            raise outcome.error
        value: _T = outcome.value
        return value

    async def _in_worker(self, data: bytes) -> Ended:
        """Raises the ToolError that the call became, where its worker died of it."""
        while True:
            ended = await self._in_next_worker(data)
            if ended is not None:
                return ended

    async def _in_next_worker(self, data: bytes) -> Ended | None:
        """None where the worker died before it had read that there is a call: then that is not why it died."""
        lease = Lease()
        self._between_calls = True
        try:
            worker = await self._pool.take(lease)
            await worker.load(self._module, in_thread=self._shielded)
            self._between_calls = False
            self._began = time.monotonic()
            number = worker.put_call(
                self._module,
                data,
                limits=self._limits,
                deadline_ms=self._deadline_ms,
                granted=Granted.of(self._capabilities),
            )
            try:
                return await self._converse(worker, number)
            except _LOST as lost:
                unread = isinstance(lost, Gone) and lost.unread and not worker.overdue
                if unread and not self._host_calls and not self._pool.closed:
                    await self._pool.failed(lease, worker)
                    return None
                raise await self._lost(worker, lost) from None
            except BaseException:
                if worker.intact and not self._between_calls:
                    with anyio.CancelScope(shield=True), contextlib.suppress(*_LOST):
                        self.used = await self._stop(worker, number)
                raise
        finally:
            self._pool.give_back(lease, keep=self._between_calls)

    async def _converse(self, worker: WorkerProcess, number: int) -> Ended:
        """Hears the worker to the call's end, and answers what the guest asks for on the way."""
        until = self._began + self._deadline_ms / 1000 + _GRACE_S
        limits, capabilities = self._limits, self._capabilities
        while True:
            said = await self._heard(worker, number, until)
            if isinstance(said, Ended):
                if said.failed is not None and said.failed.reason == "cancelled":
                    raise Strange("it gave up a call that nobody cancelled")
                return said
            began = time.monotonic()
            read = partial(read_host_call, said, number=number, limits=limits, declared=self._module.declared)
            arguments = said.get("arguments")
            size = len(arguments) if type(arguments) is bytes else 0
            long = size > REQUEST_BYTES_AT_ONCE
            self._host_calls += 1
            try:
                asked = await self._asked(read, size) if long else self._charged(read)
                if capabilities is None or self._host_calls > limits.host_calls:
                    raise Strange("it asked for more than its limits allow")
                worker.put(await self._reply(capabilities, asked, long=long))
            except NoTurn:
                worker.put({"overdue": "the host"})
            until += time.monotonic() - began

    async def _stop(self, worker: WorkerProcess, number: int) -> Ended:
        """Ends the call in the worker, which serves on."""
        worker.put({"cancel": number})
        until = time.monotonic() + _GRACE_S
        while True:
            said = await self._heard(worker, number, until)
            if isinstance(said, Ended):
                return said

    async def _heard(self, worker: WorkerProcess, number: int, until: float) -> Ended | dict[str, Any]:
        """How the call ended, or what else the worker says. If it says nothing until then it is killed."""
        worker.until = until
        try:
            await worker.flush()
            body = await worker.hear(largest_of_worker(self._limits))
        finally:
            worker.until = math.inf
        passed_ms = (time.monotonic() - self._began) * 1000
        read = partial(_read, body, number=number, limits=self._limits, passed_ms=passed_ms)
        at_once = _BYTES_AT_ONCE if is_answer(body) else _SAID_AT_ONCE
        said = read() if len(body) <= at_once else await self._shielded(read)
        ended = isinstance(said, Ended)
        self._between_calls, worker.intact = ended, True
        return said

    async def _shielded(self, function: Callable[[], _T]) -> _T:
        """In a thread, whoever cancels: what a worker has said is said once."""
        with anyio.CancelScope(shield=True):
            return await self._to_its_end(function)
        raise AssertionError("nothing cancels this scope")

    async def _to_its_end(self, function: Callable[[], _T], *, leave: Callable[[], None] | None = None) -> _T:
        """In a thread; cancellation waits for it: it is code of the host's, or uses what the caller holds."""
        try:
            return await to_its_end(self._threads, function, leave=leave)
        except NoThread:
            raise self._no_thread() from None

    def _charged(self, function: Callable[[], _T]) -> _T:
        """What it answers; its CPU time is the guest's."""
        began = time.thread_time()
        try:
            return function()
        finally:
            self._host_cpu_s += time.thread_time() - began

    async def _charged_in_thread(self, function: Callable[[], _T], *, leave: Callable[[], None]) -> _T:
        return await self._to_its_end(partial(self._charged, function), leave=leave)

    async def _asked(self, read: Callable[[], HostCall], size: int) -> HostCall:
        """What a guest asks for, in its turn where that is long. Raises :class:`NoTurn`."""
        place = Place(self._module.sha256)
        in_turn = partial(self._in_turn, place, read) if size > LONG_BYTES else read
        return await self._charged_in_thread(in_turn, leave=place.leave)

    async def _gone_on(self, asking: Asking) -> Step:
        """How far a host call came, in a thread where it is long."""
        step = self._charged(lambda: asking.go_on(remaining_ms=self._remaining_ms(), hurried=True))
        if step is Step.LONG:
            remaining_ms = self._remaining_ms()
            go_on = partial(asking.go_on, remaining_ms=remaining_ms, hurried=False)
            step = await self._charged_in_thread(go_on, leave=asking.leave)
        return step

    async def _reply(self, capabilities: Capabilities, asked: HostCall, *, long: bool) -> dict[str, Any]:
        """What the worker is told of a host call."""
        asking = Asking.of(
            asked.capability,
            asked.arguments,
            limits=self._limits,
            capabilities=capabilities,
            long=long,
            guest=self._module.sha256,
        )
        step = await self._gone_on(asking)
        if step is Step.LATER:
            remaining_ms = self._remaining_ms()
            with anyio.move_on_after(max(0.0, remaining_ms / 1000)) as scope:
                await asking.wait(remaining_ms=remaining_ms)
            if scope.cancelled_caught or self._remaining_ms() <= 0:
                return {"overdue": asked.capability}
            await self._gone_on(asking)
        if asking.unavailable is not None and self._unavailable is None:
            self._unavailable = asking.capability, asking.unavailable
        return {"reply": asking.reply}

    def _remaining_ms(self) -> float:
        return self._deadline_ms - (time.monotonic() - self._began) * 1000

    async def _lost(self, worker: WorkerProcess, lost: Exception) -> ToolError:
        """What the call became whose worker died, or had to."""
        self.used = Ended(guest_ms=(time.monotonic() - self._began) * 1000)
        overdue, self._between_calls = worker.overdue, False
        if not isinstance(lost, Gone):
            worker.kill()
        code = await self._pool.bury(worker)
        if self._pool.closed:
            return ToolError("cancelled", tool=self._tool, detail="the call was cancelled")
        if overdue:
            return self._out_of_time("its worker process did not stop it in time, and was killed")
        if isinstance(lost, Strange):
            return ToolError("killed", tool=self._tool, detail=f"its worker process was killed: {lost}")
        if code < 0:
            detail = f"{signal_name(-code)} ended its worker process"
            return ToolError("killed", tool=self._tool, detail=detail)
        return ToolError("overloaded", tool=self._tool, detail=f"its worker process ended with code {code}")

    def _out_of_time(self, detail: str) -> ToolError:
        return ToolError(
            "deadline", tool=self._tool, detail=detail, limit="deadline_ms", value=round(self._deadline_ms)
        )

    def _no_thread(self) -> Overloaded:
        return Overloaded("no thread could be started", limit="workers", value=self._pool.count)


def _read(body: bytes, *, number: int, limits: Limits, passed_ms: float) -> Ended | dict[str, Any]:
    if is_answer(body):
        return read_answer(body, number=number, limits=limits, passed_ms=passed_ms)
    message = heard(body)
    if "capability" in message:
        return message
    return read_ended(message, number=number, limits=limits, passed_ms=passed_ms)
