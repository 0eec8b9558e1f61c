"""What a file does to the language harms that file alone: the glue keeps its own, and answers stay answers."""

# ruff: noqa: E501 - a case stands on one line
from __future__ import annotations

import pytest

from tests.toolchains.engines.quickjs_bench import Bench

_PATCHES = {
    "Object.prototype": "Object.prototype.ok = 'patched'; Object.prototype.toString = () => { throw 1; };",
    "setters on Object.prototype": """
        for (const key of ["ok", "raised", "error", "message", "type", "trace"]) {
          Object.defineProperty(Object.prototype, key, { set() { throw new Error("set"); }, get() { return "got"; } });
        }""",
    "Array.prototype": """
        Array.prototype.push = Array.prototype.map = Array.prototype.join = () => { throw 1; };
        Array.prototype[Symbol.iterator] = function* () { yield "patched"; };""",
    "JSON": "globalThis.JSON = { parse: () => 'patched', stringify: () => 'patched' };",
    "String.prototype": "for (const k of ['split', 'slice', 'trim', 'indexOf', 'lastIndexOf', 'replace']) String.prototype[k] = () => { throw 1; };",
    "RegExp.prototype": "RegExp.prototype.exec = () => { throw 1; };",
    "Function.prototype": "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 1; };",
    "Promise": "Promise.prototype.then = () => { throw 1; }; globalThis.Promise = null;",
    "Error": "globalThis.Error = globalThis.TypeError = null; Error.prepareStackTrace = 1;",
    "Error.prepareStackTrace": "Error.prepareStackTrace = () => { throw 1; };",
    "Map and WeakMap": "Map.prototype.get = Map.prototype.set = WeakMap.prototype.get = () => { throw 1; };",
    "every global": "for (const key of Object.getOwnPropertyNames(globalThis)) { try { delete globalThis[key]; } catch {} }",
    "the answers": """
        Ok.prototype = Failed.prototype = null; Object.defineProperty(Image, Symbol.hasInstance, { value: () => { throw 1; } });
        for (const k of Object.keys(log)) log[k] = () => { throw 1; };""",
}  # fmt: skip


@pytest.mark.parametrize("patch", _PATCHES.values(), ids=_PATCHES)
def test_patching_the_language_in_a_call_changes_no_answer(quickjs: Bench, patch: str) -> None:
    guarded = f"try {{ {patch} }} catch {{}}"
    assert quickjs.answer(f"{guarded} return {{ value: [1, 'two'] }}") == {"ok": {"value": [1, "two"]}}
    assert quickjs.answer(f"{guarded} return Failed('no')") == {"error": "no"}
    assert quickjs.answer(f"{guarded} await 1; return 2") == {"ok": 2}
    assert quickjs.answer(f"{guarded} throw 'plainly'") == {"raised": {"message": "plainly"}}
    raised = quickjs.answer(f"{guarded} null.x")["raised"]
    assert raised["message"] == "cannot read property 'x' of null"
    assert "raised" in quickjs.answer(f"{guarded} return {{ f() {{}} }}")


@pytest.mark.parametrize("patch", _PATCHES.values(), ids=_PATCHES)
def test_patching_the_language_at_load_leaves_tools_or_a_refusal(quickjs: Bench, patch: str) -> None:
    loaded = quickjs.load(
        f"import {{ Ok, Failed, Image, log }} from 'rho';\n/** a */ export function a() {{ return 1; }}\n"
        f"try {{ {patch} }} catch {{}}\n"
    )
    if "error" in loaded.reply:
        assert isinstance(loaded.reply["error"]["message"], str)
    else:
        assert [tool["name"] for tool in loaded.reply["ok"]["tools"]] == ["a"]
        assert loaded.call("a") == {"ok": 1}


