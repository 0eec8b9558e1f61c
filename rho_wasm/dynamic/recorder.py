"""Keeps calls of guests' tools as they end, and hands them to the store's thread: no call waits for a disk."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
import anyio.to_thread

from rho_wasm import envelope, plain
from rho_wasm.calls import CallMeter
from rho_wasm.counting import ITEMS_AT_ONCE
from rho_wasm.dynamic.generation import VersionKey
from rho_wasm.dynamic.recording import RECORDED, HostCall, Recording, encoded
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.transcript import Transcript
from rho_wasm.errors import PlainError, StoreError, TooLarge, ToolError
from rho_wasm.events import Event, SourceFailed
from rho_wasm.limits import Limits
from rho_wasm.option_checks import check_function
from rho_wasm.plain import Copied
from rho_wasm.policy import RecordingPolicy
from rho_wasm.results import KINDS, Failed, HandlerResult, Kind, Ok
from rho_wasm.sandbox.crossing import BYTES_AT_ONCE, encode_at_once
from rho_wasm.sandbox.state import Capabilities
from rho_wasm.untrusted import inert, type_name

__all__ = ["Recorder", "RecorderStatistics", "Redact", "check_redact"]

Redact: TypeAlias = Callable[[dict[str, Any]], dict[str, Any] | None]
"""Given a recording as plain data, before it is written: answers what is to be kept of it, None for nothing."""

_CALL_BYTES = 1024 * 1024
"""Of one call. A larger one is not kept: it would take the place of many."""
_WAITING_BYTES = 16 * 1024 * 1024
"""Of all that is not written yet."""
_DETAIL_CHARS = 500
_BOUNDS = Limits()
_TOLD_EVERY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderStatistics:
    """A snapshot of one Recorder. Of calls since it began."""

    kept: int
    """Handed to the store's thread. A tool that is called more often than it is written keeps its latest calls."""
    written: int
    waiting: int
    """Not written yet."""
    too_large: int
    """Not kept, as request, host calls and answer together are over what one call may take."""
    dropped: int
    """Not kept, as too much was waiting for the store's thread."""
    withheld: int
    """The host's own hook answered None, or the call called a tool that the policy leaves out."""
    failed: int
    """The hook raised or answered no recording, or the store could not be written."""


def check_redact(redact: Redact | None) -> None:
    """Raises TypeError for what is no hook, whether or not anything is recorded: it may be from another day on."""
    if redact is not None:
        check_function(redact, "redact is a function (not an async one) of a recording", may_be_async=False)


