"""Where a tool was when it was stopped: its own file, line and function, on every way that a call takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.errors import BuildError, ToolError
from rho_wasm.limits import MIB, Limits
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.toolchains import EngineShelf, ImageBuilder
from rho_wasm.toolchains.engines import cpython, quickjs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LIMITS = Limits(fuel=400_000_000, deadline_ms=60_000, memory_bytes=96 * MIB)
MUCH = LIMITS.model_copy(update={"fuel": 20_000_000_000})
SHORT = LIMITS.model_copy(update={"deadline_ms": 100, "fuel": 20_000_000_000})
MS = 120_000

PYTHON = '''
from rho import tool
import re

def spins(n):
    total = n
    while True:
        total += 1
        total -= 1

@tool
def loops(n: int) -> int:
    """Never ends."""
    numbers = [n, 2]
    return sum(
        spins(each) for each in numbers
    )

@tool
def searches() -> bool:
    """A dear pattern."""
    return bool(re.match("(a+)+$", "a" * 40 + "b"))

@tool
def nests() -> int:
    """Too deep for C."""
    x = ()
    for _ in range(100_000): x = (x,)
    return hash(x)

class Ä:
    @staticmethod
    def 日本():
        while True: pass

@tool
async def named() -> int:
    """Names of any kind, and a coroutine."""
    return Ä.日本()

@tool
def deep(n: int) -> int:
    """As deep as Python goes."""
    if n:
        return deep(n - 1)
    while True: pass

def renamed(inner):
    def outer():
        return inner() + 1
    name = "\\x9b2J\\u202e\\n" * 30
    outer.__code__ = outer.__code__.replace(co_qualname=name, co_filename=name, co_linetable=b"\\xf8" * 9_000)
    return outer

@tool
def forges() -> int:
    """Names that no compiler gives."""
    def hangs():
        while True: pass
    for _ in range(200):
        hangs = renamed(hangs)
    return hangs()
'''

JAVASCRIPT = """
function spins(n) {
  let total = n;
  while (true) {
    total += 1;
    total -= 1;
  }
}

/** Never ends.
 * @param {number} args.n
 */
export function loops({ n }) {
  return [n, 2].map((each) => {
    return spins(each);
  });
}

