"""What a host and its worker processes say to each other: frames of plain CBOR behind their length (4 bytes).

A call and a plain answer, which most of them are, are no maps of CBOR: a few numbers stand before the guest's bytes.

A worker is believed no more than a guest is: one that broke out of WebAssembly would speak from there. So whatever it
says is bounded before it is decoded, of exact shapes, and every text in it is made inert again.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from rho_wasm import plain
from rho_wasm.errors import PlainError
from rho_wasm.limits import Limits
from rho_wasm.results import NOTHING_LOGGED, CallLog, LogLine
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.log import MAX_LINES, log_level
from rho_wasm.sandbox.state import Capabilities
from rho_wasm.untrusted import inert

__all__ = [
    "HEAD",
    "CallAsked",
    "Ended",
    "Granted",
    "HostCall",
    "Strange",
    "framed",
    "framed_answer",
    "framed_call",
    "heard",
    "is_answer",
    "largest_of_worker",
    "read_answer",
    "read_call",
    "read_ended",
    "read_host_call",
]

HEAD: Final = struct.Struct(">I")
"""The length of the frame that follows, in bytes."""
_CALL: Final = struct.Struct(">BQ64sd?")
_GRANTED: Final = struct.Struct(">?q?32s")
_ANSWERED: Final = struct.Struct(">BQQdd?")
_IS_CALL, _IS_ANSWER = 1, 2
"""Their first bytes. No map of CBOR begins so."""

_SLACK_BYTES = 256 * 1024
"""Of a frame beside answer, request and log: texts of an error, a backtrace, the heads of 4,096 lines."""
_ESCAPED = 6
"""So many bytes an escaped byte of the log has at most (three of UTF-8 are one character and six of its escape)."""
_NOTES = 16
"""Lines that the host itself may add to a log."""
_ITEMS = 8 * (MAX_LINES + _NOTES)
_DEPTH = 8
_LARGEST: Final = 2**31 - 1
_TEXT_CHARS = 2_000
_TRACE_LINES, _TRACE_WIDTH = 64, 512
_REASONS = frozenset(
    {
        "bad_answer",
        "cancelled",
        "capability_fault",
        "deadline",
        "handler_exit",
        "out_of_fuel",
        "out_of_memory",
        "overloaded",
        "too_many_host_calls",
        "trapped",
    }
)
"""What a guest's call may end in, there."""


_OF_ANOTHER = "it spoke of another call than it was given"
_TOO_LARGE = "its answer is over the limits"


class Strange(Exception):
    """A worker said what no worker says. Its text is the host's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a guest's call ended in a worker: ``answer`` is what it answered, unless it ``failed``."""

    answer: bytes = b""
    failed: CallFailed | None = None
    fuel_used: int = 0
    guest_ms: float = 0.0
    guest_cpu_ms: float = 0.0
    """In the worker, with what that did for the guest's host calls."""
    host_cpu_ms: float = 0.0
    """In the host, which counts that itself."""
    memory_refused: bool = False
    log: CallLog = field(default=NOTHING_LOGGED)

    def as_message(self, number: int) -> dict[str, Any]:
        """What a worker says of it."""
        message: dict[str, Any] = {
            "ended": number,
            "fuel": self.fuel_used,
            "ms": self.guest_ms,
            "cpu_ms": self.guest_cpu_ms,
            "refused": self.memory_refused,
        }
        if (failed := self.failed) is None:
            message["answer"] = self.answer
        else:
            message["failed"] = {
                "reason": failed.reason,
                "detail": failed.detail,
                "limit": failed.limit,
                "value": failed.value,
                "trace": list(failed.trace),
            }
        if self.log is not NOTHING_LOGGED:
            # Encoded by itself, so that whoever hears it may put off the work.
            lines = [[line.level, line.text] for line in self.log.lines]
            message["log"] = plain.encode(lines, max_bytes=_LARGEST, max_items=_ITEMS)
            message["dropped"] = self.log.dropped_bytes
        return message


@dataclass(frozen=True, slots=True)
class HostCall:
    """A guest in a worker asks for ``capability``."""

    capability: str
    arguments: dict[str, Any]


class Granted(NamedTuple):
    """What a call with capabilities has of the world without asking: see :class:`Capabilities`."""

    clock_ns: int | None
    seed: bytes | None

    @classmethod
    def of(cls, capabilities: Capabilities | None) -> Granted | None:
        return None if capabilities is None else cls(capabilities.clock_ns, capabilities.seed)


