"""One recorded call: what was asked, what the host answered meanwhile, how it ended, and what that cost."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rho_wasm import envelope, plain
from rho_wasm.counting import ITEMS_AT_ONCE
from rho_wasm.errors import Corrupt, PlainError
from rho_wasm.exact import MAX_DEPTH
from rho_wasm.results import Kind
from rho_wasm.sandbox.crossing import BYTES_AT_ONCE
from rho_wasm.untrusted import inert

__all__ = [
    "RECORDED",
    "HostCall",
    "Recording",
    "RecordingRow",
    "asked",
    "decoded",
    "encoded",
    "fingerprint",
    "question_of",
]

RECORDED: tuple[Kind, ...] = ("ok", "failed", "crashed")
"""The kinds of calls that are kept: of others no guest ran, or the host ended it."""
_MOST_BYTES = 64 * 1024 * 1024
_MOST_ITEMS = 1_000_000
"""A recording was within the bounds of a call when it was made: these keep a forged one from costing more."""
_DETAIL_CHARS = 2_000
_REDACTABLE = frozenset({"arguments", "context", "host_calls", "answer", "detail"})
_BODY = frozenset({"request", "host", "answer", "detail", "clock_ns", "seed", "redacted"})
_GIVEN = "given"
"""Stands in the body only where the arguments were put right: what was kept before that was told has it not."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


def encoded(value: Any, *, max_bytes: int = _MOST_BYTES, at_once: bool = False) -> bytes:
    """The deterministic CBOR of plain data. Raises :class:`PlainError`.

    ``at_once``: on the event loop's thread, so :class:`TooLarge` is raised for what takes too long there.
    """
    if at_once:
        return plain.encode(value, max_bytes=min(max_bytes, BYTES_AT_ONCE), max_items=ITEMS_AT_ONCE)
    return plain.encode(value, max_bytes=max_bytes, max_depth=MAX_DEPTH, max_items=_MOST_ITEMS)


def decoded(data: bytes) -> Any:
    """The plain data behind ``data``. Raises :class:`PlainError`."""
    return plain.decode(data, max_bytes=_MOST_BYTES, max_depth=MAX_DEPTH, max_items=_MOST_ITEMS)


def asked(capability: str, arguments: Mapping[str, Any], *, max_bytes: int = _MOST_BYTES) -> bytes:
    """What two host calls have in common if they ask for the same. Raises :class:`PlainError`."""
    return encoded([capability, dict(arguments)], max_bytes=max_bytes)


def fingerprint(capability: str, asked: bytes) -> bytes:
    """What stands for a long :func:`asked` of which only that it was the same will be looked at."""
    return encoded([capability, hashlib.sha256(asked).digest(), len(asked)])


def question_of(asked: bytes) -> list[Any]:
    """``[capability, arguments]`` of an :func:`asked`. Of a :func:`fingerprint` what is known of them: ``sha256``, in
    hex, and ``bytes``, of the capability with its arguments. Raises ValueError for what is neither."""
    match decoded(asked):
        case [str(capability), dict(arguments)]:
            return [capability, arguments]
        case [str(capability), bytes(digest), int(size)] if len(digest) == 32 and type(size) is int and size > 0:
            return [capability, {"sha256": digest.hex(), "bytes": size}]
    raise ValueError


