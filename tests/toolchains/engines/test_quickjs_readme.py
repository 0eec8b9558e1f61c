"""What the JavaScript SDK's README and types say is so."""

from __future__ import annotations

import re

import pytest

from rho_wasm import resources
from rho_wasm.toolchains.engines.typescript import prepare
from tests.toolchains.engines.quickjs_bench import Bench

_README = resources.sdk("javascript/README.md")
_TYPES = resources.sdk("javascript/rho.d.ts")


def test_the_tool_of_the_readme_works_as_printed(quickjs: Bench) -> None:
    block = re.search(r"```js\n(.*?)```", _README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    loaded = quickjs.load(block[1], file="sales.js")
    [tool] = loaded.reply["ok"]["tools"]
    assert tool["description"] == "Totals a table of sales by region, the largest first."
    assert tool["input_schema"]["required"] == ["csv"]
    assert loaded.call("totals", {"csv": "region,amount\nnorth,3\nsouth,5\nnorth,4"}) == {
        "ok": [{"region": "north", "total": 7}, {"region": "south", "total": 5}]
    }
    assert loaded.call("totals", {"csv": "a,b\nc,d"}) == {"error": "line 2 has no amount: c,d"}


def test_the_readme_fits_a_screen() -> None:
    assert _README.read_text(encoding="utf-8").count("\n") <= 60


def test_module_rho_exports_what_its_types_say(quickjs: Bench) -> None:
    exports = quickjs.answer("return Object.keys(await import('rho'))")["ok"]
    pattern = r"^  export (?:const|class|function) (\w+)"
    assert sorted(re.findall(pattern, _TYPES.read_text(encoding="utf-8"), re.MULTILINE)) == sorted(exports)
    error = quickjs.load("import { nothing } from 'rho';").reply["error"]
    assert error["hint"] == f'"rho" exports {", ".join(sorted(exports))}'


def test_nothing_of_the_sdk_but_console_is_there_without_an_import_as_the_readme_says(quickjs: Bench) -> None:
    [names] = re.findall(r'`import \{ (.*) \} from "rho"`; only `console`', _README.read_text(encoding="utf-8"))
    exports = quickjs.answer("return Object.keys(await import('rho'))")["ok"]
    assert set(names.split(", ")) <= set(exports)
    there = f"{[*exports, 'console']!r}.filter((name) => name in globalThis)"
    loaded = quickjs.load(f"/** Tries. */ export function t() {{ return {there} }}")
    assert loaded.call("t", {}) == {"ok": ["console"]}


def test_recursion_goes_as_deep_as_the_readme_says(quickjs: Bench) -> None:
    assert "at about 1,500 calls" in _README.read_text(encoding="utf-8")
    assert quickjs.answer("const f = (n) => n ? 1 + f(n - 1) : 0; return f(1500)") == {"ok": 1500}


@pytest.mark.slow
async def test_the_types_are_typescript() -> None:
    assert await prepare(_TYPES.read_text(encoding="utf-8"), "rho.d.ts", "typescript")
