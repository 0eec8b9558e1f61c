"""rho.h reads and writes plain CBOR as guest_sdk/ABI.md says, and a malformed request never corrupts its memory."""

from __future__ import annotations

import base64
import math
import struct
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm import plain, resources
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError
from rho_wasm.toolchains import build
from tests.guest_sdk.conftest import GUESTS
from tests.guest_sdk.raw import RawGuest

DEPTH_OF_ARGUMENTS = 62
"""A message is 64 deep; request and arguments are two of them."""

VALUES: dict[str, Any] = {
    "null": None,
    "booleans": [True, False],
    "small integers": [0, 1, 23, 24, 255, 256, 65535, 65536],
    "negative integers": [-1, -24, -25, -256, -257, -65536, -65537],
    "integers of 32 bits and more": [2**32 - 1, 2**32, 2**53, -(2**32), -(2**32) - 1],
    "integers of 64 bits": [2**63 - 1, 2**63, 2**64 - 1, -(2**63), -(2**63) - 1, -(2**64)],
    "floats that fit half precision": [0.0, -0.0, 1.0, 1.5, -2.0, 65504.0, 5.960464477539063e-08, 6.103515625e-05],
    "floats that fit single precision": [100000.0, 3.4028234663852886e38, 1.401298464324817e-45],
    "floats of double precision": [1.1, -4.1, 1e300, 5e-324, math.pi],
    "infinities": [math.inf, -math.inf],
    "texts": ["", "a", "ü", "水", "\U00010151", "line\nend\x00zero", "x" * 24, "x" * 256, "x" * 70000],
    "bytes": [b"", b"\x00\xff", bytes(range(256)), b"x" * 70000],
    "arrays": [[], [[]], [[], [[1], []]], list(range(30)), list(range(300)), list(range(70000))],
    "maps": {"": {}, "a": {"b": {"c": [{}, {"d": None}]}}, "ü": 1, "many": {str(n): n for n in range(300)}},
}

MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "no map": b"\x01",
    "an unfinished head": b"\xa1\x61",
    "a text past the end": b"\x7b\xff\xff\xff\xff\xff\xff\xff\xff",
    "a text of almost 2^32 bytes": b"\x7a\xff\xff\xff\xff",
    "bytes past the end": b"\x5a\xff\xff\xff\xf0",
    "an array of 2^64-1": b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
    "a map of 2^63": b"\xbb\x80\x00\x00\x00\x00\x00\x00\x00",
    "a map of 2^32-1": b"\xba\xff\xff\xff\xff",
    "something after it": plain.encode({"abi": 1}) + b"\x00",
    "an indefinite length": b"\xbf\xff",
    "a tag": b"\xc1\x00",
    "undefined": b"\xf7",
    "a simple value": b"\xf8\x20",
    "a reserved head": b"\x1c",
    "a break": b"\xff",
    "a key that is no text": b"\xa1\x01\x01",
    "overlong text": b"\x62\xc0\xaf",
    "a surrogate": b"\x63\xed\xa0\x80",
    "beyond Unicode": b"\x64\xf4\x90\x80\x80",
    "half a character": b"\x61\xc3",
    "too deep": b"\x81" * 65 + b"\x00",
    "a bomb of nesting": b"\x81" * 100_000,
    "another ABI": plain.encode({"abi": 2, "tool": "echo", "arguments": {}, "context": {}}),
    "no tool": plain.encode({"abi": 1, "arguments": {}, "context": {}}),
    "a tool that is no text": plain.encode({"abi": 1, "tool": 1, "arguments": {}, "context": {}}),
    "no arguments": plain.encode({"abi": 1, "tool": "echo", "context": {}}),
    "arguments that are no map": plain.encode({"abi": 1, "tool": "echo", "arguments": [], "context": {}}),
    "a tool it does not have": plain.encode({"abi": 1, "tool": "other", "arguments": {}, "context": {}}),
}

plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def guest(values_artifact: Artifact) -> RawGuest:
    return RawGuest(values_artifact.wasm)


def same(left: Any, right: Any) -> bool:
    """Equal, of equal types, and zeros of equal signs. Deterministic encodings say all of that."""
    bound = 10**7
    return plain.encode(left, max_bytes=bound, max_items=bound) == plain.encode(right, max_bytes=bound, max_items=bound)


