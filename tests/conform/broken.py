"""Modules that each break one clause of the guest ABI, made of WAT or of bytes, with the clause that they break."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import wasmtime

from rho_wasm import plain
from rho_wasm.manifest import Manifest, embed
from rho_wasm.sandbox.abi import MANIFEST_SECTION
from rho_wasm.wasm import with_custom
from tests.sandbox.guests import answer, answering, data, guest, wat
from tests.sandbox.module_bytes import I32, I64, MANIFEST, Guest, body, export, function_type

__all__ = ["BROKEN_IN_CALLS", "BROKEN_TO_SEE", "SHOULD", "refusing_floats"]

TOOL: Mapping[str, Any] = {"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}
PNG = bytes.fromhex("89504e470d0a1a0a")
HEAP = """(global $top (mut i32) (i32.const 40960))
  (func $take (param $size i32) (result i32) (local $at i32)
    (local.set $at (global.get $top))
    (global.set $top (i32.add (local.get $at) (local.get $size)))
    (block $room
      (br_if $room (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
      (br_if $room (i32.ne (i32.const -1)
        (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get $size) (i32.const 16))))))
      (return (i32.const 0)))
    (local.get $at))"""


def declaring(manifest: Mapping[str, Any], *, extra: str = "") -> bytes:
    """A guest that answers ok and has this manifest, right or wrong."""
    text, segment = answer({"ok": 1})
    return with_custom(wat(text, extra=f"{segment} {extra}"), MANIFEST_SECTION, plain.encode(dict(manifest)))


def with_tool(**fields: Any) -> bytes:
    return declaring({"abi": 1, "tools": [dict(TOOL) | fields]})


def asking(request: bytes, *, then: str, capabilities: tuple[str, ...] = ("clock.now",)) -> bytes:
    """A guest that asks the host, then does what ``then`` says and answers ok."""
    text, segment = answer({"ok": 1})
    call = f"(local.set $i (call $host_call (i32.const 0) (i32.const {len(request)}))) {then}"
    return guest(f"{call} {text}", extra=f"{segment} {data(0, request)}", capabilities=capabilities)


def bytes_answered(content: bytes) -> bytes:
    return guest(f"(i64.const {2048 << 32 | len(content)})", extra=data(2048, content))


def without_export(name: str) -> bytes:
    module = Guest()
    module.exports = [each for each in module.exports if name.encode() not in each]
    return module.build()


def with_export(*exports: bytes) -> bytes:
    module = Guest()
    module.exports += exports
    return module.build()


def with_imports(imports: str) -> bytes:
    return embed(wat("(i64.const 0)", imports=imports), Manifest.decode(MANIFEST))


def wrong_type(name: str) -> bytes:
    module = Guest()
    module.types.append(function_type([I64], [I32]))
    module.add_function(body(b"\x41\x10"), type_index=3)
    module.exports = [each for each in module.exports if name.encode() not in each] + [export(name, 0, 2)]
    return module.build()


def image_over_no_engine(segment_at: int = 0) -> bytes:
    manifest = Manifest.decode(MANIFEST).model_copy(update={"engine": bytes(32)})
    text = f'(module (import "rho_engine" "memory" (memory 1)) {data(segment_at, b"x")} {data(0, b"y")})'
    return embed(bytes(wasmtime.wat2wasm(text)), manifest)


def with_customs(*customs: tuple[str, bytes]) -> bytes:
    module = Guest()
    module.customs = list(customs)
    return module.build()


def large(before: str) -> bytes:
    """A guest with room for the largest request, that does what ``before`` says and answers ok."""
    return answering({"ok": 1}, before=before, extra=HEAP, alloc="(call $take (local.get $size))")


def large_answering(value: Any) -> bytes:
    return answering(value, extra=HEAP, alloc="(call $take (local.get $size))")


def refusing_floats(*heads: int) -> bytes:
    """A guest that raises where its request has a byte that begins a float so, and that no text has."""
    raised = plain.encode({"raised": {"message": "no"}})
    refused = f"(return (i64.const {2048 << 32 | len(raised)}))"
    byte = "(i32.load8_u (i32.add (local.get $p) (local.get $i)))"
    checks = " ".join(f"(if (i32.eq {byte} (i32.const {head})) (then {refused}))" for head in heads)
    return answering(
        {"ok": 1},
        before=f"""(loop $l
        {checks} (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $l (i32.lt_u (local.get $i) (local.get $n))))""",
        extra=HEAP + data(2048, raised),
        alloc="(call $take (local.get $size))",
    )


def trapping_on(load: str, wanted: int) -> bytes:
    """A guest that traps where its request has these bytes in it."""
    return large(f"""(loop $l
        (if (i32.eq (i32.{load} (i32.add (local.get $p) (local.get $i))) (i32.const {wanted})) (then unreachable))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $l (i32.lt_u (local.get $i) (i32.sub (local.get $n) (i32.const 1)))))""")


def trapping_from(size: int, *, to: int) -> bytes:
    """A guest that traps on requests of so many bytes."""
    return large(f"""(if (i32.and (i32.gt_u (local.get $n) (i32.const {size}))
        (i32.lt_u (local.get $n) (i32.const {to}))) (then unreachable))""")


_HOST_CALL = plain.encode({"capability": "clock.now", "arguments": {}})
_TAKE = "(drop (call $host_take (i32.const 2048) (local.get $i)))"
_DENIED_TRAPS = f"{_TAKE} (if (i32.ne (i32.load8_u (i32.const 2049)) (i32.const 0x62)) (then unreachable))"
_ENDLESS = f"(loop $l (drop (call $host_call (i32.const 0) (i32.const {len(_HOST_CALL)}))) (br $l))"

BROKEN_TO_SEE: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "no module": (lambda: b"\x7fELF" + bytes(60), "wasm.binary"),
    "a module cut short": (lambda: Guest().build()[:40], "wasm.binary"),
    "a component": (lambda: b"\0asm\x0d\0\x01\0", "wasm.binary"),
    "a shared memory": (lambda: Guest().with_raw(5, b"\x01\x03\x01\x02").build(), "memory.one"),
    "tags": (lambda: Guest().with_raw(13, b"\x01\x00\x02").build(), "wasm.features"),
    "a start section": (lambda: Guest().add_function(body(b"")).with_raw(8, b"\x02").build(), "wasm.start"),
    "a function of 1,001 locals": (lambda: Guest().add_function(body(b"", [b"\xe9\x07\x7f"])).build(), "wasm.bounds"),
    "a foreign import": (lambda: with_imports('(import "env" "abort" (func))'), "imports.known"),
    "a socket of WASI": (
        lambda: with_imports('(import "wasi_snapshot_preview1" "sock_shutdown" (func (param i32 i32) (result i32)))'),
        "imports.known",
    ),
    "a log of another type": (lambda: with_imports('(import "rho" "log" (func (param i32 i32)))'), "imports.types"),
    "no memory": (lambda: Guest().with_raw(5, None).build(), "memory.one"),
    "a memory over the limit": (lambda: Guest().with_raw(5, b"\x01\x00\x81\x08").build(), "memory.start"),
    "no export of the memory": (lambda: without_export("memory"), "exports.memory"),
    "no rho_alloc": (lambda: without_export("rho_alloc"), "exports.rho_alloc"),
    "no rho_call": (lambda: without_export("rho_call"), "exports.rho_call"),
    "rho_alloc of another type": (lambda: wrong_type("rho_alloc"), "exports.rho_alloc"),
    "rho_call of another type": (lambda: wrong_type("rho_call"), "exports.rho_call"),
    "_initialize with a parameter": (lambda: with_export(export("_initialize", 0, 0)), "exports.initialize"),
    "an export of the host's": (lambda: with_export(export("rho:global:0", 0, 0)), "exports.names"),
    "no manifest": (lambda: wat("(i64.const 0)"), "manifest.section"),
    "two manifests": (
        lambda: with_customs((MANIFEST_SECTION, MANIFEST), (MANIFEST_SECTION, MANIFEST)),
        "manifest.section",
    ),
    "a manifest with a tag": (lambda: with_customs((MANIFEST_SECTION, b"\xc1\x00")), "manifest.plain"),
    "a manifest of ABI 2": (lambda: declaring({"abi": 2, "tools": [TOOL]}), "manifest.abi"),
    "a requirement": (lambda: declaring({"abi": 1, "tools": [TOOL], "requires": ["rho.later"]}), "manifest.requires"),
    "a key of nobody's": (lambda: declaring({"abi": 1, "tools": [TOOL], "author": "me"}), "manifest.shape"),
    "no tools": (lambda: declaring({"abi": 1, "tools": []}), "manifest.shape"),
    "a tool's name with a dot": (lambda: with_tool(name="a.b"), "manifest.tools"),
    "two tools of one name": (lambda: declaring({"abi": 1, "tools": [TOOL, TOOL]}), "manifest.tools"),
    "a description of 5 KB": (lambda: with_tool(description="x" * 5000), "manifest.tools"),
    "a schema that is none": (lambda: with_tool(input_schema={"type": "objekt"}), "manifest.schemas"),
    "an example of two shapes": (
        lambda: with_tool(examples=[{"arguments": {}, "answer": {"ok": 1, "error": 1}}]),
        "manifest.examples",
    ),
    "a guest that names an engine": (
        lambda: declaring({"abi": 1, "tools": [TOOL], "engine": bytes(32)}),
        "image.engine",
    ),
    "an image whose segments descend": (lambda: image_over_no_engine(segment_at=8), "image.segments"),
}
"""Each with what makes it, and the one clause that fails: without running it."""

BROKEN_IN_CALLS: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "code that wasmtime does not take": (lambda: Guest().add_function(body(b"\x41\x00")).build(), "wasm.binary"),
    "_initialize traps": (
        lambda: answering({"ok": 1}, extra='(func (export "_initialize") unreachable)'),
        "calls.begin",
    ),
    "a data segment outside of the memory": (lambda: answering({"ok": 1}, extra=data(70_000, b"x")), "calls.begin"),
    "rho_alloc answers 0": (lambda: answering({"ok": 1}, alloc="i32.const 0"), "alloc.room"),
    "rho_alloc answers room outside": (lambda: answering({"ok": 1}, alloc="i32.const 65536"), "alloc.bounds"),
    "rho_alloc does not look at memory.grow": (
        lambda: answering(
            {"ok": 1},
            extra="(global $top (mut i32) (i32.const 65536))",
            alloc="""(drop (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get $size) (i32.const 16)))))
                     (global.get $top)""",
        ),
        "alloc.zero",
    ),
    "a handler that traps": (lambda: guest("unreachable"), "calls.answered"),
    "a handler that exits": (lambda: answering({"ok": 1}, before="(call $proc_exit (i32.const 0))"), "calls.answered"),
    "a loop without end": (lambda: guest("(loop $l (br $l)) unreachable"), "limits.fuel"),
    "an answer outside of the memory": (lambda: guest(f"(i64.const {65_530 << 32 | 10})"), "answer.bounds"),
    "an answer of no bytes": (lambda: guest("(i64.const 0)"), "answer.empty"),
    "an answer with a tag": (lambda: bytes_answered(b"\xa1\x62ok\xc1\x00"), "answer.plain"),
    "an answer with something after it": (lambda: bytes_answered(b"\xa1\x62ok\x00\x00"), "answer.plain"),
    "an answer with a key twice": (lambda: bytes_answered(b"\xa2\x62ok\x00\x62ok\x00"), "answer.plain"),
    "an answer that is no map": (lambda: answering([1]), "answer.shape"),
    "an answer of two shapes": (lambda: answering({"ok": 1, "error": "no"}), "answer.shape"),
    "a halt without a value": (lambda: answering({"halt": "done"}), "answer.shape"),
    "an answer of another key": (lambda: answering({"ok": 1, "warning": "x"}), "answer.shape"),
    "a picture that is none": (
        lambda: answering({"ok": 1, "images": [{"mime_type": "image/png", "data": b"<svg/>"}]}),
        "answer.images",
    ),
    "a picture of another kind": (
        lambda: answering({"ok": 1, "images": [{"mime_type": "image/gif", "data": PNG}]}),
        "answer.images",
    ),
    "an answer that is too deep": (lambda: bytes_answered(b"\xa1\x62ok" + b"\x81" * 64 + b"\x00"), "answer.limits"),
    "a question of 3,000 characters": (lambda: answering({"ask_user": "?" * 3000}), "answer.limits"),
    "an example that answers otherwise": (
        lambda: with_tool(examples=[{"arguments": {}, "answer": {"ok": 2}}]),
        "examples.answered",
    ),
    "an example that its output_schema does not take": (
        lambda: with_tool(output_schema={"type": "string"}, examples=[{"arguments": {}, "answer": {"ok": 1}}]),
        "answer.output_schema",
    ),
    "an answer that its output_schema does not take": (
        lambda: with_tool(output_schema={"type": "string"}),
        "answer.output_schema",
    ),
    "half floats are refused": (lambda: refusing_floats(0xF9), "plain.floats"),
    "single floats are refused": (lambda: refusing_floats(0xFA), "plain.floats"),
    "double floats are refused": (lambda: refusing_floats(0xFB), "plain.floats"),
    "a reply is taken where nothing was asked": (
        lambda: answering({"ok": 1}, before="(drop (call $host_take (i32.const 2048) (i32.const 4)))"),
        "host_call.take",
    ),
    "unknown keys trap": (
        lambda: answering(
            {"ok": 1}, before="(if (i32.ne (i32.load8_u (local.get $p)) (i32.const 0xa4)) (then unreachable))"
        ),
        "request.unknown_keys",
    ),
    "another answer where memory is refused": (
        lambda: guest(
            f"""(if (i32.eqz (call $take (i32.const 80000))) (then (return (i64.const {2048 << 32 | 5}))))
                (i64.const {3072 << 32 | 5})""",
            extra=HEAP + data(2048, b"\xa1\x62ok\x00") + data(3072, b"\xa1\x62ok\x01"),
        ),
        "memory.exhausted",
    ),
    "text of every plane traps": (lambda: trapping_on("load8_u", 0xF4), "plain.texts"),
    "deep arguments trap": (lambda: trapping_on("load16_u", 0xA181), "plain.depth"),
    "many items trap": (lambda: trapping_from(90_000, to=200_000), "plain.items"),
    "a large text traps": (lambda: trapping_from(1_000_000, to=2_000_000), "plain.large"),
    "a host-request that is no map": (lambda: asking(b"\x01", then=_TAKE), "host_call.request"),
    "a reply is taken twice": (lambda: asking(_HOST_CALL, then=_TAKE * 2), "host_call.take"),
    "a denied host call traps": (lambda: asking(_HOST_CALL, then=_DENIED_TRAPS), "host_call.denied"),
    "host calls without end": (lambda: asking(_HOST_CALL, then=_ENDLESS), "host_call.count"),
}
"""The same, of modules that have to be compiled or called."""

SHOULD: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "whatever is asked raises": (lambda: large_answering({"raised": {"message": "no"}}), "calls.succeed"),
    "no room for a large request, and none said": (lambda: answering({"ok": 1}), "alloc.large"),
    "a capability that is not declared": (
        lambda: asking(_HOST_CALL, then=_TAKE, capabilities=()),
        "host_call.declared",
    ),
    "any tool is ok": (lambda: large(""), "request.unknown_tool"),
    "any ABI is ok": (lambda: large(""), "request.abi"),
    "any bytes are ok": (lambda: large(""), "request.malformed"),
    "a log that is no text": (
        lambda: answering(
            {"ok": 1}, before="(call $log (i32.const 20) (i32.const 0) (i32.const 1))", extra=data(0, b"\xff")
        ),
        "log.text",
    ),
}
"""What a module should not be: a warning, and no failure."""