class CallAsked(NamedTuple):
    """A host asks a worker for a call of ``module`` (its hash in hex), which was loaded before."""

    number: int
    module: str
    deadline_ms: float
    granted: Granted | None
    """What the guest is given, if it may ask the host for capabilities."""
    request: bytes


def framed_call(asked: CallAsked) -> bytes:
    """The frame of a call."""
    number, module, deadline_ms, granted, request = asked
    head = _CALL.pack(_IS_CALL, number, module.encode(), deadline_ms, granted is not None)
    if granted is not None:
        clock_ns, seed = granted
        head += _GRANTED.pack(clock_ns is not None, clock_ns or 0, seed is not None, seed or b"")
    return HEAD.pack(len(head) + len(request)) + head + request


def read_call(body: bytes) -> CallAsked | None:
    """A call, where a host's frame is one."""
    if body[0] != _IS_CALL:
        return None
    _, number, module, deadline_ms, grants = _CALL.unpack_from(body)
    granted, end = None, _CALL.size
    if grants:
        has_clock, clock_ns, has_seed, seed = _GRANTED.unpack_from(body, end)
        granted = Granted(clock_ns if has_clock else None, seed if has_seed else None)
        end += _GRANTED.size
    return CallAsked(number, module.decode(), deadline_ms, granted, body[end:])


def framed_answer(ended: Ended, number: int) -> bytes | None:
    """The frame of an answer. None where there is more to say (:meth:`Ended.as_message`): a failure, a log."""
    if ended.failed is not None or ended.log is not NOTHING_LOGGED:
        return None
    head = _ANSWERED.pack(_IS_ANSWER, number, ended.fuel_used, ended.guest_ms, ended.guest_cpu_ms, ended.memory_refused)
    return HEAD.pack(len(head) + len(ended.answer)) + head + ended.answer


def is_answer(body: bytes) -> bool:
    """Whether a worker's frame is an answer."""
    return len(body) >= _ANSWERED.size and body[0] == _IS_ANSWER


def read_answer(body: bytes, *, number: int, limits: Limits, passed_ms: float) -> Ended:
    """How call ``number`` ended, from a frame that is an answer. Raises :class:`Strange` as :func:`read_ended`."""
    _, of, fuel, guest_ms, guest_cpu_ms, refused = _ANSWERED.unpack_from(body)
    if of != number:
        raise Strange(_OF_ANOTHER)
    if len(body) - _ANSWERED.size > limits.answer_bytes + limits.images_bytes:
        raise Strange(_TOO_LARGE)
    return Ended(
        answer=body[_ANSWERED.size :],
        fuel_used=min(fuel, limits.fuel),
        guest_ms=_within(guest_ms, passed_ms),
        guest_cpu_ms=_within(guest_cpu_ms, passed_ms),
        memory_refused=refused,
    )


def framed(message: Mapping[str, Any], *, max_bytes: int) -> bytes:
    """The frame of ``message``. Raises :class:`PlainError` where that is over ``max_bytes``."""
    body = plain.encode(message, max_bytes=max_bytes, max_items=_ITEMS)
    return HEAD.pack(len(body)) + body


def largest_of_worker(limits: Limits) -> int:
    """Bytes of the largest frame that a worker may send in a call of ``limits``."""
    answer = limits.answer_bytes + limits.images_bytes
    return max(answer, limits.request_bytes) + _ESCAPED * limits.log_bytes + _SLACK_BYTES


def heard(body: bytes) -> dict[str, Any]:
    """A frame's message. Raises :class:`Strange`."""
    try:
        message = plain.decode(body, max_bytes=len(body), max_depth=_DEPTH, max_items=_ITEMS)
    except PlainError:
        raise Strange("it sent what is no message") from None
    if type(message) is not dict:
        raise Strange("it sent what is no message")
    return message


