"""Whatever a Python tool does ends with its reason and within bounds, and the next call sees a clean engine."""

from __future__ import annotations

import pytest

from rho_wasm.errors import BuildError, ModuleRejected, ToolError
from rho_wasm.limits import MIB
from rho_wasm.results import Failed
from tests.toolchains.engines.cpython_host import LIMITS, Python, tool

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]

FEW = LIMITS.model_copy(update={"fuel": 3_000_000_000, "memory_bytes": 80 * MIB})
FINE = """@tool
def fine() -> list:
    import builtins, json
    return [len('abc'), json.dumps([1]), builtins.len is len]
"""
CLEAN = [3, "[1]", True]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def nested(kind: str) -> str:
    return f"x = {kind}()\nfor _ in range(20_000):\n    x = {'[x]' if kind == 'list' else '(x,)'}\n"


RECURSION = [
    "def f(n): return 1 + f(n + 1)\nreturn f(0)",
    nested("list") + "return repr(x)",
    nested("list") + "import json\nreturn json.dumps(x)",
    nested("list") + "y = []\nfor _ in range(20_000): y = [y]\nreturn x == y",
    nested("list") + "import copy\nreturn len(copy.deepcopy(x))",
    nested("list") + "import pickle\nreturn len(pickle.dumps(x))",
    "import json\nreturn json.loads('[' * 100_000)",
    "import re\nreturn re.compile('(' * 5_000 + ')' * 5_000).pattern",
    "import ast\nreturn ast.dump(ast.parse('+'.join(['1'] * 20_000)))",
    "return eval('a' + '.b' * 100_000)",
    "class A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\nreturn A().q",
    "class A:\n    def __repr__(self): return repr(self)\nreturn repr(A())",
    "class A:\n    def __lt__(self, other): return sorted([A(), A()])\nreturn sorted([A(), A()])",
    "def f(x): return list(map(f, [x]))\nreturn f(1)",
    "import sys\nsys.setrecursionlimit(10**9)\n" + nested("list") + "return repr(x)",
]


@pytest.mark.parametrize("body", RECURSION)
async def test_recursion_is_an_error_of_pythons_own(python: Python, body: str) -> None:
    module = await python.load(tool(body, head=FINE))
    error = await python.call(module, limits=FEW)
    assert isinstance(error, ToolError)
    assert (error.reason, "RecursionError" in str(error)) == ("handler_raised", True)
    assert await python.call(module, "fine") == CLEAN


ENDS: list[tuple[str, str | tuple[str, ...]]] = [
    ("while True: pass", "out_of_fuel"),
    ("return sum(1 for _ in iter(int, 1))", "out_of_fuel"),
    ("import re\nreturn bool(re.match('(a+)+$', 'a' * 40 + 'b'))", "out_of_fuel"),
    ("return 10 ** 10 ** 7", ("out_of_fuel", "handler_raised")),
    ("return 3 ** (10 ** 8)", "out_of_fuel"),
    ("import itertools\nreturn list(itertools.count())", ("out_of_memory", "out_of_fuel")),
    ("import itertools\nreturn ','.join(map(str, itertools.count()))", ("out_of_memory", "out_of_fuel")),
    ("a = []\nwhile True: a.append(bytearray(1 << 16))", "out_of_memory"),
    ("a = [0]\nwhile True: a += a", "out_of_memory"),
    ("return len(bytearray(1 << 30))", "out_of_memory"),
    ("return 'a' * 10 ** 10", "handler_raised"),
    ("return 'a' * 10 ** 9", "out_of_memory"),
    ("return 'x' * 5_000_000", "bad_answer"),
    ("return list(range(300_000))", "bad_answer"),
    ("x = ()\nfor _ in range(100_000): x = (x,)\nreturn hash(x)", "trapped"),
    ("import os\nos._exit(3)", "handler_exit"),
    ("raise SystemExit(4)", "handler_exit"),
    ("import sys\nsys.exit()", "handler_exit"),
    ("import os\nos.abort()", "trapped"),
    ("import signal\nsignal.raise_signal(signal.SIGTERM)", "trapped"),
    ("import faulthandler\nfaulthandler._sigsegv()", "trapped"),
    (
        # What lies there is taken for an object: what comes of it hangs on where things are in the engine's memory.
        "f = lambda: 0\nf.__code__ = f.__code__.replace(co_code=bytes([100, 200] * 50), co_stacksize=0)\nreturn f()",
        ("trapped", "bad_answer", "handler_raised"),
    ),
    ("class A:\n    def __del__(self):\n        while True: pass\nA()\nreturn 1", "out_of_fuel"),
    (
        "import gc\nclass A:\n    def __del__(self):\n        while True: pass\nx = A(); x.x = x\ndel x\ngc.collect()",
        "out_of_fuel",
    ),
    ("class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E", "out_of_fuel"),
    ("raise KeyboardInterrupt", "handler_raised"),
    ("raise GeneratorExit", "handler_raised"),
    (
        "import gc\ngc.unfreeze()\nfor o in gc.get_objects():\n    if isinstance(o, (dict, list)): o.clear()\nreturn 1",
        ("trapped", "handler_raised", "bad_answer"),
    ),
    ("import os\nos.posix_fadvise(2, 2**31, 100, 40)", "trapped"),
    ("import sys\nsys.modules['rho._engine'].encode = lambda value: b''\nreturn {1}", ("bad_answer", "handler_raised")),
    ("import marshal\nsys = __import__('sys')\nsys.modules['rho._engine'].marshal = None\nreturn 1", "handler_raised"),
]