@pytest.mark.parametrize("standard", ["c11", "c17", "c23", "gnu17"])
def test_the_header_has_no_warning_under_any_standard(standard: str) -> None:
    spec = find_spec("ziglang")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    command: list[str | Path] = [folder / "zig", "clang", "--target=wasm32-unknown-unknown", "-fsyntax-only"]
    command += ["-ffreestanding", "-nostdinc", "-isystem", folder / "lib" / "include"]
    command += ["-I", resources.sdk("c/rho.h").parent]
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wno-sign-conversion", f"-std={standard}"]
    command += [*strict, GUESTS / "values.c", GUESTS / "maps.c"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("tool", ["echo", "copy"])
@pytest.mark.parametrize("kind", VALUES)
def test_every_kind_of_plain_value_comes_back_as_it_went(guest: RawGuest, tool: str, kind: str) -> None:
    answer = guest.call(tool, {"value": VALUES[kind]})
    assert same(answer, {"ok": {"value": VALUES[kind]}})


@settings(max_examples=60, deadline=None)
@given(value=plain_values)
def test_any_plain_value_comes_back_as_it_went(guest: RawGuest, value: Any) -> None:
    assert same(guest.call("echo", {"value": value}), {"ok": {"value": value}})


def test_not_a_number_comes_back_in_every_precision(guest: RawGuest) -> None:
    for head, payload in ((b"\xf9", "7e00"), (b"\xfa", "7fc00000"), (b"\xfb", "7ff8000000000000")):
        request = b"\xa3\x63abi\x01\x64tool\x64echo\x69arguments\xa1\x61v" + head + bytes.fromhex(payload)
        assert math.isnan(guest.send(request)["ok"]["v"])


@pytest.mark.parametrize(
    "bits", [0x0001, 0x03FF, 0x0400, 0x3BFF, 0x3C00, 0x7BFF, 0x7C00, 0x8000, 0x8001, 0xC000, 0xFC00]
)
def test_half_precision_is_read_bit_by_bit(guest: RawGuest, bits: int) -> None:
    packed = bits.to_bytes(2, "big")
    answer = guest.send(b"\xa3\x63abi\x01\x64tool\x64echo\x69arguments\xa1\x61v\xf9" + packed)
    assert same(answer, {"ok": {"v": struct.unpack(">e", packed)[0]}})


def test_values_are_read_and_written_as_deep_as_the_host_sends_them(guest: RawGuest) -> None:
    value: Any = []
    for _ in range(DEPTH_OF_ARGUMENTS - 1):
        value = [value]
    assert guest.call("echo", {"value": value}) == {"ok": {"value": value}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, {"int": 5, "uint": 5, "float": 5.0, "int_or": 5}),
        (-5, {"int": -5, "float": -5.0, "int_or": -5}),
        (2**63 - 1, {"int": 2**63 - 1, "uint": 2**63 - 1, "float": 2.0**63, "int_or": 2**63 - 1}),
        (2**63, {"uint": 2**63, "float": 2.0**63}),
        (-(2**63), {"int": -(2**63), "float": -(2.0**63), "int_or": -(2**63)}),
        (-(2**63) - 1, {"float": -(2.0**63)}),
        (-(2**64), {"float": -(2.0**64)}),
        (1.5, {"float": 1.5}),
        (True, {"bool": True}),
        (False, {"bool": False}),
        (None, {}),
        ("texts", {"text": "texts", "text_or": "texts"}),
        (b"\x00\x01", {"bytes": b"\x00\x01"}),
        ([1, 2, 3], {"count": 3}),
        ({"a": 1}, {"count": 1}),
    ],
)
def test_a_getter_takes_its_own_kind_and_what_fits_only(guest: RawGuest, value: Any, expected: dict[str, Any]) -> None:
    defaults = {"has": True, "count": 0, "int_or": -7, "text_or": "none"}
    assert same(guest.call("getters", {"value": value}), {"ok": defaults | expected})


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", b""),
        ("QQ==", b"A"),
        ("QQ=", b"A"),
        ("QQ", b"A"),
        ("QUE=", b"AA"),
        ("QUJD", b"ABC"),
        ("-_8=", b"\xfb\xff"),
        ("+/8", b"\xfb\xff"),
        ("=", None),
        ("====", None),
        ("A===", None),
        ("QQ===", None),
        ("QUJDR", None),
        ("Q=Q=", None),
        ("QQ==QQ==", None),
        ("QQ\n", None),
        ("Q Q=", None),
        ("üü", None),
        ("QQ.=", None),
    ],
)
def test_bytes_are_taken_as_base64_text_too(guest: RawGuest, text: str, meant: bytes | None) -> None:
    assert guest.call("getters", {"value": text})["ok"].get("bytes") == meant