def test_module_rho_cannot_be_reassigned(quickjs: Bench) -> None:
    assert quickjs.answer("Ok = 1")["raised"]["type"] == "TypeError"
    body = "const all = await import('rho'); try { all.Ok = 1 } catch (e) { return [e.name, Object.keys(all).length] }"
    assert quickjs.answer(body) == {"ok": ["TypeError", 10]}


def test_what_the_glue_was_given_is_not_to_be_found(quickjs: Bench) -> None:
    assert quickjs.answer("return [globalThis['rho:native'] === undefined, typeof keep, typeof std, typeof os]") == {
        "ok": [True, "undefined", "undefined", "undefined"]
    }


@pytest.mark.parametrize("name", ["fs", "std", "os", "./other.js", "https://example.com/a.js", "qjs:std", "bjson"])
def test_nothing_else_can_be_imported(quickjs: Bench, name: str) -> None:
    assert "error" in quickjs.load(f"import * as x from {name!r};").reply
    assert "raised" in quickjs.answer(f"return typeof (await import({name!r}))")


@pytest.mark.parametrize(
    "body",
    [
        "return new Proxy({}, { get() { throw 1; }, ownKeys() { throw 2; }, getPrototypeOf() { throw 3; } })",
        "return new Proxy([], {})",
        "throw new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 3; } })",
        "throw new Proxy(() => 1, { get() { throw 1; } })",
        "return { get x() { throw { get stack() { throw 1; } }; } }",
        "const a = [1, 2]; Object.defineProperty(a, 0, { get() { a.length = 0; return 1; } }); a.push(() => 1); return a",
        "const o = { get a() { delete o.b; return 1; }, b: () => 1, c: () => 2 }; return o",
        "return Object.setPrototypeOf({}, Array.prototype)",
        "return Object.setPrototypeOf([], null).concat",
        "return { __proto__: { a: 1 } }",
        "return new Uint8Array(new ArrayBuffer(8, { maxByteLength: 16 })).buffer.transfer && Symbol('x')",
        "return globalThis",
        "return import.meta.foo.bar",
    ],
)
def test_odd_answers_end_as_answers(quickjs: Bench, body: str) -> None:
    answer = quickjs.answer(body)
    assert len(answer) == 1
    assert answer.keys() <= {"ok", "raised"}


def test_a_detached_buffer_is_empty(quickjs: Bench) -> None:
    body = "const b = new ArrayBuffer(4); const a = new Uint8Array(b); b.transfer(); return ['before', a, b, 'after']"
    assert quickjs.answer(body) == {"ok": ["before", b"", b"", "after"]}


def test_a_getter_of_an_answer_may_change_what_is_written_but_not_break_it(quickjs: Bench) -> None:
    body = "const o = { get a() { for (let i = 0; i < 50; i++) o['k' + i] = i; return 1; } }; return o"
    assert quickjs.answer(body) == {"ok": {"a": 1}}
    body = "const a = [0, 1, 2]; a.__defineGetter__(0, () => { a.length = 1; return 9; }); return a"
    assert quickjs.answer(body) == {"ok": [9, None, None]}


def test_recursion_is_an_error_that_can_be_caught(quickjs: Bench) -> None:
    body = "const f = () => 1 + f(); try { f() } catch (e) { return [e.name, e.message] }"
    assert quickjs.answer(body) == {"ok": ["RangeError", "Maximum call stack size exceeded"]}
    raised = quickjs.answer("const f = () => 1 + f(); return f()")["raised"]
    assert raised["type"] == "RangeError"
    assert raised["trace"][0].startswith("tool.js:")


def test_what_waits_after_the_answer_is_run_and_cannot_change_it(quickjs: Bench) -> None:
    loaded = quickjs.load(
        "/** a */ export function a() { queueMicrotask(() => console.log('later')); return 1; }\n"
        "/** b */ export function b() { queueMicrotask(() => { throw 1; }); return 2; }\n"
    )
    assert (loaded.call("a"), loaded.call("b")) == ({"ok": 1}, {"ok": 2})
    assert loaded.log == [(20, "later")]