class Recorder:
    """Records calls of all tools but those that ``policy`` skips, for one source: those that a model or a host makes.

    A call that another tool makes is not recorded on its own, but is one of the host calls of its caller's recording:
    a guest must not decide what its next version, or another tool's, is tried with.

    :meth:`transcript` and :meth:`keep` are for the call's own task; :meth:`write` is for the store's thread, in which
    ``redact`` is called too: while it takes its time, strikes of other tools wait to be written. What it does not
    answer, or raises, is not kept. ``tell`` takes events from any thread.
    """

    def __init__(
        self,
        store: Store,
        *,
        policy: RecordingPolicy,
        redact: Redact | None,
        tell: Callable[[Iterable[Event]], None],
        name: str,
    ) -> None:
        self._store = store
        self._policy = policy
        self._redact = redact
        self._tell = tell
        self._name = name
        self._call_bytes = min(_CALL_BYTES, policy.bytes_per_tool)
        self._lock = threading.Lock()
        self._waiting: dict[str, _Ring] = {}
        self._waiting_bytes = 0
        self._unkept: Counter[VersionKey] = Counter()
        self._kept = self._written = self._too_large = self._dropped = self._withheld = self._failed = 0
        self._told: dict[str, float] = {}
        if store.read_only:
            self._say("the store is open for reading only: no call is recorded")

    def of(self, tool: str) -> Recorder | None:
        """Itself, if calls of ``tool`` are recorded."""
        return self if self._policy.records(tool) and not self._store.read_only else None

    def transcript(self, capabilities: Capabilities | None) -> Transcript:
        """What a call that is to be kept has in place of its capabilities."""
        return Transcript(capabilities, max_bytes=self._call_bytes)

    async def keep(
        self,
        version: VersionKey,
        *,
        generation: int,
        arguments: Mapping[str, Any],
        copied: Copied | None,
        context: Mapping[str, Any],
        transcript: Transcript,
        outcome: HandlerResult | ToolError,
        meter: CallMeter,
    ) -> None:
        """Keeps a call that just ended, unless no guest ran or the host ended it. Raises nothing.

        Where it worked and cannot be kept, that is written: else a version could see to it that its next one is held to
        nothing.

        One that called a tool which is not to be recorded, be it through others, is not kept either: what that was
        asked and answered stands in the host calls, and may stand in the answer.
        ``copied`` is what ``arguments`` are the value of, as :meth:`Sandbox.call` has it: None where the host may have
        altered them, so that what the model gave is not all that they come from. That is kept too where the arguments
        were put right, unless there is a hook: it may know what to take out by names that the model did not write.
        """
        kind, reason = _kind_of(outcome)
        if kind not in RECORDED or (meter.fuel_used is None and not meter.guest_ms):
            return
        if not all(map(self._policy.records, meter.called)):
            self._withhold()
            self._miss(version, kind)
            return
        if transcript.over:
            self._leave_out(version, kind)
            return
        asked = envelope.request(version.tool, dict(arguments) if copied is None else copied.value, context=context)
        given = None if copied is None or self._redact is not None else meter.repaired
        try:
            written = self._at_once(asked, copied, outcome) if given is None else None
            if written is None:
                # The call is over and must not be lost for that: it ends as it ended.
                with anyio.CancelScope(shield=True):
                    written = await anyio.to_thread.run_sync(self._encoded, asked, outcome, given)
        except PlainError:
            self._leave_out(version, kind)
            return
        assert written is not None, "no shielded scope is left before its end"
        request, answer, repaired = written
        size = len(request) + len(answer) + transcript.bytes
        if size + len(repaired) > self._call_bytes:
            repaired = b""  # The call itself counts for more.
        size += len(repaired)
        if size > self._call_bytes:
            self._leave_out(version, kind)
            return
        ended = _Ended()
        ended.version, ended.generation, ended.at, ended.size = version, generation, self._store.clock(), size
        ended.kind, ended.reason = kind, reason
        ended.fuel, ended.duration_ms = meter.fuel_used, meter.guest_ms
        ended.request, ended.host_calls, ended.answer = request, transcript.calls, answer
        ended.clock_ns, ended.seed = transcript.clock_ns, transcript.seed
        ended.mended, ended.given = meter.repaired is not None, repaired
        ended.detail = outcome.detail if isinstance(outcome, ToolError) else ""
        self._put(ended)

    def write(self) -> None:
        """Writes what is waiting. Raises nothing: what cannot be written is counted, and told of once a minute."""
        with self._lock:
            if not self._waiting and not self._unkept:
                return
            taken, self._waiting = self._waiting, {}
            self._waiting_bytes = 0
        ended = (self._redacted(each.recording()) for ring in taken.values() for each in ring.calls)
        recordings = [recording for recording in ended if recording is not None]
        with self._lock:
            unkept, self._unkept = self._unkept, Counter()
        if not recordings and not unkept:
            return
        try:
            self._store.recordings.add(
                recordings,
                per_tool=self._policy.per_tool,
                bytes_per_tool=self._policy.bytes_per_tool,
                unkept=unkept,
            )
        except StoreError as error:
            with self._lock:
                self._unkept += unkept
            self._failed += len(recordings)
            self._say(f"calls could not be recorded: {error}")
        else:
            self._written += len(recordings)

    def statistics(self) -> RecorderStatistics:
        """What became of the calls so far."""
        with self._lock:
            waiting = sum(len(ring.calls) for ring in self._waiting.values())
        return RecorderStatistics(
            kept=self._kept,
            written=self._written,
            waiting=waiting,
            too_large=self._too_large,
            dropped=self._dropped,
            withheld=self._withheld,
            failed=self._failed,
        )

    def _at_once(
        self, asked: dict[str, Any], copied: Copied | None, outcome: HandlerResult | ToolError
    ) -> tuple[bytes, bytes, bytes] | None:
        request = encode_at_once(asked, limits=_BOUNDS, copied=copied)
        answer = None if request is None else _answer_at_once(outcome)
        return None if request is None or answer is None else (request, answer, b"")

    def _encoded(
        self, request: dict[str, Any], outcome: HandlerResult | ToolError, given: Mapping[str, Any] | None
    ) -> tuple[bytes, bytes, bytes]:
        answer = b""
        if not isinstance(outcome, ToolError):
            answer = encoded(envelope.answer_of(outcome), max_bytes=self._call_bytes)
        return encoded(request, max_bytes=self._call_bytes), answer, b"" if given is None else encoded(given)

    def _put(self, ended: _Ended) -> None:
        most, most_bytes = self._policy.per_tool, self._policy.bytes_per_tool
        with self._lock:
            ring = self._waiting.setdefault(ended.version.tool, _Ring())
            # What the store would let go at once need not be written.
            while ring.calls and (len(ring.calls) >= most or ring.bytes + ended.size > most_bytes):
                self._waiting_bytes -= ring.take_oldest()
            fits = self._waiting_bytes + ended.size <= _WAITING_BYTES
            if fits:
                ring.add(ended)
                self._waiting_bytes += ended.size
                self._kept += 1
            else:
                self._dropped += 1
        if not fits:
            self._miss(ended.version, ended.kind)
            self._say("a call is not recorded: too much waits for the store to be written", ended.version.tool)

    def _redacted(self, recording: Recording) -> Recording | None:
        if self._redact is None:
            return recording
        try:
            given = self._redact(recording.as_plain())
        except BaseException as error:
            # Nothing that the hook raises may end the store's thread, and its text may hold what it was to take out.
            self._unredacted(recording, f"it raised {type_name(error)}")
            return None
        if given is None:
            self._withhold()
            return None
        try:
            return recording.altered(given)
        except ValueError as error:
            self._unredacted(recording, str(error))
            return None

    def _leave_out(self, version: VersionKey, kind: Kind) -> None:
        self._too_large += 1
        self._miss(version, kind)

    def _miss(self, version: VersionKey, kind: Kind) -> None:
        if kind == "ok":
            with self._lock:
                self._unkept[version] += 1

    def _withhold(self) -> None:
        with self._lock:  # Of two threads.
            self._withheld += 1

    def _unredacted(self, recording: Recording, why: str) -> None:
        self._failed += 1
        self._miss(VersionKey(recording.tool, recording.artifact), recording.kind)
        self._say(f"the redaction hook failed, so the call is not recorded: {why}", recording.tool)

    def _say(self, what: str, tool: str | None = None) -> None:
        now = self._store.clock()
        if now - self._told.get(what, now - _TOLD_EVERY_S) >= _TOLD_EVERY_S:
            self._told[what] = now
            tools = () if tool is None else (tool,)
            self._tell([SourceFailed(source=self._name, operation="record", error=what, tools=tools)])


