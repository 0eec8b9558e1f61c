"""A trace shows the line that failed, or says that it is near by; a missing global is explained."""

from __future__ import annotations

import pytest

from tests.toolchains.engines.quickjs_bench import Bench

_SOURCE = """/** a */
export function f() {
  const o = Object.freeze({ x: 1 }), k = "key";
  const first = 1;
  const second = first + 1;

  if (k) first + 2;
  // The next line fails.
  BODY
  const last = k;
  return last.trim();
}
"""


@pytest.mark.parametrize(
    "body",
    [
        "const v = o.missing.deeper;",
        "const v = o.missing['deeper'];",
        "const v = o.missing[0];",
        "o.missing.deeper = 1;",
        "o.x = 2;",
        "first = 2;",
        "first += 2;",
        "first++;",
        "o.missing();",
        "nothing;",
        "const v = Object.keys(o.missing);",
        "const v = new Map([1]);",
        "throw new TypeError('mine');",
    ],
)
def test_the_line_that_failed_is_shown(quickjs: Bench, body: str) -> None:
    raised = quickjs.load(_SOURCE.replace("BODY", body), file="lines.js").call("f")["raised"]
    assert raised["trace"] == [f"lines.js:9 in f: {body}"]


@pytest.mark.parametrize(
    "body",
    [
        "const { a } = o.missing;",
        "const [a] = o.missing;",
        "const [a] = 5;",
        "for (const a of o.missing) a;",
        "const v = o.missing[k];",
        "const v = o?.deeper;\n  const w = o.missing.deeper;",
        "const v = 'a' in k;",
        "class A extends k {}",
        "[first] = [2];",
    ],
)
def test_no_line_is_shown_where_none_is_sure(quickjs: Bench, body: str) -> None:
    raised = quickjs.load(_SOURCE.replace("BODY", body), file="lines.js").call("f")["raised"]
    [at] = raised["trace"]
    place, _, rest = at.rpartition(":")
    assert (place, rest.partition(" ")[2]) == ("near lines.js", "in f")


def test_another_function_is_not_searched(quickjs: Bench) -> None:
    source = "/** a */\nexport function f() {\n  const v = ({}).none[['deep', 'er'].join('')];\n  return v;\n}\n"
    raised = quickjs.load(source + "const g = (o) => o.deeper;\n").call("f")["raised"]
    assert raised["trace"] == ["near tool.js:3 in f"]


def test_a_file_that_fails_as_it_is_loaded_has_its_line_or_none(quickjs: Bench) -> None:
    error = quickjs.load("const o = {};\no.a;\nconst v = o.missing.deeper;\n").reply["error"]
    assert (error["line"], error["text"]) == (3, "const v = o.missing.deeper;")
    error = quickjs.load("const o = {};\n[1].map(String);\nconst { a } = o.missing;\n").reply["error"]
    assert "line" not in error
    assert "text" not in error
    assert error["trace"][0].startswith("near tool.js:")


_ABSENT = """/** a */
export function f() {
  const n = Math.abs(1);
  if (n > 100) {
    throw new Error("too many" + other.lable);
  }
  // Nothing here has a line of its own.
  return lable;
}
"""


def test_a_name_that_is_not_there_is_told_at_its_own_line_or_near(quickjs: Bench) -> None:
    assert quickjs.load(_ABSENT).call("f")["raised"]["trace"] == ["tool.js:8 in f: return lable;"]
    twice = _ABSENT.replace("Nothing", "No lable")
    [at] = quickjs.load(twice).call("f")["raised"]["trace"]
    assert at.startswith("near tool.js:")
    early = _ABSENT.replace("return lable", "return late; let late = 1")
    assert quickjs.load(early).call("f")["raised"]["trace"] == ["tool.js:8 in f: return late; let late = 1;"]


@pytest.mark.parametrize("name", ["fetch", "setTimeout", "process", "Buffer", "Intl"])
def test_what_is_not_the_languages_own_is_said_to_be_missing(quickjs: Bench, name: str) -> None:
    message = f"{name} is not defined: the web's and Node's objects are not there"
    said = quickjs.answer(f"return {name}.x")["raised"]["message"]
    assert said == message + (
        '; the network is host("http.fetch", { url }), with export const capabilities = ["http.fetch"]'
        if name == "fetch"
        else ""
    )


@pytest.mark.parametrize("name", ["tool", "Ok", "Failed"])
def test_what_module_rho_exports_is_said_to_be_imported(quickjs: Bench, name: str) -> None:
    error = quickjs.load(f"export const f = {name}({{}});").reply["error"]
    assert error["message"] == f'ReferenceError: {name} is not defined: write import {{ {name} }} from "rho"'


@pytest.mark.parametrize(
    ("code", "column"),
    [
        ("const x = ;", 13),
        ("const a;", 9),
        ("let a = 1; let a = 2;", 18),
        ('return "abc;', 10),
        ("const y = await f();", 13),
        ("break;", 3),
        ("with (args) {}", 3),
        ("return 1 + 08;", 14),
        ("for (const x of [1,2) { }", 23),
        ("if (args) else return;", 13),
        ("return /a(b/.test(1) || /ab(c/i.test(2);", 10),
    ],
)
def test_a_syntax_error_has_its_column(quickjs: Bench, code: str, column: int) -> None:
    error = quickjs.load(f"/** Does. */\nexport function t(args) {{\n  {code}\n}}\n").reply["error"]
    assert (error["line"], error["column"], error["text"].strip()) == (3, column, code), error


def test_a_syntax_error_at_which_nothing_stands_has_no_column(quickjs: Bench) -> None:
    error = quickjs.load("let a = 1 2; a;\n").reply["error"]
    assert (error["line"], "column" in error) == (1, False)


def test_all_tools_that_are_declared_wrong_are_told_at_once(quickjs: Bench) -> None:
    source = (
        "export function a() {}\n/** b */\nexport function b() {}\nexport function c() {}\nexport default () => 1;\n"
    )
    error = quickjs.load(source).reply["error"]
    told = [error, *error["others"]]
    assert [(each.get("line"), each["message"].split(" ")[0]) for each in told] == [(1, "a"), (4, "c"), (5, "export")]


def test_a_text_that_is_never_ended_over_lines_has_its_beginning_or_none(quickjs: Bench) -> None:
    error = quickjs.load("const a = `one\ntwo\n").reply["error"]
    assert "column" not in error
