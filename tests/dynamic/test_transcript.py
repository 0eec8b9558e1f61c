"""What a call was told is kept as the guest was told it, whatever the capability said."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm.dynamic.recording import decoded
from rho_wasm.dynamic.transcript import RecordedCapabilities, Transcript
from rho_wasm.errors import CapabilityError
from rho_wasm.limits import Limits
from rho_wasm.sandbox.asking import Asking, Step
from rho_wasm.sandbox.state import Capabilities
from tests.sandbox.guests import Granting


def told(capabilities: Capabilities) -> bytes:
    """The reply that a guest gets."""
    asking = Asking.of("files.read", {}, limits=Limits(), capabilities=capabilities, long=False)
    assert asking.go_on(remaining_ms=1_000, hurried=False) is Step.REPLIED
    return asking.reply


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (CapabilityError("denied", "no file caf\udce9"), "denied"),
        (CapabilityError("quota", "\x1b[31m" + "x" * 5_000), "quota"),
        (CapabilityError("No Kind", "x"), "unavailable"),
        (RuntimeError("a secret of the host's"), "unavailable"),
    ],
)
def test_a_refusal_is_recorded_as_the_guest_reads_it_and_replayed_so(error: Exception, kind: str) -> None:
    def fails(capability: str, arguments: dict[str, Any]) -> Any:
        raise error

    reply = told(Granting(fails))
    transcript = Transcript(Granting(fails), max_bytes=100_000)
    assert told(transcript) == reply
    (call,) = transcript.calls
    assert call.reply == reply
    assert decoded(reply)["error"]["kind"] == kind
    assert told(RecordedCapabilities(transcript.calls, clock_ns=None, seed=None)) == reply


def test_what_no_guest_can_be_given_is_recorded_as_the_guest_reads_it() -> None:
    granted = Granting(lambda capability, arguments: object())
    transcript = Transcript(granted, max_bytes=100_000)
    assert told(transcript) == told(granted)
    assert [call.reply for call in transcript.calls] == [told(granted)]