@dataclass(frozen=True, slots=True)
class HostCall:
    """One host call and its reply, a map as the ABI has it: ``{"ok": value}`` or ``{"error": {kind, message}}``.

    Both are kept as the CBOR that they are compared by. ``asked`` may be a :func:`fingerprint` where the host refused.
    """

    asked: bytes
    reply: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRow:
    """What is known of a recording without its contents. ``id`` grows with each recording of a store.

    ``kind`` is ``ok`` (also for a question and a halt), ``failed`` or ``crashed``; ``reason`` is the machine word of
    the last two. ``fuel`` is None where a call was stopped from outside. ``duration_ms`` is time in the guest and in
    its host calls. ``bytes`` is what the contents take in the store.
    """

    id: int
    tool: str
    artifact: str
    generation: int
    at: float
    kind: Kind
    reason: str | None
    fuel: int | None
    duration_ms: float
    host_calls: int
    bytes: int

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in RecordingRow.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A call with all that is needed to run it again. All text in it is a user's or a guest's: print it inert.

    ``request`` is the CBOR that the guest was given; ``answer`` that of its answer map, None where it crashed, and
    ``detail`` then is what was said of that. ``clock_ns`` and ``seed`` are what was granted of time and chance (None:
    the virtual clock; chance that follows from the request). ``redacted``: a host's hook changed it after the call, so
    that the answer need not follow from the request any more. ``mended``: the schema refused what the model gave, and
    the request has what it can only have meant; ``given`` is the CBOR of what it gave, None where that is not kept.
    """

    tool: str
    artifact: str
    generation: int
    at: float
    kind: Kind
    reason: str | None = None
    fuel: int | None = None
    duration_ms: float = 0.0
    request: bytes
    host_calls: tuple[HostCall, ...] = ()
    answer: bytes | None = None
    detail: str = ""
    clock_ns: int | None = None
    seed: bytes | None = None
    redacted: bool = False
    mended: bool = False
    given: bytes | None = None
    id: int = 0
    """0 until it is in a store."""

    def as_plain(self) -> dict[str, Any]:
        """Everything of it as plain data: what a redaction hook is given, and what a person is shown."""
        request = decoded(self.request)
        return {
            "tool": self.tool,
            "artifact": self.artifact,
            "generation": self.generation,
            "at": self.at,
            "kind": self.kind,
            "reason": self.reason,
            "fuel": self.fuel,
            "duration_ms": self.duration_ms,
            "arguments": request["arguments"],
            "context": request["context"],
            "host_calls": [_host_call_map(call) for call in self.host_calls],
            "answer": None if self.answer is None else decoded(self.answer),
            "detail": self.detail,
            "clock_ns": self.clock_ns,
            "seed": self.seed,
            "redacted": self.redacted,
            "mended": self.mended,
            "given": None if self.given is None else decoded(self.given),
        }

    def as_json(self) -> dict[str, Any]:
        """The same with its id, as JSON can hold it."""
        shown: dict[str, Any] = plain_json(self.as_plain())
        return {"id": self.id} | shown

    def altered(self, given: Any) -> Recording:
        """This recording with what a redaction hook made of :meth:`as_plain`.

        The hook may alter ``arguments``, ``context``, ``host_calls`` (their number too), ``answer`` and ``detail``;
        what else it answers is not looked at. (A host call that is not ``whole`` was refused, and of its arguments a
        hash is kept.) Raises ValueError for anything that is no recording any more.
        """
        if type(given) is not dict or not given.keys() >= _REDACTABLE:
            raise ValueError("it answered no recording: a map with arguments, context, host_calls, answer and detail")
        arguments, context, answer, detail = (given[key] for key in ("arguments", "context", "answer", "detail"))
        if type(arguments) is not dict or type(context) is not dict or type(given["host_calls"]) is not list:
            raise ValueError("arguments and context are maps, host_calls is a list")
        if type(detail) is not str or (answer is None) is not (self.answer is None):
            raise ValueError("detail is text, and an answer stays one")
        try:
            request = encoded(envelope.request(self.tool, arguments, context=context))
            calls = tuple(_host_call(call) for call in given["host_calls"])
            new = None if answer is None else encoded(answer)
        except PlainError:
            raise ValueError("it answered something that is not plain data") from None
        changed = (request, calls, new) != (self.request, self.host_calls, self.answer)
        detail = inert(detail, limit=_DETAIL_CHARS)
        return replace(
            self, request=request, host_calls=calls, answer=new, detail=detail, redacted=changed or self.redacted
        )

    def body(self) -> bytes:
        """The contents as they lie in the store."""
        return encoded(
            {
                "request": self.request,
                "host": [[call.asked, call.reply] for call in self.host_calls],
                "answer": self.answer,
                "detail": self.detail,
                "clock_ns": self.clock_ns,
                "seed": self.seed,
                "redacted": self.redacted,
            }
            | ({_GIVEN: self.given} if self.mended else {})
        )

    @classmethod
    def of(cls, row: RecordingRow, body: bytes) -> Recording:
        """The recording behind a row. Raises :class:`Corrupt` for contents that nobody wrote here."""
        try:
            found = decoded(body)
            if type(found) is not dict or found.keys() - {_GIVEN} != _BODY or row.kind not in RECORDED:
                raise ValueError
            recording = cls(
                id=row.id,
                tool=row.tool,
                artifact=row.artifact,
                generation=row.generation,
                at=row.at,
                kind=row.kind,
                reason=row.reason,
                fuel=row.fuel,
                duration_ms=row.duration_ms,
                host_calls=tuple(HostCall(*(_bytes(part) for part in pair)) for pair in found["host"]),
                request=_bytes(found["request"]),
                answer=None if found["answer"] is None else _bytes(found["answer"]),
                detail=inert(found["detail"], limit=_DETAIL_CHARS),
                clock_ns=found["clock_ns"],
                seed=found["seed"],
                redacted=found["redacted"],
                mended=_GIVEN in found,
                given=None if found.get(_GIVEN) is None else _bytes(found[_GIVEN]),
            )
            recording._check()
        except (PlainError, ValueError, TypeError, KeyError):
            raise damaged(row.id) from None
        return recording

    def _check(self) -> None:
        shown = self.as_plain()
        request = envelope.request(self.tool, shown["arguments"], context=shown["context"])
        if type(shown["arguments"]) is not dict or encoded(request) != self.request:
            raise ValueError
        if (self.kind != "crashed") is not (type(shown["answer"]) is dict):
            raise ValueError
        if not (self.clock_ns is None or type(self.clock_ns) is int) or type(self.redacted) is not bool:
            raise ValueError
        if not (self.seed is None or (type(self.seed) is bytes and len(self.seed) == 32)):
            raise ValueError
        if self.given is not None and (type(shown["given"]) is not dict or encoded(shown["given"]) != self.given):
            raise ValueError
        for call in self.host_calls:
            if encoded(decoded(call.asked)) != call.asked:
                raise ValueError


def damaged(id: int) -> Corrupt:
    """What is raised for a recording that is not what was written."""
    return Corrupt(f"the recording {id} is damaged: drop it (rho-wasm recordings drop {id})")


def plain_json(value: Any) -> Any:
    """Plain data as JSON can hold it: bytes become base64url, NaN and infinities null."""
    return plain.jsonable(value, max_depth=MAX_DEPTH, max_items=_MOST_ITEMS)


def _host_call_map(call: HostCall) -> dict[str, Any]:
    capability, arguments = question_of(call.asked)
    whole = len(decoded(call.asked)) == 2
    shown = {"capability": capability, "arguments": arguments, "reply": _reply(decoded(call.reply))}
    return shown if whole else shown | {"whole": False}


def _host_call(given: Any) -> HostCall:
    if type(given) is not dict or given.keys() - {"whole"} != {"capability", "arguments", "reply"}:
        raise ValueError("a host call has capability, arguments and reply")
    capability, arguments = given["capability"], given["arguments"]
    if type(capability) is not str or type(arguments) is not dict:
        raise ValueError("a host call has a capability, which is text, and arguments, which are a map")
    reply = encoded(_reply(given["reply"]))
    if given.get("whole") is False:
        match arguments:
            case {"sha256": str(digest), "bytes": int(size)} if _SHA256.fullmatch(digest) and type(size) is int:
                return HostCall(encoded([capability, bytes.fromhex(digest), size]), reply)
    return HostCall(asked(capability, arguments), reply)


def _reply(reply: Any) -> dict[str, Any]:
    if type(reply) is dict and reply.keys() == {"ok"}:
        return reply
    if type(reply) is dict and reply.keys() == {"error"}:
        error = reply["error"]
        if (
            type(error) is dict
            and error.keys() == {"kind", "message"}
            and all(type(part) is str for part in error.values())
        ):
            return reply
    raise ValueError('a reply is {"ok": value} or {"error": {"kind": text, "message": text}}')


def _bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise ValueError
    return value
