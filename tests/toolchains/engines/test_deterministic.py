"""A call of a Python or a JavaScript tool is a pure function of its image and its request, on each path."""

from __future__ import annotations

import pytest

from rho_wasm import plain
from rho_wasm.limits import MIB, Limits
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.ways import Way, why_not_native
from rho_wasm.toolchains import EngineShelf, ImageBuilder
from rho_wasm.toolchains.engines import cpython, quickjs
from tests.sandbox.guests import Granting
from tests.sandbox.repeated import Said, said

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LIMITS = Limits(fuel=20_000_000_000, deadline_ms=60_000, memory_bytes=128 * MIB)
WAYS: tuple[Way, ...] = ("public",) if why_not_native() is not None else ("native", "public")
PYTHON = '''
import random, time, uuid
from rho import host, tool

@tool(capabilities=["kv.get"])
def t(text: str) -> object:
    """Says all that could differ."""
    words = {word: hash(word) for word in text.split()}
    print(words, set(text))
    found = [random.random(), str(uuid.uuid4()), time.time(), time.monotonic(), words, list(map(id, ([], {})))]
    return [*found, float("nan"), 0.1 + 0.2, host.call("kv.get", key="a")]
'''
JAVASCRIPT = """
import { host } from "rho";
export const capabilities = ["kv.get"];
/** Says all that could differ.
 * @param {string} args.text words */
export function t(args) {
  const words = Object.fromEntries(args.text.split(" ").map((word, at) => [word, at]));
  console.log(JSON.stringify(words), new Date().toString());
  return [Math.random(), Date.now(), words, 0 / 0, 0.1 + 0.2, host("kv.get", { key: "a" })];
}
"""


@pytest.mark.parametrize(("language", "source"), [("python", PYTHON), ("javascript", JAVASCRIPT)])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_says_and_costs_the_same_each_time_on_each_path(
    cpython_shelf: EngineShelf, language: str, source: str
) -> None:
    request = plain.encode({"abi": 1, "tool": "t", "arguments": {"text": "a wörd and a word"}, "context": {}})
    stored = Granting(lambda *_: {"value": [1, "x" * 500]}, seed=b"s" * 32)
    without: set[Said] = set()
    granted: set[Said] = set()
    async with ImageBuilder(shelf=cpython_shelf, specs=[cpython.SPEC, quickjs.SPEC]) as builder:
        wasm = (await builder.build(source, language=language)).wasm
        again = (await builder.build(source, language=language)).wasm
    assert wasm == again
    for way in WAYS:
        async with Sandbox(cache=cpython_shelf.cache, way=way, engines=cpython_shelf.find) as sandbox:
            with await sandbox.load(wasm) as module:
                without |= said(module, request, limits=LIMITS)
                granted |= said(module, request, limits=LIMITS, capabilities=stored)
    assert len(without) == len(granted) == 1, (without, granted)
    (denied,), (answered,) = without, granted
    assert b"not granted" in denied.answer
    assert b"x" * 500 in answered.answer
