"""What the author of a JavaScript tool sees: declarations, answers, errors, the log and the host."""

# ruff: noqa: E501 - a case stands on one line
from __future__ import annotations

from typing import Any

import pytest

from rho_wasm.manifest import Manifest
from tests.toolchains.engines.quickjs_bench import Bench


def declared(quickjs: Bench, source: str) -> dict[str, Any]:
    reply = quickjs.load(source).reply
    assert "ok" in reply, reply
    Manifest.model_validate({"abi": 1, "language": "javascript", "engine": b"0" * 32, **reply["ok"]})
    return {tool.pop("name"): tool for tool in reply["ok"]["tools"]}


def refused(quickjs: Bench, source: str) -> dict[str, Any]:
    reply = quickjs.load(source).reply
    assert "error" in reply, reply
    error: dict[str, Any] = reply["error"]
    return error


def test_jsdoc_says_what_a_tool_is(quickjs: Bench) -> None:
    source = """
const helper = (text) => text.trim();

/**
 * Counts the words of a text,
 * and the most frequent ones.
 *
 * A second paragraph is for people who read the source.
 *
 * @param {Object} args
 * @param {string} args.text - the text,
 *   in any language
 * @param {number} [args.top=5] how many
 * @param {"asc"|"desc"} [args.order]
 * @param {string[]} [args.stop] words that do not count
 * @param {Object} [ctx] the call
 * @returns {{words: number, top?: Array<Array<string|number>>}} what was found
 */
export function count({ text, top = 5 }, ctx) { return helper(text).length; }
"""
    assert declared(quickjs, source)["count"] == {
        "description": "Counts the words of a text, and the most frequent ones.",
        "input_schema": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "the text, in any language"},
                "top": {"type": "number", "description": "how many", "default": 5},
                "order": {"type": "string", "enum": ["asc", "desc"]},
                "stop": {"type": "array", "items": {"type": "string"}, "description": "words that do not count"},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
        "output_schema": {
            "type": "object",
            "properties": {
                "words": {"type": "number"},
                "top": {"type": "array", "items": {"type": "array", "items": {"type": ["string", "number"]}}},
            },
            "required": ["words"],
            "description": "what was found",
        },
    }


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return schema if required else {key: value for key, value in schema.items() if key != "required"}


@pytest.mark.parametrize(
    ("tags", "schema"),
    [
        ("@param {integer} a.x", closed({"x": {"type": "integer"}}, "x")),
        ("@param {?string} a.x", closed({"x": {"type": ["string", "null"]}}, "x")),
        ("@param {string=} a.x", closed({"x": {"type": "string"}})),
        ("@param {(string|number)[]} a.x", closed({"x": {"type": "array", "items": {"type": ["string", "number"]}}}, "x")),
        ("@param {Array.<number>} a.x", closed({"x": {"type": "array", "items": {"type": "number"}}}, "x")),
        ("@param {Record<string, number>} a.x", closed({"x": {"type": "object", "additionalProperties": {"type": "number"}}}, "x")),
        ("@param {1|2} a.x", closed({"x": {"type": "number", "enum": [1, 2]}}, "x")),
        ("@param {'a'|number} a.x", closed({"x": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "number"}]}}, "x")),
        ("@param {*} a.x", closed({"x": {}}, "x")),
        ("@param {{p: {q?: boolean}}} a", closed({"p": closed({"q": {"type": "boolean"}})}, "p")),
        ("@param {Object} a.u\n * @param {string} a.u.n", closed({"u": closed({"n": {"type": "string"}}, "n")}, "u")),
        ("@param {Object[]} a.u\n * @param {string} a.u[].n", closed({"u": {"type": "array", "items": closed({"n": {"type": "string"}}, "n")}}, "u")),
        ("@param {number} [a.x={}]", closed({"x": {"type": "number", "default": {}}})),
        ("@param {object} a", {"type": "object"}),
    ],
)  # fmt: skip
def test_types_become_schemas(quickjs: Bench, tags: str, schema: dict[str, Any]) -> None:
    source = f"/**\n * Tries.\n * {tags}\n */\nexport function t(a) {{}}\n"
    assert declared(quickjs, source)["t"]["input_schema"] == schema