@pytest.mark.parametrize(("body", "reason"), ENDS)
async def test_it_ends_with_its_reason(python: Python, body: str, reason: str | tuple[str, ...]) -> None:
    module = await python.load(tool(body, head=FINE))
    error = await python.call(module, limits=FEW)
    assert isinstance(error, ToolError), error
    assert error.reason in ((reason,) if isinstance(reason, str) else reason), str(error)
    assert await python.call(module, "fine") == CLEAN


@pytest.mark.parametrize(
    "body",
    [
        "import rho\nrho.Ok = rho.tool = rho.Failed = None\nreturn 1",
        "import builtins\nput = setattr\nfor name in list(vars(builtins)): put(builtins, name, None)\nreturn 1",
        "import sys\nsys.modules.clear()\nreturn 1",
        "import sys\nsys.stdout.close()\nsys.stderr.close()\nsys.stdout = None\nreturn 1",
        "import os\nfor n in range(10):\n    try: os.close(n)\n    except OSError: pass\nprint('x')\nreturn 1",
        "import gc\nfor o in gc.get_objects():\n    if isinstance(o, dict): o.clear()\nreturn 1",
        "import gc\ngc.disable()\ngc.set_threshold(1)\nreturn 1",
        "class A:\n    def __del__(self): raise ValueError\nA()\nreturn 1",
        "class A:\n    def __del__(self):\n        global kept\n        kept = self\nA()\nreturn 1",
        "x = []\nfor _ in range(300_000): x = [x]\ndel x\nreturn 1",
        "x = bytearray(20 << 20)\ndel x\nreturn 1",
        "import time\ntime.sleep(10**6)\nreturn 1",
    ],
)
async def test_what_harms_only_itself_ends_well(python: Python, body: str) -> None:
    module = await python.load(tool(body, head=FINE))
    assert await python.call(module, limits=FEW) == 1
    assert await python.call(module, "fine") == CLEAN


async def test_a_flood_of_output_is_cut(python: Python) -> None:
    module = await python.load(tool("for _ in range(3_000): print('x' * 100)\nreturn 1"))
    assert await python.call(module, limits=FEW) == 1
    assert python.meter.log.dropped_bytes > 200_000
    assert sum(len(text) for _, text in python.log()) <= FEW.log_bytes


async def test_a_loop_is_stopped_by_the_clock(python: Python) -> None:
    error = await python.value(tool("while True: pass"), limits=LIMITS.model_copy(update={"deadline_ms": 100}))
    assert error.reason == "deadline"


async def test_too_many_questions_end_the_call(python: Python) -> None:
    body = "while True:\n    try: host.call('a')\n    except HostError: pass"
    source = tool(body, head="from rho import HostError", options="capabilities=['a']")
    error = await python.value(source, limits=FEW.model_copy(update={"host_calls": 20}))
    assert error.reason == "too_many_host_calls"


POISONED = [
    "import rho\nrho._registry.tools['fine'] = None",
    "import rho, sys\nfor name in list(sys.modules):\n    if name.startswith('rho'): sys.modules[name] = None",
    "import json\njson.dumps = lambda value: 'poison'",
    "import builtins\nbuiltins.len = lambda value: 99\nbuiltins.sorted = builtins.dict = None",
    "import sys\nsys.setrecursionlimit(60)",
    "import gc\ngc.disable()\nfor o in gc.get_objects():\n    if isinstance(o, dict): o.clear()",
    "import sys\nsys.modules['rho._cbor'].encode = lambda value: b'\\xff'",
    "import atexit, threading, asyncio, random\nrandom.random = lambda: 4",
    "class A:\n    def __del__(self): print('deleted')\nA()",
]


@pytest.mark.parametrize("head", POISONED)
async def test_a_source_poisons_nobody_but_itself(python: Python, head: str) -> None:
    other = await python.load(tool("return 1", head=FINE))
    try:
        poisoned = await python.load(tool("return 1", head=f"{head}\n"))
    except (BuildError, ToolError):
        poisoned = None
    if poisoned is not None:
        found = await python.call(poisoned, limits=FEW)
        assert found == 1 or isinstance(found, (ToolError, Failed))
    assert await python.call(other) == 1
    assert await python.call(other, "fine") == CLEAN
    assert await python.value(tool("return 2")) == 2


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "x = []\nwhile True: x.append(bytearray(1 << 16))",
        "def f(): return f()\nf()",
        "import os\nos._exit(0)",
        "import os\nos.abort()",
        "x = " + "[" * 300 + "]" * 300,
        "x = " + "-" * 50_000 + "1",
        "\n".join(f"x{n} = {n}" for n in range(20_000)),
        "from rho import tool\n@tool(description='x' * 100_000)\ndef f() -> None: ...",
        "from rho import tool\nfor n in range(3_000):\n    tool(name=f't{n}')(lambda: None)",
        "from rho import tool\n@tool(metadata={'a': 2**70})\ndef f() -> None: ...",
        "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
        "raise ValueError('x' * 10**6)",
        "x = bytearray(60 << 20)\nx[:] = b'x' * len(x)\nfrom rho import tool\n@tool\ndef f() -> None: ...",
    ],
    ids=lambda source: str(source)[:40],
)
async def test_a_source_that_cannot_be_a_tool_is_refused_within_bounds(python: Python, source: str) -> None:
    with pytest.raises((BuildError, ModuleRejected, ToolError)) as caught:
        await python.build(source)
    assert len(str(caught.value)) < 10_000
    assert await python.value(tool("return 2")) == 2
