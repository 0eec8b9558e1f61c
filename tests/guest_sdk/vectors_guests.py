"""The vector guests: one of each SDK, with the same tools, and what they are asked.

``echo`` gives ``value`` back, decoded by the SDK and encoded again. ``answer`` answers in the ``shape`` that it is told
with what ANSWERS says. ``ask_host`` asks for ``capability`` with ``arguments`` and answers the reply as the SDK decodes
it. ``log`` logs ``text`` at ``level``. ``word_count`` is that of fixtures/word_count.c, ``sha256`` the one of ``text``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rho_wasm import plain
from rho_wasm.envelope import Raised, answer_of, parse_answer
from rho_wasm.limits import Limits
from rho_wasm.sandbox import Capabilities, GuestModule
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.guest_call import GuestCall
from rho_wasm.sandbox.state import CallState
from tests.sandbox.guests import Granting

__all__ = ["ANSWERS", "GUESTS", "Calls", "Refused", "VectorGuest"]

FOLDER = Path(__file__).parent / "guests"
LIMITS = Limits.for_engines().model_copy(update={"deadline_ms": 60_000})


class VectorGuest(NamedTuple):
    """One line for each SDK. ``path`` is a file, or a folder, in ``guests``."""

    language: str
    path: str
    one_number: bool = False
    """Its language has one type of numbers, so a float that is whole comes back as an integer."""

    @property
    def source(self) -> Path:
        return FOLDER / self.path


GUESTS = (
    VectorGuest("assemblyscript", "vectors.as.ts"),
    VectorGuest("c", "vectors.c"),
    VectorGuest("cpp", "vectors.cpp"),
    VectorGuest("go", "vectors.go"),
    VectorGuest("javascript", "vectors.js", one_number=True),
    VectorGuest("python", "vectors.py"),
    VectorGuest("rust", "vectors.rs"),
    VectorGuest("zig", "vectors.zig"),
)

_PNG = bytes.fromhex("89504e470d0a1a0a")
ANSWERS: dict[str, dict[str, Any]] = {
    "ok": {"ok": 42},
    "ok_images": {"ok": 42, "images": [{"mime_type": "image/png", "data": _PNG}]},
    "ok_details": {"ok": 42, "details": {"n": 1}},
    "failed": {"error": "no such user"},
    "failed_details": {"error": "no such user", "details": {"n": 1}},
    "ask": {"ask_user": "which one?"},
    "ask_options": {"ask_user": "which one?", "options": {"a": 1}},
    "halt": {"halt": "done", "value": 7},
}
"""What ``answer`` answers for each shape, beside ``raised``: the message "broken" of type "Broken"."""


class Refused(Exception):
    """The guest raised, or trapped. Its text says which."""


class _Replying(CallState):
    """Gives the guest a reply of these bytes, whatever the host replied. Only where they are as many."""

    instead: bytes | None = None
    _reply: bytes | None = None

    @property
    def reply(self) -> bytes | None:
        return self._reply

    @reply.setter
    def reply(self, reply: bytes | None) -> None:
        if reply is not None and self.instead is not None:
            assert len(reply) == len(self.instead)
            reply = self.instead
        self._reply = reply


class Calls:
    """Calls of one vector guest, with bytes that no host sends too."""

    def __init__(self, module: GuestModule) -> None:
        self._module = module
        self.log: list[tuple[int, str]] = []

    def send(self, request: bytes, *, host: Capabilities | None = None, reply: bytes | None = None) -> dict[str, Any]:
        """The answer. ``reply`` is what its host call is given in place of the host's own words.

        Raises :class:`Refused`, and :class:`BadAnswer` for what no host takes.
        """
        with self._held() as native:
            state = _Replying(limits=LIMITS, declared=native.declared, capabilities=host, names=native.names)
            state.instead = reply
            call = GuestCall(native.linked.owner, native.linked, state, deadline_ms=LIMITS.deadline_ms)
            try:
                return answer_of(parse_answer(call.run(request), limits=LIMITS))
            except Raised as raised:
                raise Refused(f"raised: {raised}") from None
            except CallFailed as failed:
                if failed.reason not in ("trapped", "handler_exit"):
                    raise
                raise Refused(f"{failed.reason}: {failed.detail}") from None
            finally:
                call.finish()
                self.log = [(line.level, line.text) for line in call.log.lines]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a request as a host sends it."""
        return self.send(plain.encode({"abi": 1, "tool": tool, "arguments": arguments, "context": {}}))

    def asked(self, reply: bytes) -> Any:
        """What ``ask_host`` answers where these bytes are the host's reply: at least 5."""
        request = {"abi": 1, "tool": "ask_host", "context": {}}
        request["arguments"] = {"capability": "kv.get", "arguments": {"key": "a"}}
        return self.send(plain.encode(request), host=Granting(lambda *asked: _of_size(len(reply))), reply=reply)

    @contextmanager
    def _held(self) -> Iterator[Any]:
        native = self._module.held()
        try:
            yield native
        finally:
            native.release()


def _of_size(size: int) -> Any:
    """A value for which the reply ``{"ok": value}`` has ``size`` bytes, at least 5."""
    frame = len(plain.encode({"ok": None})) - 1
    for head in (1, 2, 3, 5):
        for value in ("x" * (size - frame - head), ["x" * (size - frame - head - 1)]):
            if len(plain.encode({"ok": value})) == size:
                return value
    raise AssertionError(size)
