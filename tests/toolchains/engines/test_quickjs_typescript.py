"""TypeScript loses its types in the sandbox, and its statements stay on their lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rho_wasm.errors import BuildError
from rho_wasm.sandbox.boot import BootInstance, BootLimits, boot
from rho_wasm.toolchains.engines.typescript import STRIPPER, NotTypeScript, Stripper, prepare
from rho_wasm.toolchains.engines.typescript_lines import KEPT_CHARS, KEPT_LINES, in_place
from tests.toolchains.engines.quickjs_bench import Bench

_SOURCE = r"""import { Ok, type Context } from "rho";

interface Args {
  text: string; // `not a template
  limit?: number;
}

enum Color { Red, Green = 5 }

class Box<T> {
  private readonly kept: T;

  constructor(kept: T) {
    this.kept = kept;
  }

  get it(): T {
    return this.kept;
  }
}

/**
 * Counts the words that match.
 * @param {string} args.text the text
 */
export async function count(
  args: Args,
  ctx: Context,
): Promise<unknown> {
  const words = args.text.split(/[/'"`]|\s+/).filter((w): w is string => w!.length > 0);
  const text = `first
    ${words.map((w: string) => `<${w}>
    `).join("")} /* no comment */
  last`;

  // where it goes wrong
  if (words.length > 3) throw new Error(`line ${38 as number}`);
  return Ok({ words: words.length, text, box: new Box<number>(Color.Green).it });
}
"""


_ADMITS = r"""/** Admits. @param {number} args.n how old */
export function admit({ n }: { n: number }) {
  let ok = true;
  if (n > 5) /`/.test(""); if (n) { n += 0; n += 0; n += 0; n += 0; n += 0; n += 0 }
  // allow nobody `
  ok = false;









  return ok ? "admitted" : "refused";
}
"""
"""A simple tokenizer takes what stands between the two backticks for a template."""


async def test_javascript_stays_as_it_is() -> None:
    assert await prepare("let a: number;", "a.js", "javascript") == ("let a: number;", "a.js")


async def test_a_missing_stripper_says_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(BuildError) as missing:
        await prepare("let a: number;", "a.ts", "typescript")
    assert (missing.value.reason, missing.value.hint) == ("missing_extra", "pip install 'rho-wasm[javascript]'")
    assert "the type stripper is not here: quickjs-rs is not installed" in str(missing.value)


@pytest.mark.slow
async def test_types_go_and_lines_stay(quickjs: Bench) -> None:
    STRIPPER.read()
    stripped, file = await prepare(_SOURCE, "count.ts", "typescript")
    assert file == "count.ts"
    for number, line in enumerate(_SOURCE.split("\n"), start=1):
        for mark in ("class Box", "constructor", "return this.kept", "throw new Error", "return Ok", "last`"):
            if mark in line:
                assert mark in stripped.split("\n")[number - 1]
    loaded = quickjs.load(stripped, file="count.ts")
    assert loaded.reply["ok"]["tools"][0]["description"] == "Counts the words that match."
    text = "first\n    <a>\n    <b>\n     /* no comment */\n  last"
    assert loaded.call("count", {"text": "a'b"}) == {"ok": {"words": 2, "text": text, "box": 5}}
    raised = loaded.call("count", {"text": "a b c d"})["raised"]
    thrown = next(number for number, each in enumerate(_SOURCE.split("\n"), start=1) if "throw new" in each)
    assert raised["trace"][0].startswith(f"count.ts:{thrown} ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        ("let a = 1;\nlet b: = 5;\nfoo();\n", 2, "let b: = 5;"),
        ("const a = 1;\n\nfunction f(): number {\n  return 1 +;\n}\n", 4, "return 1 +;"),
        ("export function f( {\n", 1, "export function f( {"),
    ],
)
async def test_what_is_no_typescript_has_its_line(source: str, line: int, text: str) -> None:
    with pytest.raises(BuildError) as refused:
        await prepare(source, "wrong.ts", "typescript")
    found = refused.value.diagnostics[0]
    assert (found.file, found.line, found.text) == ("wrong.ts", line, text)
    assert found.message.startswith("SyntaxError: ")


@pytest.mark.slow
async def test_a_source_that_is_too_deep_ends_as_a_refusal() -> None:
    with pytest.raises(BuildError):
        await prepare("let a = " + "(" * 200_000, "deep.ts", "typescript")


@pytest.mark.slow
async def test_a_fault_at_the_end_of_many_lines_stays_a_fault_of_the_source() -> None:
    with pytest.raises(BuildError) as refused:
        await prepare("let a = 1;\n" * 60_000 + "let : = ;\n" + "let a = 1;\n" * 1_000, "long.ts", "typescript")
    assert refused.value.reason == "build_failed"
    assert refused.value.diagnostics[0].message.startswith("SyntaxError: ")
    assert refused.value.diagnostics[0].line in (None, 60_001)


@pytest.mark.slow
@pytest.mark.parametrize("long", ["//\n" * KEPT_LINES, "a(1);" * (KEPT_CHARS // 5 + 1)])
async def test_a_long_source_says_that_its_lines_are_not_its_own(quickjs: Bench, long: str) -> None:
    source = _SOURCE + "const a = (n: number) => n;\n" + long
    text, file = await prepare(source, "count.ts", "typescript")
    loaded = quickjs.load(text, file=file)
    [at] = loaded.call("count", {"text": "a b c d"})["raised"]["trace"]
    line = next(number for number, each in enumerate(text.split("\n"), start=1) if "throw new" in each)
    assert at.startswith(f"count.ts without types:{line} in count: if (words.length > 3) throw new Error(")


@pytest.mark.slow
async def test_what_is_no_template_hides_no_statement(quickjs: Bench) -> None:
    text, file = await prepare(_ADMITS, "admit.ts", "typescript")
    assert file == "admit.ts without types"
    assert quickjs.load(text, file=file).call("admit", {"n": 4}) == {"ok": "refused"}


@pytest.mark.slow
@pytest.mark.parametrize("end", ["// \\", "// ` \\", "/`/.test('')"])
async def test_an_end_of_a_source_that_misleads_is_no_fault_of_ours(end: str) -> None:
    assert (await prepare("if (1) /`/.test('');\n" + end, "end.ts", "typescript")).text


async def _stripping(use: Callable[[Stripper], None]) -> None:
    """Lets ``use`` have a stripper, in the thread that drives it."""

    def drive(instance: BootInstance) -> None:
        use(Stripper(instance))

    await boot(STRIPPER.read(), drive=drive, limits=BootLimits())


@pytest.mark.slow
async def test_the_second_parser_tells_apart_what_a_line_break_decides() -> None:
    pairs = [
        ("f(); // `\ng();", "f(); // ` g();"),
        ("function f() { return\n1; }", "function f() { return 1; }"),
        ("a\n++b", "a++\nb"),
        ("f(`a\n`);", "f(`a\n\n`);"),
        ("/** a\n */\nexport function f() {}", "/** a */\nexport function f() {}"),
        ("a < b;\ntype\nA = 5", "a < b;\ntype; A = 6"),
        ("f(a < b, c > (7));", "f(a(7));"),
        ("#!x;\nf();", "#!x; f();"),
    ]
    same: list[tuple[str, str]] = []

    def use(stripper: Stripper) -> None:
        same.extend(pair for pair in pairs if stripper.reprint(pair[0]) == stripper.reprint(pair[1]))

    await _stripping(use)
    assert same == []


_PIECES = (
    'if (n > 1) /`/.test("");',
    "out.push(n / 2 / 1);",
    "(n as number) / 2 / out.length",
    "{ let a: number = n; out.push(a) } /`/.test('');",
    "// out.push(-1) `\n",
    "/* ` */",
    "// ${` \\\n",
    "// a\u2028out.push('separated');\n",
    "out.push(`a\n\n  ${n}`);",
    "out.push(`a${`b\n${[`c`]}`}\n// d`);",
    "out.push({ url: 'https://a', b: `//`, n });",
    "out.push(/[`/]\\//.source, 'it\\'s `', \"a\\\n b\");",
    "{ type T = { a: string;\n b: `x${string}\n` } }",
    "{ enum E { A, B = 5 }\n\n out.push(E.B) }",
    "if (n === 3) return\nout.push('no');",
    "n\n++\nn",
    "for (const i of [1, 2]) { if (i == n) continue\nout.push(i) }",
    "switch (n) { case 1: out.push('one'); default: /`/ }",
    "out.push(((a: number): number => { return a\n/ 2 })(n));",
    "out.push(\n  n,\n\n  n! + 1,\n);",
    "do n--; while (n > 5) out.push(n)",
    "if (n) out.push(1); else\n\n out.push(2)",
    "{ class A<T> { private a = `\n`;\n\n constructor(public b: T) {} }; out.push(new A(n).b) }",
)
_BETWEEN = st.sampled_from(("\n", "\n", "\n\n\n", " ", ";", "\r\n", "\n" * 12))
_BODIES = st.lists(st.tuples(st.sampled_from(_PIECES), _BETWEEN), min_size=1, max_size=12)


@pytest.mark.slow
async def test_what_is_kept_in_place_does_what_the_printed_text_does(quickjs: Bench) -> None:
    kept = 0

    def use(stripper: Stripper) -> None:
        @settings(max_examples=150, deadline=None)
        @given(_BODIES)
        def same(pieces: list[tuple[str, str]]) -> None:
            nonlocal kept
            body = "".join(piece + between for piece, between in pieces)
            source = (
                f"/** Tries. @param {{any}} args */\nexport function t({{ n }}: any) {{\nconst out: any[] = [];\n{body}"
            )
            source += "\nreturn out;\n}\n"
            try:
                bare = stripper.strip(source)
            except NotTypeScript:
                assume(False)
            placed = in_place(source, stripper.strip, stripper.reprint).text
            kept += placed != bare
            printed, moved = (quickjs.load(text) for text in (bare, placed))
            assert moved.reply.get("ok") == printed.reply.get("ok")
            assume("ok" in printed.reply)
            for n in (0, 1, 3, 9):
                assert moved.call("t", {"n": n}).get("ok") == printed.call("t", {"n": n}).get("ok")

        same()

    await _stripping(use)
    assert kept