class _Ended:
    """A call that ended, before anybody needs a recording of it: most of a busy tool's calls never are written."""

    __slots__ = (
        "answer",
        "at",
        "clock_ns",
        "detail",
        "duration_ms",
        "fuel",
        "generation",
        "given",
        "host_calls",
        "kind",
        "mended",
        "reason",
        "request",
        "seed",
        "size",
        "version",
    )

    version: VersionKey
    generation: int
    at: float
    kind: Kind
    reason: str | None
    fuel: int | None
    duration_ms: float
    request: bytes
    host_calls: list[HostCall]
    answer: bytes
    """Empty where there is none."""
    detail: str
    clock_ns: int | None
    seed: bytes | None
    mended: bool
    given: bytes
    """Empty where it is not kept."""
    size: int

    def recording(self) -> Recording:
        return Recording(
            tool=self.version.tool,
            artifact=self.version.artifact,
            generation=self.generation,
            at=self.at,
            kind=self.kind,
            reason=self.reason,
            fuel=self.fuel,
            duration_ms=self.duration_ms,
            request=self.request,
            host_calls=tuple(self.host_calls),
            answer=self.answer or None,
            detail=inert(self.detail, limit=_DETAIL_CHARS),
            clock_ns=self.clock_ns,
            seed=self.seed,
            mended=self.mended,
            given=self.given or None,
        )


class _Ring:
    """The latest calls of one tool that are not written yet."""

    __slots__ = ("bytes", "calls")

    def __init__(self) -> None:
        self.calls: deque[_Ended] = deque()
        self.bytes = 0

    def add(self, ended: _Ended) -> None:
        self.calls.append(ended)
        self.bytes += ended.size

    def take_oldest(self) -> int:
        size = self.calls.popleft().size
        self.bytes -= size
        return size


def _answer_at_once(outcome: HandlerResult | ToolError) -> bytes | None:
    """The bytes of an answer, none of a crash; None where finding them takes too long for the event loop's thread."""
    if isinstance(outcome, ToolError):
        return b""
    try:
        if type(outcome) is Ok and not outcome.images and outcome.details is None:
            copy = plain.copied(outcome.value, max_bytes=BYTES_AT_ONCE, max_items=ITEMS_AT_ONCE, in_order=True)
            return plain.encode_framed({"ok": copy.value}, copy)
        return encoded(envelope.answer_of(outcome), at_once=True)
    except TooLarge:
        return None


def _kind_of(outcome: HandlerResult | ToolError) -> tuple[Kind, str | None]:
    if isinstance(outcome, ToolError):
        return KINDS[outcome.reason], outcome.reason
    return ("failed", "failed") if isinstance(outcome, Failed) else ("ok", None)
