"""TypeScript loses its types in the sandbox, and its statements stay on their lines."""

from __future__ import annotations

import re

import pytest

from rho_wasm.errors import BuildError
from rho_wasm.toolchains.engines.typescript import STRIPPER, prepare
from rho_wasm.toolchains.engines.typescript_lines import in_place
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


def test_lines_that_a_printer_moved_are_moved_back() -> None:
    source = "let a = 1;\n\n\nlet b = 2;\n\nlet c = 3;\n"
    placed = in_place(source, lambda text: re.sub(r"\n+", "\n", text))
    assert placed.split("\n")[:6] == ["let a = 1;", "", "", "let b = 2;", "", "let c = 3;"]


def test_where_a_comment_changes_what_comes_out_the_bare_source_is_taken() -> None:
    source = "let a = 1;\nlet b = 2;\n"
    assert in_place(source, lambda text: text if "/*" not in text else text + "let c;") == source

    def refuses(text: str) -> str:
        if "/*" in text:
            raise ValueError("a comment")
        return text

    assert in_place(source, refuses) == source


@pytest.mark.parametrize(
    "source",
    ["/" * 20_000, "/[" * 20_000, "`${" * 10_000, "'\\" * 20_000, "/*" * 20_000, "{" * 20_000, "\n" * 20_000],
)
def test_odd_sources_take_time_in_proportion(source: str) -> None:
    assert in_place(source, lambda text: text if ":" not in text else source).strip() == source.strip()


async def test_javascript_stays_as_it_is() -> None:
    assert await prepare("let a: number;", "a.js", "javascript") == "let a: number;"


async def test_a_missing_stripper_says_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(BuildError) as missing:
        await prepare("let a: number;", "a.ts", "typescript")
    assert (missing.value.reason, missing.value.hint) == ("missing_extra", "pip install 'rho-wasm[javascript]'")
    assert "the type stripper is not here: quickjs-rs is not installed" in str(missing.value)


@pytest.mark.slow
async def test_types_go_and_lines_stay(quickjs: Bench) -> None:
    STRIPPER.read()
    stripped = await prepare(_SOURCE, "count.ts", "typescript")
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