@settings(max_examples=60, deadline=None)
@given(data=st.binary(), url_safe=st.booleans(), padded=st.booleans())
def test_any_bytes_come_in_base64_as_they_were(guest: RawGuest, data: bytes, url_safe: bool, padded: bool) -> None:
    text = (base64.urlsafe_b64encode if url_safe else base64.standard_b64encode)(data).decode()
    answer = guest.call("getters", {"value": text if padded else text.rstrip("=")})
    assert answer["ok"]["bytes"] == data


KEEP = """#include "rho.h"
static rho_answer keep(rho_value arguments) {
    rho_str data = rho_bytes_or(arguments, "data", rho_str_of(""));
    rho_out *out = rho_new_out();
    rho_put_bytes(out, data.data, data.size);
    return rho_ok(out);
}
RHO_GUEST(RHO_TOOL(keep, "Keeps.", RHO_ARGUMENTS(RHO_BYTES_ARG("data", "What.", RHO_MIN(4))%s)%s))
"""


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_an_argument_of_bytes_is_declared_as_base64() -> None:
    artifact = await build(KEEP % ("", ""), language="c")
    [tool] = artifact.manifest.tools
    assert tool.input_schema["properties"] == {
        "data": {"type": "string", "contentEncoding": "base64", "description": "What.", "minLength": 4}
    }
    guest = RawGuest(artifact.wasm)
    assert guest.call("keep", {"data": "QUJD"}) == {"ok": b"ABC"}
    assert guest.call("keep", {"data": b"\x00"}) == {"ok": b"\x00"}
    assert guest.call("keep", {"data": "no base64"}) == {"ok": b""}


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize(
    ("argument", "more", "said"),
    [
        (
            "",
            """, RHO_EXAMPLES({"{}", "{'ok': 1}"}, {"{bad", "{}"})""",
            "keep, arguments of example 2: JSON: a key is missing, at byte 2: bad",
        ),
        ("", """, RHO_EXAMPLES({"{}", "{'ok"})""", "keep, answer of example 1: JSON: a text without an end"),
        ("", """, RHO_EXAMPLES({"{}", "{'ok': "})""", "example 1: JSON: a value is missing, at the end"),
        ("", ', RHO_METADATA("[1 2]")', "keep, metadata: JSON: a comma or an end is missing, at byte 4: 2]"),
        (
            """, RHO_ANY_ARG("n", "N.", RHO_SCHEMA("{} %s"))""" % ("x" * 39 + "ü" * 300),
            "",
            f"keep, argument n: JSON: something comes after the value, at byte 4: {'x' * 39}\n",
        ),
    ],
)
async def test_json_that_is_wrong_is_named_by_where_it_is_declared(argument: str, more: str, said: str) -> None:
    with pytest.raises(BuildError) as refused:
        await build(KEEP % (argument, more), language="c")
    assert said in f"{refused.value}\n"


def test_a_missing_argument_is_told_from_one_that_is_null(guest: RawGuest) -> None:
    assert guest.call("getters", {}) == {"ok": {"has": False, "int_or": -7, "text_or": "none"}}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("ok", {"ok": "fine", "details": {"key": "value"}}),
        ("failed", {"error": "not today", "details": {"key": "value"}}),
        ("failed_with", {"error": {"key": "value"}}),
        ("raised", {"raised": {"message": "a bug"}}),
        ("ask", {"ask_user": "which one?", "options": {"key": "value"}}),
        ("ask_bare", {"ask_user": "which one?"}),
        ("halt", {"halt": "done", "value": {"key": "value"}}),
        ("halt_bare", {"halt": "done", "value": None}),
    ],
)
def test_every_shape_of_answer_can_be_given(guest: RawGuest, shape: str, expected: Any) -> None:
    assert guest.call("answers", {"shape": shape}) == expected


def test_images_come_in_the_order_in_which_they_were_added(guest: RawGuest) -> None:
    answer = guest.call("answers", {"shape": "images"})
    assert [image["data"] for image in answer["images"]] == [b"GIF89a a", b"GIF89a and so on"]
    assert {image["mime_type"] for image in answer["images"]} == {"image/gif"}


def test_the_context_can_be_read(guest: RawGuest) -> None:
    context = {"call_id": "c1", "values": {"tenant": "t"}, "of a later version": [1]}
    assert guest.call("answers", {"shape": "context"}, context=context) == {"ok": context}


