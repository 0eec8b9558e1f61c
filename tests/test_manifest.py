"""Manifests: the CDDL of guest_sdk/ABI.md exactly, everything else refused by name."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm import plain, wasm
from rho_wasm.errors import ModuleRejected, NotPlain
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.sandbox.abi import MANIFEST_SECTION

TOOL: dict[str, Any] = {"name": "weather", "description": "Weather.", "input_schema": {"type": "object"}}
FULL: dict[str, Any] = {
    "abi": 1,
    "tools": [
        TOOL
        | {
            "output_schema": {"type": "string"},
            "timeout_ms": 200,
            "read_only": True,
            "destructive": False,
            "idempotent": True,
            "metadata": {"team": "sky", "raw": b"\x00"},
            "examples": [
                {
                    "arguments": {"city": "Oslo"},
                    "answer": {"ok": "cold", "details": {"t": -3}},
                    "host": [
                        [{"capability": "http.fetch", "arguments": {"url": "u"}}, {"ok": {"status": 200}}],
                        [{"capability": "x", "arguments": {}}, {"error": {"kind": "denied", "message": "no"}}],
                    ],
                }
            ],
        },
        TOOL | {"name": "forecast"},
    ],
    "language": "c",
    "capabilities": ["http.fetch"],
    "engine": bytes(32),
    "requires": [],
    "extensions": {"some.day": [1, 2]},
}


def manifest(**changes: Any) -> dict[str, Any]:
    return {"abi": 1, "tools": [TOOL]} | changes


def with_tool(**changes: Any) -> dict[str, Any]:
    return manifest(tools=[TOOL | changes])


def decode(given: Any, *, limits: HostLimits | None = None) -> Manifest:
    return Manifest.decode(plain.encode(given), limits=limits)


def rejected(given: Any, *, limits: HostLimits | None = None) -> ModuleRejected:
    with pytest.raises(ModuleRejected) as caught:
        decode(given, limits=limits)
    assert len(str(caught.value)) < 900
    assert str(caught.value).isprintable()
    return caught.value


def test_a_manifest_with_everything_is_read_and_written_back() -> None:
    read = decode(FULL)
    assert read.as_plain() == {key: value for key, value in FULL.items() if key != "requires"}
    assert Manifest.decode(read.encode()) == read


def test_the_least_manifest_is_one_tool() -> None:
    read = decode(manifest())
    assert read.tool("weather") is read.tools[0]
    assert read.tool("other") is None
    assert (read.capabilities, read.engine, read.language, read.tools[0].examples) == ((), None, None, ())
    assert read.as_plain() == manifest()


def test_the_same_manifest_is_always_the_same_bytes() -> None:
    backwards = dict(reversed(FULL.items()))
    assert decode(FULL).encode() == decode(backwards).encode() == plain.encode(decode(FULL).as_plain())


def test_a_manifest_is_frozen_all_the_way_down() -> None:
    read = decode(FULL)
    with pytest.raises(TypeError):
        read.tools[0].input_schema["type"] = "string"  # type: ignore[index]
    with pytest.raises(ValueError, match="frozen"):
        read.language = "zig"  # type: ignore[misc]


@pytest.mark.parametrize("version", [0, 2, 99, 2**63, -1])
def test_another_abi_version_is_refused_naming_both(version: int) -> None:
    error = rejected(manifest(abi=version) | {"unknown of a later version": 1})
    assert error.reason == "abi_version"
    assert error.limit == 1
    assert "this host knows 1" in error.detail
    assert str(version) in error.detail or "beyond 64 bits" in error.detail


@pytest.mark.parametrize("version", [True, 1.0, "1", None])
def test_an_abi_version_is_an_integer(version: Any) -> None:
    assert rejected(manifest(abi=version)).reason == "manifest_invalid"


def test_a_missing_abi_version_is_refused_in_a_module() -> None:
    assert rejected({"tools": [TOOL]}).detail == "abi: must be an integer"


def test_what_a_manifest_requires_and_the_host_does_not_know_is_named() -> None:
    error = rejected(manifest(requires=["time\x1btravel"]))
    assert (error.reason, error.name) == ("manifest_requires", "time\\x1btravel")
    assert rejected(manifest(requires="x")).reason == "manifest_invalid"
    assert rejected(manifest(requires=[1])).reason == "manifest_invalid"


def test_unknown_extensions_are_kept_and_ignored() -> None:
    assert decode(manifest(extensions={"x": {"y": [1]}})).as_plain()["extensions"] == {"x": {"y": [1]}}


@pytest.mark.parametrize(
    ("given", "where"),
    [
        (manifest(surprise=1), "surprise"),
        (with_tool(surprise=1), "tools[0].surprise"),
        (with_tool(examples=[{"arguments": {}, "answer": {"ok": 1}, "surprise": 1}]), "tools[0].examples[0].surprise"),
    ],
)
def test_an_unknown_key_is_refused_by_name(given: Any, where: str) -> None:
    error = rejected(given)
    assert error.reason == "manifest_invalid"
    assert error.detail == f"{where}: is no key of a manifest here"


def test_a_guest_cannot_be_manual() -> None:
    assert "cannot be manual" in rejected(with_tool(manual=False)).detail


@pytest.mark.parametrize("name", ["", "a" * 65, "a b", "ä", "a.b", "a/b", "a\n", "a__b", "__a", 1, None, b"a"])
def test_a_name_that_not_every_client_accepts_is_refused(name: Any) -> None:
    error = rejected(with_tool(name=name))
    assert error.reason == "manifest_invalid"
    assert error.detail.startswith("tools[0].name: ")


def test_two_tools_of_one_name_are_refused() -> None:
    assert "two tools are named weather" in rejected(manifest(tools=[TOOL, TOOL])).detail


@pytest.mark.parametrize(
    "given",
    [
        manifest(tools=[]),
        manifest(tools={}),
        manifest(tools=None),
        manifest(tools=[1]),
        manifest(language=""),
        manifest(language="c\u202e"),
        manifest(language="x" * 129),
        manifest(capabilities="http.fetch"),
        manifest(capabilities=[1]),
        manifest(capabilities=["a\x00"]),
        manifest(engine="x" * 32),
        manifest(engine=b"short"),
        manifest(extensions=[]),
        with_tool(description=1),
        with_tool(description=None),
        with_tool(input_schema=[]),
        with_tool(input_schema=True),
        with_tool(input_schema={"type": "no such type"}),
        with_tool(input_schema={"$ref": "https://schema.example/x.json"}),
        with_tool(output_schema={"type": 1}),
        with_tool(timeout_ms=0),
        with_tool(timeout_ms=-1),
        with_tool(timeout_ms=1.0),
        with_tool(timeout_ms=True),
        with_tool(read_only=1),
        with_tool(read_only="yes"),
        with_tool(metadata=[]),
        with_tool(examples={}),
        with_tool(examples=[{"arguments": [], "answer": {"ok": 1}}]),
        with_tool(examples=[{"arguments": {}}]),
        with_tool(examples=[{"arguments": {}, "answer": {}}]),
        with_tool(examples=[{"arguments": {}, "answer": {"ok": 1, "error": 2}}]),
        with_tool(examples=[{"arguments": {}, "answer": {"ok": 1}, "host": [[{}, {}]]}]),
        with_tool(examples=[{"arguments": {}, "answer": {"ok": 1}, "host": [[{}]]}]),
        with_tool(
            examples=[
                {"arguments": {}, "answer": {"ok": 1}, "host": [[{"capability": "x", "arguments": {}}, {"no": 1}]]}
            ]
        ),
        with_tool(
            examples=[
                {
                    "arguments": {},
                    "answer": {"ok": 1},
                    "host": [[{"capability": "x", "arguments": {}}, {"error": {"kind": 1, "message": "m"}}]],
                }
            ]
        ),
    ],
)
def test_a_field_of_the_wrong_shape_is_refused(given: Any) -> None:
    assert rejected(given).reason == "manifest_invalid"


def test_an_example_may_show_a_crash() -> None:
    answer = {"raised": {"message": "boom"}}
    assert decode(with_tool(examples=[{"arguments": {}, "answer": answer}])).tools[0].examples[0].answer == answer


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\u202e", "\u2066", "\U000e0041", "\u200b"])
@pytest.mark.parametrize("place", ["description", "schema", "key", "enum"])
def test_characters_that_a_reader_would_not_see_are_refused_wherever_a_model_reads(character: str, place: str) -> None:
    text = f"fine{character}text"
    given = {
        "description": with_tool(description=text),
        "schema": with_tool(input_schema={"properties": {"a": {"description": text}}}),
        "key": with_tool(input_schema={"properties": {text: {}}}),
        "enum": with_tool(output_schema={"enum": [text]}),
    }[place]
    error = rejected(given)
    assert error.reason == "manifest_invalid"
    assert f"U+{ord(character):04X}" in error.detail


def test_a_description_may_have_several_lines() -> None:
    text = "One.\n\n\tTwo: größer, 日本語."
    assert decode(with_tool(description=text)).tools[0].description == text


@pytest.mark.parametrize(
    "given",
    [
        with_tool(description="x" * 101),
        with_tool(description="ä" * 51),
        with_tool(input_schema={"properties": {"a": {"description": "x" * 101}}}),
        with_tool(input_schema={"properties": {"a": {"title": "x" * 101}}}),
        with_tool(output_schema={"description": "x" * 101}),
    ],
)
def test_a_description_is_bounded_in_schemas_too(given: Any) -> None:
    error = rejected(given, limits=HostLimits(description_bytes=100))
    assert (error.reason, error.name, error.limit) == ("description_too_large", "weather", 100)
    assert decode(given, limits=HostLimits(description_bytes=102)).as_plain() == given


def test_a_manifest_over_its_bytes_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ModuleRejected) as caught:
        Manifest.decode(b"\xff" * 65_537)
    assert (caught.value.reason, caught.value.limit, caught.value.value) == ("manifest_too_large", 65_536, 65_537)


@pytest.mark.parametrize(
    "data", [b"", b"\xa1", b"\xc0\xa0", b"\xa0\x00", b"\x9b" + b"\xff" * 8, b"\x81" * 200 + b"\x00"]
)
def test_bytes_that_are_not_plain_are_malformed(data: bytes) -> None:
    with pytest.raises(ModuleRejected) as caught:
        Manifest.decode(data)
    assert caught.value.reason == "manifest_malformed"


@pytest.mark.parametrize("given", [[], "x", 1, None])
def test_a_manifest_is_a_map(given: Any) -> None:
    assert rejected(given).reason == "manifest_malformed"


def test_json_beside_a_source_reads_as_the_same_manifest() -> None:
    text = json.dumps({"tools": [TOOL], "language": "c"})
    assert Manifest.from_json(text) == decode(manifest(language="c"))
    assert Manifest.from_json({"tools": [TOOL], "abi": 1}) == decode(manifest())


def test_images_of_an_example_are_base64url_in_json() -> None:
    png = b"\x89PNG\r\n\x1a\n\xff\xfe"
    data = base64.urlsafe_b64encode(png).decode().rstrip("=")
    answer = {"ok": 1, "images": [{"mime_type": "image/png", "data": data}]}
    read = Manifest.from_json({"tools": [TOOL | {"examples": [{"arguments": {}, "answer": answer}]}]})
    assert read.as_plain()["tools"][0]["examples"][0]["answer"]["images"][0]["data"] == png

    answer["images"] = [{"mime_type": "image/png", "data": "no base64!"}]
    with pytest.raises(ModuleRejected, match="base64url"):
        Manifest.from_json({"tools": [TOOL | {"examples": [{"arguments": {}, "answer": answer}]}]})


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("{", "line 1, column 2"),
        ("[]", "no map"),
        ('{"tools": [], "tools": []}', "there twice"),
        ('{"extensions": {"x": NaN}}', "NaN is no JSON"),
        ('{"extensions": {"x": ' + "9" * 30 + "}}", "no map"),
        ("[" * 100_000, "nested too deeply"),
        ('{"extensions": {"x": ' + "[" * 100 + "]" * 100 + "}}", "nested too deeply"),
        ('{"extensions": {"x": "\\ud800"}}', "surrogate"),
    ],
)
def test_json_that_cannot_be_a_manifest_is_malformed(text: str, detail: str) -> None:
    with pytest.raises(ModuleRejected, match=detail) as caught:
        Manifest.from_json(text)
    assert caught.value.reason == "manifest_malformed"


def test_json_cannot_claim_an_engine() -> None:
    with pytest.raises(ModuleRejected, match="engine"):
        Manifest.from_json({"tools": [TOOL], "engine": "x"})


def test_json_is_bounded() -> None:
    many = {"tools": [TOOL], "extensions": {"x": ["y" * 100] * 1_000}}
    for source in (many, json.dumps(many), " " * 2_000_000):
        with pytest.raises(ModuleRejected) as caught:
            Manifest.from_json(source)
        assert caught.value.reason == "manifest_too_large"


def test_a_module_carries_its_manifest_in_one_section() -> None:
    one = decode(manifest())
    module = embed(embed(wasm.HEADER, decode(FULL)), one)
    assert list(wasm.custom_sections(module)) == [(MANIFEST_SECTION, one.encode())]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*FULL, "surprise"]), st.sampled_from([*FULL["tools"][0], "surprise"]), PLAIN, st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_value_in_any_place_is_accepted_or_rejected(outer: str, inner: str, value: Any, inside: bool) -> None:
    changed = FULL | ({"tools": [FULL["tools"][0] | {inner: value}]} if inside else {outer: value})
    try:
        data = plain.encode(changed)
    except NotPlain:
        return
    try:
        read = Manifest.decode(data)
    except ModuleRejected as refusal:
        error = refusal
    else:
        assert Manifest.decode(read.encode()).encode() == read.encode()
        return
    assert error.reason in {"manifest_invalid", "abi_version", "manifest_requires"}
    assert str(error).isprintable()
    assert len(str(error)) < 900
