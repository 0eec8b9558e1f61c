"""rho.h puts maps and texts together in one expression, and reads JSON from elsewhere, which may be wrong."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import anyio
import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm import plain
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import TooLarge
from rho_wasm.toolchains import build
from tests.guest_sdk.conftest import GUESTS
from tests.guest_sdk.json_texts import BAD, GOOD, URL_PARTS, close, json_values
from tests.guest_sdk.raw import RawGuest


def built(compiler: str) -> Artifact:
    async def run() -> Artifact:
        return await build(GUESTS / "maps.c", compiler=compiler)

    return anyio.run(run)


@pytest.fixture(
    scope="module", params=["tinycc", pytest.param("clang", marks=pytest.mark.slow)], ids=["tinycc", "clang"]
)
def artifact(request: pytest.FixtureRequest) -> Artifact:
    made = built(request.param)
    assert made.log == ""
    return made


@pytest.fixture(scope="module")
def guest(artifact: Artifact) -> RawGuest:
    return RawGuest(artifact.wasm)


def test_a_map_is_written_in_one_expression_of_values_of_any_type(guest: RawGuest) -> None:
    answer = guest.call("pairs", {"any": [1, {"a": None}]})
    expected = {
        "bool": True, "comparison": True, "int": -7, "int64": -(2**63), "size": 8, "uint64": 2**64 - 1, "byte": 255,
        "long": -5, "float": 0.5, "double": 1e300, "text": "literal", "pointer": "pointer", "changed": "c",
        "str": "sliced", "null": None, "value": {"any": [1, {"a": None}]}, "list": [b"\xff"], "map": {"a": {"b": 1}},
    }  # fmt: skip
    assert plain.encode(answer) == plain.encode({"ok": expected})


@pytest.mark.parametrize(
    ("how", "said"), [("open", "rho_end missing"), ("empty", "a value that is empty"), ("?", "rho_pair takes")]
)
def test_a_pair_of_what_is_no_value_traps_and_says_why(artifact: Artifact, how: str, said: str) -> None:
    guest = RawGuest(artifact.wasm)
    with pytest.raises(wasmtime.Trap):
        guest.call("misuse", {"how": how})
    assert [(level, said in line) for level, line in guest.log] == [(40, True)]


@pytest.mark.parametrize("number", [0, 7, -1, 10**18, 2**63 - 1, -(2**63)])
def test_texts_and_numbers_are_joined_into_an_answer(guest: RawGuest, number: int) -> None:
    assert guest.call("joined", {"text": "Zürich", "number": number}) == {"ok": f"Zürich: {number}"}
    assert guest.call("joined", {"text": "", "number": number, "as": "failure"}) == {"error": f": {number}"}


@pytest.mark.parametrize("text", URL_PARTS)
def test_a_text_is_made_a_part_of_a_url(guest: RawGuest, text: str) -> None:
    assert guest.call("joined", {"text": text, "number": 0, "as": "url"}) == {"ok": quote(text, safe="")}


@pytest.mark.parametrize(("text", "meant"), GOOD)
def test_json_becomes_plain_data(guest: RawGuest, text: str, meant: Any) -> None:
    assert plain.encode(guest.call("read_json", {"json": text.encode()})) == plain.encode({"ok": meant})


def test_json_as_deep_as_plain_data_is_read(guest: RawGuest) -> None:
    with pytest.raises(TooLarge):  # of the answer round it, which is deeper
        guest.call("read_json", {"json": b"[" * 64 + b"]" * 64})


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_json_is_refused(guest: RawGuest, text: bytes) -> None:
    assert guest.call("read_json", {"json": text}) == {"error": "no JSON"}


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(value=json_values, ascii_only=st.booleans())
def test_any_json_is_read_as_python_reads_it(guest: RawGuest, value: Any, ascii_only: bool) -> None:
    answer = guest.call("read_json", {"json": json.dumps(value, ensure_ascii=ascii_only).encode()})
    assert close(answer["ok"], value)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(text=st.binary(max_size=64) | st.text('[]{},:"\\u0d8e-+.1 tnf', max_size=30).map(str.encode))
def test_any_bytes_end_in_an_answer_and_only_json_is_taken(guest: RawGuest, text: bytes) -> None:
    answer = guest.call("read_json", {"json": text})
    if list(answer) == ["ok"]:
        json.loads(text.decode("utf-8"))


def test_a_refusal_of_the_host_becomes_a_failure_or_what_the_author_makes_of_its_kind(guest: RawGuest) -> None:
    for reply, answer in (
        ({"error": {"kind": "denied", "message": "nobody granted it"}}, {"error": "kv.get: denied: nobody granted it"}),
        ({"error": {"kind": "quota", "message": "too many"}}, {"ok": "another time"}),
        ({"ok": [1]}, {"ok": [1]}),
    ):
        guest.host_reply = plain.encode(reply)
        assert guest.call("refused", {}) == answer
    assert guest.host_requests[-1] == {"capability": "kv.get", "arguments": {"key": "count"}}