/** Never ends, after waiting. */
export async function waits() {
  await null;
  function name日本() {
    for (;;) Math.abs(1);
  }
  return name日本();
}
"""


@asynccontextmanager
async def opened(shelf: EngineShelf, way: str) -> AsyncIterator[Sandbox]:
    async with AsyncExitStack() as stack:
        if way == "process":
            yield await stack.enter_async_context(Sandbox(cache=shelf.cache, engines=shelf.find, workers=1))
        else:
            yield await stack.enter_async_context(Sandbox(cache=shelf.cache, engines=shelf.find, way=way))  # type: ignore[arg-type]


async def ended(sandbox: Sandbox, wasm: bytes, tool: str, limits: Limits = LIMITS) -> tuple[str, tuple[str, ...]]:
    """Reason and backtrace of a call that crashes."""
    meter = CallMeter(CallClock(MS))
    arguments = {"loops": {"n": 1}, "deep": {"n": 300}}.get(tool, {})
    with await sandbox.load(wasm) as module, pytest.raises(ToolError) as raised:
        await sandbox.call(module, tool=tool, arguments=arguments, context={}, limits=limits, meter=meter)
    assert meter.backtrace == raised.value.backtrace or meter.backtrace == ()
    return raised.value.reason, tuple(raised.value.backtrace)


@pytest.fixture(params=["native", "public", "process"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def built(shelf: EngineShelf, source: str, language: str) -> bytes:
    spec = cpython.SPEC if language == "python" else quickjs.SPEC
    async with (
        Sandbox(cache=shelf.cache, engines=shelf.find) as sandbox,
        ImageBuilder(shelf=shelf, sandbox=sandbox, specs=[spec]) as builder,
    ):
        return (await builder.build(source, language=language)).wasm


async def test_a_python_tool_is_told_its_line(cpython_shelf: EngineShelf, way: str) -> None:
    wasm = await built(cpython_shelf, PYTHON, "python")
    async with opened(cpython_shelf, way) as sandbox:
        reason, trace = await ended(sandbox, wasm, "loops")
        assert reason == "out_of_fuel"
        assert trace[:1] in [(f"tool.py:{line} in spins",) for line in (7, 8, 9)]
        assert trace[1:] == ("tool.py:16 in loops.<locals>.<genexpr>", "tool.py:15 in loops")
        reason, trace = await ended(sandbox, wasm, "loops", SHORT)
        assert (reason, trace[-1]) == ("deadline", "tool.py:15 in loops")
        assert await ended(sandbox, wasm, "searches") == ("out_of_fuel", ("tool.py:22 in searches",))
        assert await ended(sandbox, wasm, "nests", MUCH) == ("trapped", ("tool.py:29 in nests",))
        reason, trace = await ended(sandbox, wasm, "named")
        assert (reason, trace) == ("out_of_fuel", ("tool.py:34 in Ä.日本", "tool.py:39 in named"))


async def test_a_python_tool_that_is_stopped_deep_down_is_told_both_ends(cpython_shelf: EngineShelf) -> None:
    wasm = await built(cpython_shelf, PYTHON, "python")
    async with opened(cpython_shelf, "native") as sandbox:
        _, trace = await ended(sandbox, wasm, "deep")
    assert trace[0] == "tool.py:46 in deep"
    assert trace[1:16] == ("tool.py:45 in deep",) * 15
    assert trace[16:] == ("... 233 more ...", *["tool.py:45 in deep"] * 7, "... more ...")
    assert len(trace) == 25


async def test_what_a_python_tool_forges_is_inert_and_bounded(cpython_shelf: EngineShelf, way: str) -> None:
    wasm = await built(cpython_shelf, PYTHON, "python")
    async with opened(cpython_shelf, way) as sandbox:
        for fuel in (1_000_000, LIMITS.fuel):
            reason, trace = await ended(sandbox, wasm, "forges", LIMITS.model_copy(update={"fuel": fuel}))
            assert reason == "out_of_fuel"
            assert len(trace) <= 25
            assert all(frame.isprintable() and len(frame) <= 200 for frame in trace)
    assert trace[0] == "tool.py:59 in forges.<locals>.hangs"
    assert trace[1].startswith("\\x9b2J\\u202e\\n")


async def test_a_javascript_tool_is_told_its_line(quickjs_shelf: EngineShelf, way: str) -> None:
    wasm = await built(quickjs_shelf, JAVASCRIPT, "javascript")
    async with opened(quickjs_shelf, way) as sandbox:
        # It calls nothing in its loop, so of it no more is known than that it was there.
        expected = ("near tool.js:2 in spins", "near tool.js:15", "near tool.js:14 in loops")
        assert await ended(sandbox, wasm, "loops") == ("out_of_fuel", expected)
        assert await ended(sandbox, wasm, "loops", SHORT) == ("deadline", expected)
        reason, trace = await ended(sandbox, wasm, "waits")
        assert (reason, trace[0]) == ("out_of_fuel", "near tool.js:23 in name日本")


@pytest.mark.parametrize(
    ("language", "source", "line"),
    [
        ("python", "from rho import tool\nimport math\n\nwhile True:\n    math.sqrt(2)\n", {4, 5}),
        ("javascript", "let n = 0;\nfunction f() {\n  for (;;) Math.abs(n);\n}\nf();\nexport function t() {}\n", {3}),
    ],
)
async def test_a_source_that_never_ends_to_load_is_told_its_line(
    request: pytest.FixtureRequest, language: str, source: str, line: set[int]
) -> None:
    shelf = request.getfixturevalue("cpython_shelf" if language == "python" else "quickjs_shelf")
    with pytest.raises(BuildError) as raised:
        await built(shelf, source, language)
    assert raised.value.reason == "build_timeout"
    assert raised.value.diagnostics[0].line in line


@pytest.fixture(scope="session")
def quickjs_shelf(tmp_path_factory: pytest.TempPathFactory) -> EngineShelf:
    key = tmp_path_factory.mktemp("key") / "host.key"
    cache = NativeCache(tmp_path_factory.mktemp("native"), key)
    return EngineShelf(tmp_path_factory.mktemp("engines"), key, cache=cache)
