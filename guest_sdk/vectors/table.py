"""The table of the vectors: every message by kind and name, the good ones as what they mean, the bad ones with why."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

from encoding import Raw, Times, cbor, nested
from values import MALFORMED, VALUES, request

__all__ = ["BAD", "GOOD"]


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in request(1).items() if name != key}


def tool(**fields: Any) -> dict[str, Any]:
    return {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}} | fields


def manifest(**fields: Any) -> dict[str, Any]:
    return {"abi": 1, "tools": [tool()]} | fields


PNG = bytes.fromhex("89504e470d0a1a0a")
_ECHO = b"\xa4" + cbor({"abi": 1, "tool": "echo", "context": {}})[1:] + cbor("arguments") + b"\xa1" + cbor("value")

GOOD_REQUESTS: Mapping[str, Any] = {
    **{name: request(value) for name, value in VALUES.items()},
    "context_whole": request(
        1, context={"call_id": "c", "session_id": "s", "request_id": "r", "values": {"user": "u"}}
    ),
    "unknown_keys": request(1, later={"a": [1]}, context={"call_id": "c", "later": 1}),
    "unknown_keys_first": request(1, a=[[], {}], context={"a": {"abi": 2, "tool": "other"}}),
}
BAD_REQUESTS: Mapping[str, tuple[Any, str]] = {
    **{name: (_ECHO + data, why) for name, (data, why) in MALFORMED.items()},
    "empty": (b"", "no bytes"),
    "trailing_byte": (cbor(request(1)) + b"\x00", "something after the one item"),
    "trailing_item": (cbor(request(1)) * 2, "something after the one item"),
    "no_map": ([request(1)], "not a map"),
    "a_number": (1, "not a map"),
    "abi_2": (request(1, abi=2), "another ABI"),
    "abi_text": (request(1, abi="1"), "another ABI"),
    "abi_missing": (without("abi"), "no ABI"),
    "tool_missing": (without("tool"), "no tool"),
    "tool_int": (request(1, tool=1), "a tool that is no text"),
    "tool_unknown": (request(1, tool="no_such_tool"), "a tool that the module does not have"),
    "tool_twice": (b"\xa5" + cbor(request(1))[1:] + cbor("tool") + cbor("log"), "a key twice"),
    "arguments_missing": (without("arguments"), "no arguments"),
    "arguments_list": (request(1, arguments=[]), "arguments that are no map"),
    "arguments_null": (request(1, arguments=None), "arguments that are no map"),
}

IMAGES: Mapping[str, bytes] = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x04\0\0\0WEBP",
}
IMAGE = {"mime_type": "image/png", "data": PNG}
GOOD_ANSWERS: Mapping[str, Any] = {
    "ok_42": {"ok": 42},
    **{
        f"ok_{name}": {"ok": VALUES[name]}
        for name in (
            "null",
            "int_2_64_minus_1",
            "int_minus_2_64",
            "float_nan",
            "float_minus_zero",
            "text_every_plane",
            "bytes_all",
            "list_of_every_kind",
            "map_of_every_kind",
        )
    },
    "ok_depth": {"ok": nested(63)},
    "ok_images": {"ok": 42, "images": [{"mime_type": kind, "data": data} for kind, data in IMAGES.items()]},
    "ok_16_images": {"ok": None, "images": Times(IMAGE, 16)},
    "ok_details": {"ok": 42, "details": {"n": 1}},
    "ok_all": {"ok": "fine", "images": [IMAGE], "details": [None]},
    "failed": {"error": "no such user"},
    "failed_map": {"error": {"field": "city", "why": ["empty"]}},
    "failed_details": {"error": "no such user", "details": {"n": 1}},
    "raised": {"raised": {"message": "broken"}},
    "raised_all": {"raised": {"message": "broken", "type": "Broken", "trace": ["line 1"]}},
    "raised_empty": {"raised": {"message": "", "type": "", "trace": []}},
    "ask": {"ask_user": "which one?"},
    "ask_options": {"ask_user": "which one?", "options": {"a": 1}},
    "halt": {"halt": "done", "value": 7},
    "halt_null": {"halt": "", "value": None},
    "long_int": {"ok": Raw(b"\x1b" + bytes(7) + b"\x2a", 42)},
    "long_float": {"ok": Raw(b"\xfb" + struct.pack(">d", 1.5), 1.5)},
    "long_nan": {"ok": Raw(b"\xfb\x7f\xf8" + bytes(6), math.nan)},
    "long_text": {"ok": Raw(b"\x7a\0\0\0\x01a", "a")},
    "long_list": {"ok": Raw(b"\x9a\0\0\0\x01\x01", [1])},
    "keys_in_any_order": Raw(
        b"\xa2" + cbor("ok") + b"\xa2\x61b\x01\x61a\x02" + cbor("details") + b"\x01",
        {"ok": {"a": 2, "b": 1}, "details": 1},
    ),
}
BAD_ANSWERS: Mapping[str, tuple[Any, str]] = {
    **{name: (b"\xa1" + cbor("ok") + b"\x81" + data, why) for name, (data, why) in MALFORMED.items()},
    "empty": (b"", "no bytes"),
    "trailing_byte": (cbor({"ok": 1}) + b"\x00", "something after the one item"),
    "too_many_items": ({"ok": Times(0, 100_000)}, "more than 100,000 items"),
    "no_map": (["ok", 1], "not a map"),
    "no_shape": ({}, "no shape"),
    "unknown_shape": ({"okay": 1}, "no shape"),
    "details_alone": ({"details": 1}, "no shape"),
    **{
        f"two_shapes_{a}_{b}": ({a: x, b: y}, "two shapes at once")
        for (a, x), (b, y) in (
            (("ok", 1), ("error", "no")),
            (("ok", 1), ("raised", {"message": ""})),
            (("ok", 1), ("halt", "done")),
            (("error", "no"), ("raised", {"message": ""})),
            (("ask_user", "?"), ("halt", "done")),
        )
    },
    "ok_unknown_key": ({"ok": 1, "warning": 1}, "a key that the shape does not have"),
    "failed_images": ({"error": "no", "images": [IMAGE]}, "a key that the shape does not have"),
    "raised_details": ({"raised": {"message": "no"}, "details": 1}, "a key that the shape does not have"),
    "ask_details": ({"ask_user": "?", "details": 1}, "a key that the shape does not have"),
    "halt_options": ({"halt": "done", "value": 1, "options": {}}, "a key that the shape does not have"),
    "images_none": ({"ok": 1, "images": []}, "no image in images"),
    "images_map": ({"ok": 1, "images": IMAGE}, "images that are no list"),
    "images_17": ({"ok": 1, "images": Times(IMAGE, 17)}, "more than 16 images"),
    "image_text": ({"ok": 1, "images": ["a.png"]}, "an image that is no map"),
    "image_key": ({"ok": 1, "images": [IMAGE | {"alt": ""}]}, "a key that an image does not have"),
    "image_data_text": ({"ok": 1, "images": [IMAGE | {"data": "iVBO"}]}, "data that is no bytes"),
    "image_mime_missing": ({"ok": 1, "images": [{"data": PNG}]}, "no mime_type"),
    "image_mime_differs": ({"ok": 1, "images": [IMAGE | {"mime_type": "image/gif"}]}, "another kind than it says"),
    "image_svg": (
        {"ok": 1, "images": [{"mime_type": "image/svg+xml", "data": b"<svg/>"}]},
        "no png, jpeg, webp or gif",
    ),
    "raised_text": ({"raised": "no"}, "raised that is no map"),
    "raised_no_message": ({"raised": {"type": "Broken"}}, "no message"),
    "raised_message_int": ({"raised": {"message": 1}}, "a message that is no text"),
    "raised_type_null": ({"raised": {"message": "", "type": None}}, "a type that is no text"),
    "raised_trace_text": ({"raised": {"message": "", "trace": "line 1"}}, "a trace that is no list"),
    "raised_trace_int": ({"raised": {"message": "", "trace": [1]}}, "a line that is no text"),
    "raised_unknown_key": ({"raised": {"message": "", "code": 1}}, "a key that raised does not have"),
    "ask_int": ({"ask_user": 1}, "a question that is no text"),
    "ask_long": ({"ask_user": "x" * 2001}, "a question over 2,000 characters"),
    "ask_options_list": ({"ask_user": "?", "options": ["a"]}, "options that are no map"),
    "halt_no_value": ({"halt": "done"}, "no value"),
    "halt_int": ({"halt": 1, "value": 1}, "a reason that is no text"),
}

HOST_CALL = {"capability": "clock.now", "arguments": {}}
REFUSED = {"kind": "denied", "message": "this capability is not granted"}
REPLIES = (
    "null",
    "int_2_64_minus_1",
    "int_minus_2_64",
    "float_half_fraction",
    "float_nan",
    "text_empty",
    "text_every_plane",
    "bytes_all",
    "list_empty",
    "list_of_every_kind",
    "map_of_every_kind",
    "list_65536_items",
)
# Of these, and of manifests, no guest has a decoder: a few say that the host's is the one that it has for answers.
_FEW = ("tag_number", "undefined", "indefinite_map", "key_twice", "key_int", "utf8_surrogate_first", "cut_list")
FEW_MALFORMED = {name: MALFORMED[name] for name in _FEW}

GOOD_HOST_REQUESTS: Mapping[str, Any] = {
    "no_arguments": HOST_CALL,
    "arguments": {"capability": "kv.get", "arguments": {"key": "a", "and": VALUES["list_of_every_kind"]}},
    "depth": {"capability": "kv.get", "arguments": {"k": nested(62)}},
}
BAD_HOST_REQUESTS: Mapping[str, tuple[Any, str]] = {
    **{
        name: (b"\xa2" + cbor("capability") + cbor("kv.get") + cbor("arguments") + b"\xa1\x61k" + data, why)
        for name, (data, why) in FEW_MALFORMED.items()
    },
    "empty": (b"", "no bytes"),
    "no_map": (["clock.now"], "not a map"),
    "trailing_byte": (cbor(HOST_CALL) + b"\x00", "something after the one item"),
    "capability_missing": ({"arguments": {}}, "no capability"),
    "capability_int": (HOST_CALL | {"capability": 1}, "a capability that is no text"),
    "arguments_missing": ({"capability": "clock.now"}, "no arguments"),
    "arguments_list": (HOST_CALL | {"arguments": []}, "arguments that are no map"),
    "unknown_key": (HOST_CALL | {"timeout": 1}, "a key that a host-request does not have"),
}
GOOD_HOST_REPLIES: Mapping[str, Any] = {
    **{f"ok_{name}": {"ok": VALUES[name]} for name in REPLIES},
    "ok_depth": {"ok": nested(62)},
    "error": {"error": REFUSED},
    "error_empty": {"error": {"kind": "", "message": ""}},
    "error_unknown_kind": {"error": {"kind": "later", "message": VALUES["text_every_plane"]}},
}
BAD_HOST_REPLIES: Mapping[str, tuple[Any, str]] = {
    **{name: (b"\xa1" + cbor("ok") + b"\x81" + data, why) for name, (data, why) in MALFORMED.items()},
    "no_map": (["ok", 42], "not a map"),
    "trailing_byte": (cbor({"ok": 1}) + b"\x00", "something after the one item"),
    "no_shape": ({"okay": 1}, "no shape"),
    "two_shapes": ({"ok": 1, "error": REFUSED}, "two shapes at once"),
    "error_text": ({"error": "denied"}, "an error that is no map"),
    "error_no_kind": ({"error": {"message": "no"}}, "no kind"),
    "error_kind_int": ({"error": REFUSED | {"kind": 1}}, "a kind that is no text"),
}

EXAMPLE = {"arguments": {"a": 1}, "answer": {"ok": 1}}
GOOD_MANIFESTS: Mapping[str, Any] = {
    "least": manifest(),
    "two_tools": manifest(tools=[tool(), tool(name="Sub-2_b")]),
    "long_name": manifest(tools=[tool(name="n" * 64)]),
    "whole": manifest(
        tools=[
            tool(
                input_schema={"type": "object", "properties": {"a": {"type": "integer", "description": "Ein Maß"}}},
                output_schema={"type": "integer"},
                timeout_ms=1000,
                read_only=True,
                destructive=False,
                idempotent=True,
                metadata={"owner": "team", "cost": 0.5, "key": b"\0"},
                examples=[
                    EXAMPLE,
                    EXAMPLE
                    | {"answer": {"error": "no"}, "host": [[HOST_CALL, {"ok": 1}], [HOST_CALL, {"error": REFUSED}]]},
                ],
            )
        ],
        language="c",
        capabilities=["clock.now", "kv.get"],
        requires=[],
        extensions={"later": {"a": 1}},
    ),
    "answers": manifest(
        tools=[
            tool(
                examples=[
                    EXAMPLE | {"answer": answer}
                    for answer in (
                        {"ok": 42, "images": [IMAGE], "details": {"n": 1}},
                        {"raised": {"message": "broken"}},
                        {"ask_user": "which one?", "options": {"a": 1}},
                        {"halt": "done", "value": 7},
                    )
                ]
            )
        ]
    ),
    "image": manifest(engine=bytes(range(32))),
    "empty_description": manifest(tools=[tool(description="")]),
}
BAD_MANIFESTS: Mapping[str, tuple[Any, str]] = {
    **{name: (b"\xa1" + cbor("extensions") + b"\xa1\x61k" + data, why) for name, (data, why) in FEW_MALFORMED.items()},
    "empty": (b"", "no bytes"),
    "no_map": ([manifest()], "not a map"),
    "trailing_byte": (cbor(manifest()) + b"\x00", "something after the one item"),
    "too_large": (manifest(tools=[tool(metadata={"k": bytes(65_536)})]), "more than 64 KiB"),
    "abi_2": (manifest(abi=2), "another ABI"),
    "abi_text": (manifest(abi="1"), "an abi that is no integer"),
    "abi_missing": ({"tools": [tool()]}, "no abi"),
    "requires": (manifest(requires=["rho.later"]), "a requirement that version 1 does not know"),
    "unknown_key": (manifest(author="me"), "a key that a manifest does not have"),
    "tools_missing": ({"abi": 1}, "no tools"),
    "tools_none": (manifest(tools=[]), "no tools"),
    "tools_map": (manifest(tools={"add": {}}), "tools that are no list"),
    "tool_twice": (manifest(tools=[tool(), tool()]), "a name twice"),
    "tool_unknown_key": (manifest(tools=[tool(version=1)]), "a key that a tool does not have"),
    "tool_manual": (manifest(tools=[tool(manual=True)]), "a key that a tool does not have"),
    **{
        f"name_{label}": (manifest(tools=[tool(name=name)]), "a name that no tool may have")
        for label, name in (
            ("empty", ""),
            ("space", "a b"),
            ("dot", "a.b"),
            ("umlaut", "ä"),
            ("long", "n" * 65),
            ("two_underscores", "a__b"),
            ("newline", "a\n"),
            ("int", 1),
        )
    },
    "description_missing": (manifest(tools=[{"name": "a", "input_schema": {}}]), "no description"),
    "description_long": (manifest(tools=[tool(description="x" * 4097)]), "a description over 4 KiB"),
    "description_direction": (manifest(tools=[tool(description="a\u202eb")]), "a character that a reader does not see"),
    "schema_missing": (manifest(tools=[{"name": "a", "description": ""}]), "no input_schema"),
    "schema_text": (manifest(tools=[tool(input_schema="object")]), "a schema that is no map"),
    "schema_type": (manifest(tools=[tool(input_schema={"type": "objekt"})]), "no JSON Schema"),
    "schema_remote": (manifest(tools=[tool(input_schema={"$ref": "https://schema.example/a"})]), "a remote $ref"),
    "timeout_zero": (manifest(tools=[tool(timeout_ms=0)]), "a timeout of 0"),
    "timeout_float": (manifest(tools=[tool(timeout_ms=1.5)]), "a timeout that is no integer"),
    "hint_int": (manifest(tools=[tool(read_only=1)]), "a hint that is no bool"),
    "capabilities_text": (manifest(capabilities="clock.now"), "capabilities that are no list"),
    "capability_empty": (manifest(capabilities=[""]), "a capability without a name"),
    "engine_text": (manifest(engine="00" * 32), "an engine that is no bytes"),
    "engine_short": (manifest(engine=bytes(31)), "an engine that is no SHA-256"),
    "example_no_answer": (manifest(tools=[tool(examples=[{"arguments": {}}])]), "an example without an answer"),
    "example_bad_answer": (
        manifest(tools=[tool(examples=[EXAMPLE | {"answer": {"ok": 1, "error": 1}}])]),
        "two shapes",
    ),
    "example_host_reply": (manifest(tools=[tool(examples=[EXAMPLE | {"host": [[HOST_CALL, {}]]}])]), "no reply"),
}

GOOD = {
    "requests": GOOD_REQUESTS,
    "answers": GOOD_ANSWERS,
    "host_requests": GOOD_HOST_REQUESTS,
    "host_replies": GOOD_HOST_REPLIES,
    "manifests": GOOD_MANIFESTS,
}
BAD = {
    "requests": BAD_REQUESTS,
    "answers": BAD_ANSWERS,
    "host_requests": BAD_HOST_REQUESTS,
    "host_replies": BAD_HOST_REPLIES,
    "manifests": BAD_MANIFESTS,
}
