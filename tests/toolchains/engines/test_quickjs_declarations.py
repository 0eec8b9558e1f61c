"""What a JavaScript file says of its tools, and is no list, no object or no name: told where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm.errors import CapabilityError
from tests.toolchains.engines.quickjs_bench import Bench

_TOOL = "/** a */ export function f() { return 1; }\n"
_LIST = 'capabilities is a list of names, like ["kv.get"]'
_SAY = 'export const capabilities = ["kv.get"]'


@pytest.mark.parametrize(
    ("code", "message", "text"),
    [
        ('export const capabilities = "kv.get";', f"{_LIST}, not a string", 'export const capabilities = "kv.get";'),
        ("export let capabilities;", f"{_LIST}, not undefined", "export let capabilities;"),
        ("export const capabilities = { kv: 1 };", f"{_LIST}, not an object", "export const capabilities = { kv: 1 };"),
        ("export const capabilities = [\n5];", f"{_LIST}, and a number is no name", "export const capabilities = ["),
        (
            'export const capabilities = ["a, b"];',
            f'{_LIST}, and "a, b" is no name',
            'export const capabilities = ["a, b"];',
        ),
        ('export const capabilities = [""];', f'{_LIST}, and "" is no name', 'export const capabilities = [""];'),
        (
            "const a = 1, b = '';\nexport { a,\n  b as capabilities };",
            f"{_LIST}, not a string",
            "  b as capabilities };",
        ),
        (
            'export const capability = ["a"];',
            f"capability is not looked at: write {_SAY}",
            'export const capability = ["a"];',
        ),
    ],
)
def test_capabilities_are_a_list_of_names(quickjs: Bench, code: str, message: str, text: str) -> None:
    error = quickjs.load(f"{_TOOL}{code}\n").reply["error"]
    assert (error["message"], error["text"]) == (message, text)
    assert f"{_TOOL}{code}\n".splitlines()[error["line"] - 1] == text


def test_capabilities_are_told_with_all_else_that_is_wrong_and_each_once(quickjs: Bench) -> None:
    error = quickjs.load("export function f() {}\nexport const capabilities = 'a';\n").reply["error"]
    assert {each["line"] for each in (error, *error["others"])} == {1, 2}
    reply = quickjs.load(f'{_TOOL}export const capabilities = ["kv.put", "kv.get", "kv.put"];').reply
    assert reply["ok"]["capabilities"] == ["kv.put", "kv.get"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ('examples: "abc"', "examples of tool must be an array, not a string"),
        ("examples: [1]", "each of the examples of tool must be { arguments: { n: 1 }, answer: { ok: 2 } }"),
        ('input: "abc"', "input of tool must be a JSON Schema, which is an object, not a string"),
        ("output: new Map()", "output of tool must be a JSON Schema, which is an object, not a Map"),
        ('timeout_ms: "5"', "timeout_ms of tool must be a whole number, not a string"),
        ('read_only: "yes"', "read_only of tool must be true or false, not a string"),
        ("metadata: []", "metadata of tool must be an object, not an array"),
        ("description: 5", "description of tool must be text, not a number"),
        ("timeoutMs: 5", 'tool has no option "timeoutMs" (did you mean "timeout_ms"?); it has description, input,'),
        ("input_schema: {}", 'tool has no option "input_schema" (did you mean "input"?); it has'),
        ("wat: {}", 'tool has no option "wat"; it has description, input,'),
        ('capabilities: ["kv.get"]', f"capabilities are of the whole file: {_SAY}"),
    ],
)
def test_options_of_a_tool_are_of_their_kind(quickjs: Bench, option: str, said: str) -> None:
    source = f'import {{ tool }} from "rho";\nexport const f = tool({{ description: "a", {option} }}, () => 1);\n'
    error = quickjs.load(source).reply["error"]
    assert error["message"].startswith(f"TypeError: rho: {said}")
    assert error["line"] == 2


def test_a_refusal_names_the_capability_and_its_kind(quickjs: Bench) -> None:
    body = "try { host('kv.get'); } catch (e) { console.log(e); return [`${e}`, e.message, e.capability]; }"
    message = "nobody granted it"
    assert quickjs.answer(body) == {"ok": [f"kv.get: denied: {message}", message, "kv.get"]}
    cause = "try { host('kv.get'); } catch (cause) { throw new Error('outer', { cause }); }"
    assert "caused by HostError: kv.get: denied: nobody granted it" in quickjs.answer(cause)["raised"]["trace"]


@pytest.mark.parametrize(
    ("kind", "message", "text"),
    [
        ("denied", "kv.put is not granted", "kv.put: denied: not granted"),
        ("quota", "the values are over 1 MiB", "kv.put: quota: the values are over 1 MiB"),
        ("undeclared", "no", 'kv.put: undeclared: say export const capabilities = ["kv.put"]'),
    ],
)
def test_a_refusal_that_names_it_is_not_doubled_and_how_to_declare_it_is_said(
    quickjs: Bench, monkeypatch: pytest.MonkeyPatch, kind: Any, message: str, text: str
) -> None:
    def refuses(arguments: Any) -> Any:
        raise CapabilityError(kind, message)

    monkeypatch.setitem(quickjs.capabilities, "kv.put", refuses)
    assert quickjs.answer("try { host('kv.put'); } catch (e) { return `${e}`; }") == {"ok": text}
    raised = quickjs.answer("host('kv.put')")["raised"]
    assert raised["type"] == "HostError"
    caught = " (catch HostError, and return Failed(`${error}`))"
    assert raised["message"] == text + ("" if kind == "undeclared" else caught)


@pytest.mark.parametrize(
    "code",
    [
        "/** Counts.\n * @param text The text */\nexport function f(text, top = 5) {}",
        "/** Counts.\n * @param a first\n * @param b second */\nexport function f(a, b) {}",
        "/** Counts.\n * @param text what to count */\nexport function f(text) {}",
        "/** Counts. @param {Object} args */\nexport function f(...args) {}",
        "/** Counts.\n * @param {string} args.a x */\nexport function f(args, ctx, more) {}",
        'import { tool } from "rho";\nexport const f = tool({ description: "a", input: {} }, (a, b = "x,(") => 1);',
    ],
)
def test_arguments_one_by_one_are_refused(quickjs: Bench, code: str) -> None:
    error = quickjs.load(code).reply["error"]
    assert error["message"].startswith("f gets all its arguments in one object: write @param {type} args.NAME")
    assert "export" in error["text"]


@pytest.mark.parametrize(
    "code",
    [
        '/** a\n * @param {string} args.x y */ export function f({ x = "),(" }, context) {}',
        "/** a\n * @param {string} o.x y */ export function f(o /* , a */, { values }) {}",
        "/** a @param args anything */ export const f = async (args) => 1;",
        "/** a @param {any} data */ export const f = data => 1;",
        "/** a */ export async function f() {}",
        'import { tool } from "rho";\nexport const f = tool({ description: "a", input: {} }, ({ a, b }, ctx) => 1);',
    ],
)
def test_one_object_and_a_context_are_taken(quickjs: Bench, code: str) -> None:
    assert "ok" in quickjs.load(code).reply


def test_progress_is_reported_where_it_is_declared_and_else_logged(
    quickjs: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    source = 'import { progress } from "rho";\n/** a */ export function f() { progress(1, 2, "pages"); return 1; }\n'
    declares = 'export const capabilities = ["progress.report"];\n'
    loaded = quickjs.load(source + declares)
    assert loaded.call("f") == {"ok": 1}
    assert loaded.log == [(20, "progress: 1 of 2 pages")]
    monkeypatch.setitem(quickjs.capabilities, "progress.report", reported.append)
    for code in (source + declares, source):
        loaded = quickjs.load(code)
        assert loaded.call("f") == {"ok": 1}
        assert loaded.log == ([] if code != source else [(20, "progress: 1 of 2 pages")])
    assert reported == [{"done": 1, "total": 2, "text": "pages"}]
