"""rho.hpp asks the host with arguments in one expression, and reads JSON that another wrote."""

from __future__ import annotations

from urllib.parse import quote

import anyio
import pytest

from rho_wasm import plain
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.frozen import thaw
from rho_wasm.toolchains import build
from tests.guest_sdk.conftest import GUESTS
from tests.guest_sdk.json_texts import BAD, GOOD, URL_PARTS
from tests.guest_sdk.raw import RawGuest

pytestmark = pytest.mark.slow

ASKED = {
    "capability": "kv.put",
    "arguments": {"key": "Oslo", "value": [1, 2], "if_absent": True, "expected": None},
}


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    made: Artifact = anyio.run(build, GUESTS / "asks_host.cpp")
    assert made.log == ""
    return made


@pytest.fixture
def guest(artifact: Artifact) -> RawGuest:
    return RawGuest(artifact.wasm)


def test_arguments_of_any_types_are_put_together_and_a_reply_is_read(guest: RawGuest) -> None:
    guest.host_reply = plain.encode({"ok": {"stored": True}})
    assert guest.call("keep", {"name": "Oslo"}) == {"ok": True}
    assert guest.host_requests == [ASKED]


def test_a_refusal_has_a_kind_and_a_message(guest: RawGuest) -> None:
    guest.host_reply = plain.encode({"error": {"kind": "quota", "message": "too many"}})
    assert guest.call("keep", {"name": "Oslo"}) == {"error": "quota: too many"}


def test_an_example_says_what_its_host_calls_are_answered(artifact: Artifact) -> None:
    [example] = artifact.manifest.tools[0].examples
    assert thaw(example.host) == [[ASKED, {"ok": {"stored": True}}]]


def test_json_of_others_is_read_or_refused(guest: RawGuest) -> None:
    for text, meant in GOOD:
        assert plain.encode(guest.call("reads", {"name": text})) == plain.encode({"ok": meant}), text
    for bad in BAD:
        if (text := bad.decode("utf-8", "ignore")).encode() == bad:
            assert guest.call("reads", {"name": text}) == {"error": "no JSON"}, text


def test_texts_are_made_parts_of_urls(guest: RawGuest) -> None:
    for text in URL_PARTS:
        assert guest.call("part", {"name": text}) == {"ok": quote(text, safe="")}