def read_host_call(message: dict[str, Any], *, number: int, limits: Limits, declared: frozenset[str]) -> HostCall:
    """What a guest asks for, within the bounds and the capabilities that it has. Raises :class:`Strange`."""
    _exact(message, {"call", "capability", "arguments"}, number, message.get("call"))
    capability, encoded = _typed(message, "capability", str), _typed(message, "arguments", bytes)
    if capability not in declared:
        raise Strange("it asked for a capability that the module does not declare")
    try:
        arguments = plain.decode(
            encoded, max_bytes=limits.request_bytes, max_depth=limits.depth, max_items=limits.items
        )
    except PlainError:
        raise Strange("it asked with arguments that are not plain data within the limits") from None
    if type(arguments) is not dict:
        raise Strange("it asked with arguments that are no map")
    return HostCall(capability, arguments)


def read_ended(message: dict[str, Any], *, number: int, limits: Limits, passed_ms: float) -> Ended:
    """How call ``number`` ended. ``passed_ms`` went by meanwhile: no guest ran for longer. Raises :class:`Strange`."""
    outcome = "failed" if "failed" in message else "answer"
    keys = {"ended", "fuel", "ms", "cpu_ms", "refused", outcome}
    _exact(message, keys | {"log", "dropped"} if "log" in message else keys, number, message.get("ended"))
    answer = b"" if outcome == "failed" else _typed(message, "answer", bytes)
    if len(answer) > limits.answer_bytes + limits.images_bytes:
        raise Strange(_TOO_LARGE)
    return Ended(
        answer=answer,
        failed=_failed(_typed(message, "failed", dict), limits) if outcome == "failed" else None,
        fuel_used=int(_within(_typed(message, "fuel", int), limits.fuel)),
        guest_ms=_within(_typed(message, "ms", float), passed_ms),
        guest_cpu_ms=_within(_typed(message, "cpu_ms", float), passed_ms),
        memory_refused=_typed(message, "refused", bool),
        log=_log(message, limits) if "log" in message else NOTHING_LOGGED,
    )


def _failed(failed: dict[str, Any], limits: Limits) -> CallFailed:
    if failed.keys() != {"reason", "detail", "limit", "value", "trace"}:
        raise Strange("it failed in a way that there is not")
    reason, detail = _typed(failed, "reason", str), _typed(failed, "detail", str)
    limit, value, trace = failed["limit"], failed["value"], _typed(failed, "trace", list)
    if reason not in _REASONS or not (limit is None or limit in type(limits).model_fields):
        raise Strange("it failed for a reason that there is not")
    if not (value is None or type(value) is int):
        raise Strange("it met a limit that is no number")
    if len(trace) > _TRACE_LINES or not all(type(line) is str for line in trace):
        raise Strange("its backtrace is none")
    return CallFailed(
        reason,
        inert(detail, limit=_TEXT_CHARS),
        limit=limit,
        value=value,
        trace=tuple(inert(line, limit=_TRACE_WIDTH) for line in trace),
    )


def _log(message: dict[str, Any], limits: Limits) -> CallLog:
    encoded, dropped = _typed(message, "log", bytes), _typed(message, "dropped", int)
    try:
        lines = plain.decode(encoded, max_bytes=len(encoded), max_depth=_DEPTH, max_items=_ITEMS)
    except PlainError:
        lines = None
    if type(lines) is not list:
        raise Strange("its log is none")
    room = _ESCAPED * limits.log_bytes + _NOTES * _TEXT_CHARS
    checked = []
    for line in lines[: MAX_LINES + _NOTES]:
        if type(line) is not list or len(line) != 2 or type(line[0]) is not int or type(line[1]) is not str:
            raise Strange("its log has a line that is none")
        room -= len(line[1])
        if room < 0:
            raise Strange("its log is over the limits")
        # What is inert already stays as it is: escapes are plain letters. The length allows for what is not.
        checked.append(LogLine(log_level(line[0]), inert(line[1], limit=10 * len(line[1]))))
    return CallLog(lines=tuple(checked), dropped_bytes=max(0, dropped))


def _exact(message: dict[str, Any], keys: set[str], number: int, of: object) -> None:
    if message.keys() != keys:
        raise Strange("it sent a message of a kind that there is not")
    if type(of) is not int or of != number:
        raise Strange(_OF_ANOTHER)


def _typed(message: dict[str, Any], key: str, kind: type) -> Any:
    value = message[key]
    if type(value) is not kind:
        raise Strange(f"{key} is no {kind.__name__}")
    return value


def _within(value: float, most: float) -> float:
    if not value >= 0:
        raise Strange("it counted less than nothing")  # Or a NaN.
    return min(value, most)