def test_lines_of_the_log_carry_their_level(values_artifact: Artifact) -> None:
    guest = RawGuest(values_artifact.wasm)
    assert guest.call("answers", {"shape": "?"}) == {"error": "no such shape"}
    assert guest.log == [(30, "no such shape")]


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_request_is_raised_and_nothing_of_it_is_used(guest: RawGuest, what: str) -> None:
    answer = guest.send(MALFORMED[what])
    assert list(answer) == ["raised"]


@settings(max_examples=100, deadline=None)
@given(request=st.binary(max_size=64))
def test_any_bytes_end_in_an_answer(guest: RawGuest, request: bytes) -> None:
    assert list(guest.send(request)) == ["raised"]


@settings(max_examples=100, deadline=None)
@given(data=st.data(), value=plain_values)
def test_a_damaged_request_ends_in_an_answer(guest: RawGuest, data: st.DataObject, value: Any) -> None:
    request = bytearray(plain.encode({"abi": 1, "tool": "echo", "arguments": {"value": value}, "context": {}}))
    for _ in range(data.draw(st.integers(1, 3))):
        request[data.draw(st.integers(0, len(request) - 1))] = data.draw(st.integers(0, 255))
    assert next(iter(guest.send(bytes(request)))) in ("ok", "raised")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("no_key", "wants a key"),
        ("two_keys", "a key where none belongs"),
        ("end_after_key", "after a key"),
        ("end_too_often", "nothing open"),
        ("second_value", "a second value"),
        ("open", "rho_end missing"),
        ("empty", "a value that is empty"),
        ("details", "details go with"),
        ("image", "images go with"),
        ("too_deep", "nested too deeply"),
    ],
)
def test_a_misuse_of_the_writer_traps_and_says_why_in_the_log(values_artifact: Artifact, how: str, said: str) -> None:
    guest = RawGuest(values_artifact.wasm)
    with pytest.raises(wasmtime.Trap):
        guest.call("misuse", {"how": how})
    assert [(level, said in line) for level, line in guest.log] == [(40, True)]


@pytest.mark.parametrize(("count", "item"), [(1, 1), (70_000, 1), (1_000_000, 16)])
def test_memory_is_had_by_growing(guest: RawGuest, count: int, item: int) -> None:
    assert guest.call("allocate", {"count": count, "item": item}) == {"ok": "got it"}


@pytest.mark.parametrize(("count", "item"), [(2**32 - 1, 1), (2**31, 2), (2**16, 2**16), (2**32 - 1, 2**32 - 1)])
def test_more_memory_than_there_can_be_traps_and_says_so(values_artifact: Artifact, count: int, item: int) -> None:
    guest = RawGuest(values_artifact.wasm)
    with pytest.raises(wasmtime.Trap):
        guest.call("allocate", {"count": count, "item": item})
    assert guest.log == [(40, "no memory left")]


def test_two_answers_may_grow_in_turn(guest: RawGuest) -> None:
    answer = guest.call("interleave", {"count": 5000})
    assert answer == {"ok": {"left": list(range(5000)), "right": ["odd" if n % 2 else "even" for n in range(5000)]}}


def test_a_guest_imports_only_what_it_uses(guest: RawGuest) -> None:
    assert guest.imports == {("rho", "log")}


def test_a_host_call_asks_and_hands_on_the_reply(asking_artifact: Artifact) -> None:
    guest = RawGuest(asking_artifact.wasm)
    guest.host_reply = plain.encode({"ok": [1, {"a": "b"}]})
    assert guest.call("asks_host", {"url": "x"}) == {"ok": {"granted": True, "reply": [1, {"a": "b"}]}}
    assert guest.host_requests == [{"capability": "some.capability", "arguments": {"url": "x"}}]


def test_a_refused_host_call_says_why(asking_artifact: Artifact) -> None:
    guest = RawGuest(asking_artifact.wasm)
    denied = {"kind": "denied", "message": "no"}
    guest.host_reply = plain.encode({"error": denied})
    assert guest.call("asks_host", {}) == {"ok": {"granted": False, "reply": denied}}


@pytest.mark.parametrize("reply", [b"", b"\xff", plain.encode({}), plain.encode({"ok": 1}) + b"\x00"])
def test_a_malformed_reply_of_the_host_traps(asking_artifact: Artifact, reply: bytes) -> None:
    guest = RawGuest(asking_artifact.wasm)
    guest.host_reply = reply
    with pytest.raises(wasmtime.Trap):
        guest.call("asks_host", {})
    assert guest.log == [(40, "a malformed reply of the host")]