def test_a_comment_on_one_line_and_a_constant_will_do(quickjs: Bench) -> None:
    source = "/** Adds. @param {number} args.a first @param {number} args.b second */\nexport const add = ({ a, b }) => a + b;"
    tool = declared(quickjs, source)["add"]
    assert tool["description"] == "Adds."
    assert tool["input_schema"]["properties"]["b"] == {"type": "number", "description": "second"}


def test_tools_may_be_declared_with_schemas_of_their_own(quickjs: Bench) -> None:
    source = """
import { tool } from "rho";
export const capabilities = ["http.fetch"];
export const add = tool({
  description: "Adds.",
  input: { properties: { a: { type: "number" } }, required: ["a"] },
  output: { type: "number" },
  timeout_ms: 500,
  read_only: true,
  idempotent: true,
  metadata: { kind: "arithmetic" },
  examples: [{ arguments: { a: 1 }, answer: { ok: 2 } }],
}, ({ a }) => a + 1);
"""
    loaded = quickjs.load(source)
    assert loaded.reply == {
        "ok": {
            "tools": [
                {
                    "name": "add",
                    "description": "Adds.",
                    "input_schema": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
                    "output_schema": {"type": "number"},
                    "timeout_ms": 500,
                    "read_only": True,
                    "idempotent": True,
                    "metadata": {"kind": "arithmetic"},
                    "examples": [{"arguments": {"a": 1}, "answer": {"ok": 2}}],
                }
            ],
            "capabilities": ["http.fetch"],
        }
    }
    assert loaded.call("add", {"a": 1}) == {"ok": 2}


def test_a_file_may_have_many_tools_and_call_its_own(quickjs: Bench) -> None:
    source = "/** a */ export function a() { return 1; }\n/** b */ export async function b() { return a() + 1; }\n"
    loaded = quickjs.load(source)
    assert [tool["name"] for tool in loaded.reply["ok"]["tools"]] == ["a", "b"]
    assert (loaded.call("a"), loaded.call("b")) == ({"ok": 1}, {"ok": 2})
    assert loaded.call("c")["raised"]["message"] == 'rho: there is no tool "c" here'


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("return Ok(1)", {"ok": 1}),
        ("return new Ok({ a: 1 }, { details: [2] })", {"ok": {"a": 1}, "details": [2]}),
        ("return Ok()", {"ok": None}),
        ("return Failed('no')", {"error": "no"}),
        ("throw new Failed({ code: 5 }, { details: 3 })", {"error": {"code": 5}, "details": 3}),
        ("await null; throw Failed('late')", {"error": "late"}),
        ("return AskUser('sure?', { yes: 'y' })", {"ask_user": "sure?", "options": {"yes": "y"}}),
        ("return AskUser('sure?')", {"ask_user": "sure?"}),
        ("return Halt('done', [1])", {"halt": "done", "value": [1]}),
        ("return new Halt('done')", {"halt": "done", "value": None}),
        ("return [Ok(1) instanceof Ok, new Failed('a') instanceof Failed]", {"ok": [True, True]}),
        ("return (await Promise.all([1, (async () => 2)()]))", {"ok": [1, 2]}),
        ("return { then(resolve) { resolve(Ok(7)); } }", {"ok": 7}),
        (
            "return Ok('see', { images: [new Image('image/png', new Uint8Array([1, 2]))] })",
            {"ok": "see", "images": [{"mime_type": "image/png", "data": b"\1\2"}]},
        ),
    ],
)
def test_the_four_answers(quickjs: Bench, body: str, answer: Any) -> None:
    assert quickjs.answer(body) == answer


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return AskUser(5)", "rho: an AskUser's question is text, not a number"),
        ("return Halt()", "rho: a Halt's reason is text, not undefined"),
        ("return Ok(1, { picture: 1 })", 'rho: Ok has no option "picture"; it has images, details'),
        ("return Ok(1, { images: ['x'] })", "rho: an image of Ok is an Image(mime_type, data), not a string"),
        ("return new Image('image/png', [1])", "rho: an Image's data is a Uint8Array, not an array"),
        ("host(5)", "rho: a capability's name is text, not a number"),
        ("host('a', null)", 'rho: the arguments of "a" are an object, not null'),
        ("return Ok(1, ['x'])", "rho: the options of Ok are an object, not an array"),
        ("host('a', ['x'])", 'rho: the arguments of "a" are an object, not an array'),
        (
            "return Ok(1, { image: 1 })",
            'rho: Ok has no option "image" (did you mean "images"?); it has images, details',
        ),
        ("host('a', { f() {} })", "rho: the arguments of the host call.f is a function, which is no plain data"),
    ],
)
def test_wrong_use_of_the_module_is_told(quickjs: Bench, body: str, message: str) -> None:
    raised = quickjs.answer(body)["raised"]
    assert (raised["type"], raised["message"]) == ("TypeError", message)


