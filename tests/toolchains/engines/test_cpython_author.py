"""What the author of a Python tool sees in the sandbox: answers, errors, the log, time, chance, the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rho_wasm.errors import BuildError, CapabilityError, ToolError
from rho_wasm.results import AskUser, Failed, Halt, Image, Ok
from rho_wasm.sandbox.wasi import CLOCK_NOTE, RANDOM_NOTE
from tests.sandbox.guests import Granting
from tests.toolchains.engines.cpython_host import Python, tool

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]

PNG = b"\x89PNG\r\n\x1a\n"
START = 1_735_689_600


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def test_the_four_answers_arrive(python: Python) -> None:
    head = f"PNG = {PNG!r}"
    body = (
        "return {'ok': Ok(1, images=[Image('image/png', PNG)], details={'d': b'x'}),"
        " 'failed': Failed('no', details=[1]),"
        " 'ask': AskUser('which?', {'a': 1}), 'halt': Halt('done', 2)}[kind]"
    )
    module = await python.load(tool(body, head=head, parameters="kind: str"))
    expected = {
        "ok": Ok(1, images=(Image("image/png", PNG),), details={"d": b"x"}),
        "failed": Failed("no", details=[1]),
        "ask": AskUser("which?", {"a": 1}),
        "halt": Halt("done", 2),
    }
    for kind, answer in expected.items():
        assert await python.call(module, "t", {"kind": kind}) == answer


async def test_several_tools_of_a_file_share_what_it_made(python: Python) -> None:
    module = await python.load(
        "from rho import tool\nLIMIT = 3\n"
        "@tool\ndef first(n: int) -> int:\n    'One.'\n    return n + LIMIT\n"
        "@tool(name='second-tool')\ndef second(n: int) -> int:\n    'Two.'\n    return first(n) * 2\n"
    )
    assert await python.call(module, "first", {"n": 1}) == 4
    assert await python.call(module, "second-tool", {"n": 1}) == 8


async def test_arguments_are_typed(python: Python) -> None:
    head = (
        "from dataclasses import dataclass\nfrom enum import Enum\nfrom typing import TypedDict\n"
        "class Unit(Enum):\n    C = 'c'\n    F = 'f'\n"
        "class Row(TypedDict):\n    name: str\n    value: float\n"
        "@dataclass\nclass Range:\n    low: int\n    high: int = 9\n"
    )
    body = "return [unit.name, rows[0]['value'] / 2, span.high - span.low, len(data), ctx.call_id]"
    parameters = "unit: Unit, rows: list[Row], span: Range, data: bytes, *, ctx: Context"
    module = await python.load(tool(body, head=head, parameters=parameters))
    arguments = {"unit": "c", "rows": [{"name": "a", "value": 3}], "span": {"low": 1}, "data": "YWJj"}
    assert await python.call(module, "t", arguments, context={"call_id": "call_1"}) == ["C", 1.5, 8, 3, "call_1"]
    assert await python.call(module, "t", arguments | {"data": "?"}) == Failed("data is no base64")


async def test_the_manifest_is_computed_inside(python: Python) -> None:
    options = (
        "read_only=True, timeout_ms=900, capabilities=['http.fetch'],"
        " examples=[{'arguments': {'n': 1}, 'answer': Ok(2)}]"
    )
    artifact = await python.build(tool("'''Doubles.'''\nreturn 2 * n", parameters="n: int", options=options))
    (declared,) = artifact.manifest.tools
    assert (declared.name, declared.description, declared.read_only, declared.timeout_ms) == (
        "t",
        "Doubles.",
        True,
        900,
    )
    assert artifact.manifest.capabilities == ("http.fetch",)
    assert artifact.manifest.language == "python"
    assert declared.examples[0].as_plain() == {"arguments": {"n": 1}, "answer": {"ok": 2}}


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("from rho import tool\n\ndef f(:\n", 3, "invalid syntax"),
        ("from rho import tool\n@tool\ndef f(a: int, b: complex) -> None: ...\n", 3, "complex is no type"),
        ("x = 1\n", None, "declares no tool"),
        ("import numpy\n", 1, "No module named 'numpy'"),
        ("def f():\n    return 1 / 0\nf()\n", 2, "division by zero"),
        ("from rho import tool\n@tool\ndef f() -> None: ...\nraise SystemExit\n", 4, "ended the program"),
        ("import os\nos._exit(0)\n", None, "exit"),
        ("while True: pass\n", None, "fuel"),
        ("x = 'a' * 10**9\n", 1, "MemoryError"),
    ],
)
async def test_a_source_that_cannot_be_loaded_says_where_and_why(
    python: Python, source: str, line: int | None, said: str
) -> None:
    with pytest.raises((BuildError, ToolError)) as caught:
        await python.build(source)
    assert said in str(caught.value)
    if line is not None:
        assert isinstance(caught.value, BuildError)
        assert caught.value.diagnostics[0].line == line


async def test_a_crash_tells_the_authors_own_lines(python: Python) -> None:
    error = await python.value(tool("import json\nreturn json.loads('{')"))
    assert error.reason == "handler_raised"
    assert "json.decoder.JSONDecodeError" in str(error)
    assert error.backtrace == ("tool.py:7 in t: return json.loads('{')",)


@pytest.mark.parametrize("body", ["return {1}", "return object()", "return Ok(1, details=object())"])
async def test_an_answer_that_is_not_plain_tells_the_function_and_nothing_of_the_engine(
    python: Python, body: str
) -> None:
    error = await python.value(tool(body))
    assert "is no plain data" in str(error)
    assert error.backtrace == ("tool.py:5 in t: def t() -> object:",)


async def test_every_line_goes_to_the_log_at_its_level(python: Python) -> None:
    body = (
        "import logging, sys\nprint('printed', 1)\nprint('told', file=sys.stderr)\nlog.debug('d %s', 1)\n"
        "log.info('i')\n"
        "log.warning('w')\nlog.error('two\\nlines')\nlogging.getLogger('a').debug('ld')\nlogging.error('le')\n"
        "progress(3, 10, 'pages')\nsys.stdout.write('no end')\nreturn 1"
    )
    assert await python.value(tool(body)) == 1
    assert python.log() == [
        (20, "printed 1"), (30, "told"), (10, "d 1"), (20, "i"), (30, "w"), (40, "two"), (40, "lines"),
        (10, "ld"), (40, "le"), (20, "progress: 3 of 10 pages"), (20, "no end"),
    ]  # fmt: skip


async def test_what_was_printed_before_a_crash_is_in_the_log(python: Python) -> None:
    error = await python.value(tool("print('before', end='')\nraise KeyError('k')"))
    assert error.reason == "handler_raised"
    assert python.log() == [(20, "before")]


async def test_what_is_printed_while_loading_is_in_no_call(python: Python) -> None:
    assert await python.value(tool("return 1", head="print('loading', end='')")) == 1
    assert python.log() == []


async def test_time_is_virtual_and_a_sleep_waits_for_nobody(python: Python) -> None:
    body = (
        "import datetime, time\na = time.time()\ntime.sleep(86_400)\n"
        "return [a, time.time() - a, str(datetime.date.today())]"
    )
    before, slept, today = await python.value(tool(body))
    assert START <= before < START + 1
    assert 86_400 <= slept < 86_401
    assert today == "2025-01-02"
    assert (30, CLOCK_NOTE) in python.log()
    await python.value(tool("import logging\nlogging.info('no time is asked for')"))
    assert python.log() == [(20, "no time is asked for")]


async def test_chance_follows_from_the_request_and_not_from_loading(python: Python) -> None:
    body = "import random, uuid\nreturn [random.random(), random.gauss(0, 1), choice(range(10**9)), str(uuid.uuid4())]"
    head = "import random\nfrom random import choice\nEARLY = [random.random(), random.gauss(0, 1)]"
    module = await python.load(tool(body, head=head, parameters="n: int"))
    one, again, two = [await python.call(module, "t", {"n": n}) for n in (1, 1, 2)]
    assert one == again
    assert not set(one) & set(two)
    assert (30, RANDOM_NOTE) in python.log()


async def test_a_seed_of_the_authors_own_is_kept(python: Python) -> None:
    module = await python.load(
        tool("return random.random()", head="import random\nrandom.seed(7)", parameters="n: int")
    )
    assert await python.call(module, "t", {"n": 1}) == await python.call(module, "t", {"n": 2}) == 0.32383276483316237


async def test_without_chance_there_is_no_note_of_it(python: Python) -> None:
    await python.value(tool("import random\nreturn 1"))
    assert python.log() == []


async def test_async_tools_run(python: Python) -> None:
    source = (
        "import asyncio\nfrom rho import tool\n"
        "async def slow(n):\n    await asyncio.sleep(n)\n    return n\n"
        "@tool\nasync def t() -> list:\n    return await asyncio.gather(*[slow(n) for n in (30, 10, 20)])\n"
        "@tool\ndef inner() -> int:\n    return asyncio.run(slow(3600))\n"
    )
    module = await python.load(source)
    assert await python.call(module) == [30, 10, 20]
    assert await python.call(module, "inner") == 3600


async def test_the_host_answers_what_is_declared_and_granted(python: Python) -> None:
    asked: list[tuple[str, Mapping[str, Any]]] = []

    def capabilities(capability: str, arguments: Mapping[str, Any]) -> Any:
        asked.append((capability, dict(arguments)))
        if arguments.get("no"):
            raise CapabilityError("unavailable", "not today")
        return {"text": "x" * arguments["size"], "data": b"\x00\xff"}

    body = "reply = host.call('http.fetch', {'size': size}, no=no)\nreturn [len(reply['text']), reply['data']]"
    source = tool(body, parameters="size: int, no: bool = False", options="capabilities=['http.fetch']")
    module = await python.load(source)
    for size in (0, 70_000, 200_000):
        found = await python.call(module, "t", {"size": size}, capabilities=Granting(capabilities))
        assert found == [size, b"\x00\xff"]
    assert asked[0] == ("http.fetch", {"size": 0, "no": False})
    error = await python.call(module, "t", {"size": 1, "no": True}, capabilities=Granting(capabilities))
    assert "HostError: http.fetch: unavailable: not today" in str(error)
    assert "HostError: http.fetch: denied: not granted" in str(await python.call(module, "t", {"size": 1}))


@pytest.mark.parametrize("options", ["", "capabilities=['other']"])
async def test_what_is_not_declared_is_not_asked_for_and_how_to_declare_it_is_said(
    python: Python, options: str
) -> None:
    body = (
        "try:\n    host.call('kv.put')\nexcept HostError as error:\n    return [error.kind, error.message, str(error)]"
    )
    hint = 'say @tool(capabilities=["kv.put"])'
    found = await python.value(tool(body, options=options), capabilities=Granting(lambda name, arguments: 1))
    assert found == ["undeclared", hint, f"kv.put: undeclared: {hint}"]


async def test_progress_is_reported_where_it_is_declared_and_granted_and_else_logged(python: Python) -> None:
    asked: list[Any] = []
    source = tool("progress(3, 10, 'pages')\nreturn 1", options="capabilities=['progress.report']")
    module = await python.load(source)
    assert await python.call(module, capabilities=Granting(lambda name, given: asked.append((name, given)))) == 1
    assert asked == [("progress.report", {"done": 3, "total": 10, "text": "pages"})]
    assert python.log() == []
    assert await python.call(module) == 1
    assert python.log() == [(20, "progress: 3 of 10 pages")]


async def test_what_goes_wrong_for_want_of_the_host_says_what_to_do(python: Python) -> None:
    source = tool("host.call('kv.get', key='a')", options="capabilities=['kv.get']")
    told = "HostError: kv.get: denied: not granted (catch HostError, and return Failed(str(error)))"
    assert told in str(await python.value(source))
    assert "EOFError: (nobody types here: " in str(await python.value(tool("input()")))
    body = "import urllib.request\nurllib.request.urlopen('https://example.com')"
    assert 'host.call("http.fetch", url=...)' in str(await python.value(tool(body)))


async def test_capabilities_that_are_text_are_refused_at_their_line(python: Python) -> None:
    with pytest.raises(BuildError) as caught:
        await python.build("from rho import tool\n@tool(\n    capabilities='kv.get',\n)\ndef t() -> None: ...\n")
    found = caught.value.diagnostics[0]
    assert found.message == 'capabilities is a list of names, like ["kv.get"], not str'
    assert (found.line, found.text) == (3, "capabilities='kv.get',")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return open('/etc/passwd').read()", "FileNotFoundError"),
        ("open('/tmp/x', 'w').write('x')", "FileNotFoundError"),
        ("import os\nreturn os.listdir('/')", "FileNotFoundError"),
        ("import os\nreturn [dict(os.environ), os.getcwd()]", [{}, "/"]),
        ("import socket\nsocket.create_connection(('127.0.0.1', 80))", "OSError"),
        ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1')", "urllib.error.URLError"),
        ("import threading\nthreading.Thread(target=print).start()", "RuntimeError: can't start new thread"),
        ("import subprocess\nsubprocess.run(['ls'])", "OSError"),
        ("import ctypes", "(ctypes is not in this Python)"),
        ("import multiprocessing", "(multiprocessing is not in this Python)"),
        ("import numpy", "No module named 'numpy' (Python's standard library is there, and nothing else)"),
        ("import requests", "nothing else; the network: `from rho import host`"),
        ("raise ModuleNotFoundError(name=7)", "(its text cannot be had)"),
        ("return input('name? ')", "EOFError"),
        ("import sqlite3\nreturn sqlite3.connect(':memory:').execute('select 1 + 1').fetchone()[0]", 2),
        ("import sys\nreturn [sys.argv, sys.version_info[:2] == (3, 12)]", [[""], True]),
        ("import configparser, zipfile, email.message\nreturn configparser.__name__", "configparser"),
    ],
)
async def test_what_python_has_not_here_is_an_error_of_its_own(python: Python, body: str, expected: Any) -> None:
    found = await python.value(tool(body))
    if isinstance(found, ToolError):
        assert found.reason == "handler_raised"
        assert str(expected) in str(found)
    else:
        assert found == expected