def test_what_is_thrown_shows_the_authors_own_lines(quickjs: Bench) -> None:
    source = """/** Fails. */
export function fails() {
  const inner = (item) => item.missing.more;
  return [1].map(() =>
    inner({}));
}
"""
    raised = quickjs.load(source, file="broken.js").call("fails")["raised"]
    assert raised["type"] == "TypeError"
    assert raised["message"] == "cannot read property 'more' of undefined"
    assert raised["trace"] == [
        "broken.js:3 in inner: const inner = (item) => item.missing.more;",
        "broken.js:5: inner({}));",
        "broken.js:4 in fails: return [1].map(() =>",
    ]


def test_the_engines_own_frames_are_not_the_authors(quickjs: Bench) -> None:
    source = "import { host } from 'rho';\n/** Asks. */\nexport function asks() { return host(5); }\n"
    for file in ("o", "ho", "a b (c).js", "日本.js"):
        raised = quickjs.load(source, file=file).call("asks")["raised"]
        assert raised["trace"] == [f"{file}:3 in asks: export function asks() {{ return host(5); }}"]


def test_what_caused_an_error_is_told(quickjs: Bench) -> None:
    body = "try { null.x } catch (cause) { throw new Error('outer', { cause }) }"
    raised = quickjs.answer(body)["raised"]
    assert raised["message"] == "outer"
    assert [line.partition(" in ")[0] for line in raised["trace"]] == [
        "tool.js:4",
        "caused by TypeError: cannot read property 'x' of null",
        "tool.js:4",
    ]
    assert "raised" in quickjs.answer("const e = new Error('a'); e.cause = e; throw e")


@pytest.mark.parametrize(
    ("body", "raised"),
    [
        ("throw 'text'", {"message": "text"}),
        ("throw undefined", {"message": "undefined"}),
        ("await null; throw undefined", {"message": "undefined"}),
        ("throw null", {"message": "null"}),
        ("throw { a: 1 }", {"type": "Error", "message": "an object"}),
        ("throw { get name() { throw 1; }, get stack() { throw 2; }, message: 5 }", {"type": "Error", "message": "an object"}),
        (
            "await new Promise(() => {})",
            {
                "type": "TypeError",
                "message": "rho: the promise that the tool returned never settles: nothing is left that could settle it",
            },
        ),
    ],
)  # fmt: skip
def test_odd_things_may_be_thrown(quickjs: Bench, body: str, raised: Any) -> None:
    assert quickjs.answer(body) == {"raised": raised}


def test_an_error_of_ones_own_keeps_its_name(quickjs: Bench) -> None:
    body = "class NoSuchCity extends Error { name = 'NoSuchCity' } throw new NoSuchCity('Atlantis')"
    raised = quickjs.answer(body)["raised"]
    assert (raised["type"], raised["message"]) == ("NoSuchCity", "Atlantis")


def test_the_log_and_progress(quickjs: Bench) -> None:
    source = """
import { log, progress } from "rho";
/** Logs. */
export function logs() {
  console.log("one", { a: 1 }, [2], null, undefined, 5n, new Error("x"), Symbol("q"));
  console.warn("two"); console.error("three"); console.debug("four");
  log.info("five"); log.warning("half \\ud83d");
  progress(3, 10, "pages"); progress(0.5);
}
"""
    loaded = quickjs.load(source)
    loaded.call("logs")
    assert loaded.log == [
        (20, 'one {"a":1} [2] null undefined 5n Error: x Symbol(q)'),
        (30, "two"),
        (40, "three"),
        (10, "four"),
        (20, "five"),
        (30, "half \ufffd"),
        (20, "progress: 3 of 10 pages"),
        (20, "progress: 0.5"),
    ]


def test_the_host_is_asked_and_may_say_no(quickjs: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(quickjs.capabilities, "add", lambda arguments: arguments["x"] + 1)
    assert quickjs.answer("return host('add', { x: 41 })") == {"ok": 42}
    assert quickjs.answer("return { get x() { return host('add', { x: 1 }); }, y: 'after' }") == {
        "ok": {"x": 2, "y": "after"}
    }
    body = "try { host('nope'); } catch (e) { return [e instanceof HostError, e.name, e.kind, e.message]; }"
    assert quickjs.answer(body) == {"ok": [True, "HostError", "denied", "nobody granted it"]}
    assert quickjs.answer("host('nope')")["raised"]["message"].startswith("nope: denied: nobody granted it (")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("' a  b\\t\\nc '.split(/\\s+/)", ["", "a", "b", "c", ""]),
        ("''.split(/\\s+/)", [""]),
        ("'\\u00a0é b'.split(/\\s+/)", ["", "é", "b"]),
        ("'a b c'.split(/\\s+/, 2)", ["a", "b"]),
        ("'a b c'.split(Object.assign(/\\s+/, { exec: () => null }))", ["a", "b", "c"]),
        ("'a b'.split(new (class extends RegExp { exec() { return null; } })('\\\\s+'))", ["a b"]),
        ("(RegExp.prototype.exec = () => null, 'a b'.split(/\\s+/))", ["a b"]),
        ("/\\s+/[Symbol.split](new String('a b'))", ["a", "b"]),
    ],
)
def test_the_short_way_to_words_is_the_long_one(quickjs: Bench, written: str, words: list[str]) -> None:
    assert quickjs.answer(f"return {written}") == {"ok": words}


def test_the_context_crosses(quickjs: Bench) -> None:
    assert quickjs.answer("return ctx", call_id="c", values={"a": 1}) == {"ok": {"call_id": "c", "values": {"a": 1}}}


def test_a_syntax_error_has_its_place(quickjs: Bench) -> None:
    error = refused(quickjs, "/** a */\nexport function a() {\n  return 1 +;\n}\n")
    assert error["message"].startswith("SyntaxError: ")
    assert (error["line"], error["column"], error["text"]) == (3, 13, "  return 1 +;")
    assert "trace" not in error


@pytest.mark.parametrize(
    ("source", "message", "line", "hint"),
    [
        ('import fs from "fs";', "ReferenceError: could not load module 'fs'", 1, 'imports nothing but "rho"'),
        ('\nimport { Okay } from "rho";', "SyntaxError: Could not find export 'Okay' in module 'rho'", 2, '"rho" exports AskUser,'),
        ('const fs = require("fs");', "ReferenceError: require is not defined", 1, "write ES modules"),
        ("module.exports = {};", "ReferenceError: module is not defined", 1, "write ES modules"),
        ("1;\nnull.x;", "TypeError: cannot read property 'x' of null", 2, None),
        ("throw 'at load';", "at load", None, None),
        ("const a = 1;", "the file exports no function, so it has no tool", None, None),
        ("export default function () {}", "export default has no name to call it by", 1, None),
        ("export function f() {}", "f has no description: write /** what it does */", 1, None),
        ("/** a */ export function f(args) {}", "f takes arguments, but its comment has no @param", 1, None),
        ("/** a\n * @param {number} x */ export function f(x) {}", "f gets all its arguments in one object", 2, None),
        ("/** a\n * @param {Foo} args.x */ export function f(x) {}", "the type Foo is not known; a type is one of", 2, None),
        ("/** a\n * @param {Array<} args.x */ export function f(x) {}", "the type {Array<} ", 2, None),
        ("/** a\n * @param {{a: string} args.x */ export function f(x) {}", "a type's \"{\" is never closed", 2, None),
        ("await new Promise(() => {});", "the file awaits, at its top level, something that never settles", None, None),
        ('import { tool } from "rho"; export const f = tool({}, () => 1);', "TypeError: rho: tool({ description, input }", 1, None),
        ('import { tool } from "rho"; export const f = tool({ description: "a", inputs: {} }, () => 1);', 'TypeError: rho: tool has no option "inputs"', 1, None),
        ('import { tool } from "rho"; export const f = tool({ description: "a", metadata: { f() {} } }, () => 1);', "a declaration is no plain data", None, None),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_told(
    quickjs: Bench, source: str, message: str, line: int | None, hint: str | None
) -> None:
    error = refused(quickjs, source)
    assert error["message"].startswith(message)
    assert error.get("line") == line
    assert (hint or "") in error.get("hint", "")
    assert (hint is None) == ("hint" not in error)
