"""Loading and calling as the engine does it, run by the host's own Python: replies, traces, chance, the event loop."""

from __future__ import annotations

import asyncio
import gc
import linecache
import marshal
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.errors import NotPlain
from rho_wasm.toolchains.engines.python import rho
from rho_wasm.toolchains.engines.python.rho import _loop, _random
from rho_wasm.toolchains.engines.python.rho._engine import MODULE, Engine
from rho_wasm.toolchains.engines.python.rho._tools import Registry

NETWORK = (
    'the network: `from rho import host`, host.call("http.fetch", url=...), declared by '
    '@tool(capabilities=["http.fetch"])'
)


class Guest:
    """An engine whose sources see the real guest module under its own name."""

    def __init__(self, registry: Registry) -> None:
        self.engine = Engine(registry)

    def load(self, source: str, file: str = "notes.py") -> Any:
        return plain.decode(self.engine.load(bytearray(plain.encode({"source": source, "file": file}))))

    def call(self, tool: str, arguments: dict[str, Any] | None = None, **context: Any) -> Any:
        request = {"abi": 1, "tool": tool, "arguments": arguments or {}, "context": context}
        data = self.engine.call(marshal.dumps(request, 2))
        if data[:1] != b"{":
            return plain.decode(data)
        try:
            return plain.decode(plain.encode(marshal.loads(data)))
        except NotPlain:
            pass
        return plain.decode(self.engine.explain())


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guest]:
    gc.freeze()  # Loading collects garbage, and the test's own is none of it.
    registry = Registry()
    monkeypatch.setattr(rho, "tool", registry.tool)
    monkeypatch.setitem(sys.modules, "rho", rho)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield Guest(registry)
    sys.modules.pop(MODULE, None)
    linecache.cache.pop("notes.py", None)
    gc.unfreeze()


def test_a_source_is_loaded_and_called(guest: Guest) -> None:
    reply = guest.load(
        "from rho import tool, Context\n"
        "@tool(capabilities=['b', 'a'])\n"
        "def add(a: int, b: int = 1) -> int:\n    'Adds.'\n    return a + b\n"
        "@tool(capabilities=['a'])\n"
        "def who(ctx: Context) -> list:\n    'Tells.'\n    return [ctx.session_id, ctx.values]\n"
    )
    assert [tool["name"] for tool in reply["ok"]["tools"]] == ["add", "who"]
    assert reply["ok"]["capabilities"] == ["a", "b"]
    assert guest.call("add", {"a": 2}) == {"ok": 3}
    assert guest.call("who", session_id="s", values={"k": 1}) == {"ok": ["s", {"k": 1}]}


def test_a_source_is_no_program(guest: Guest) -> None:
    source = "from rho import tool\n@tool\ndef a() -> str:\n    return __name__ + __file__\n"
    guest.load(source + "if __name__ == '__main__':\n    raise SystemExit\n")
    assert guest.call("a") == {"ok": "toolnotes.py"}


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def tool(:\n", {"line": 1, "column": 10, "text": "def tool(:", "message": "SyntaxError: invalid syntax"}),
        ("x = 1\n\n  y = 2\n", {"line": 3, "text": "  y = 2", "message": "IndentationError: unexpected indent"}),
        ("x = 1\n", {"message": "the source declares no tool"}),
        ("import nothing_like_it\n", {"line": 1, "hint": "Python's standard library is there, and nothing else"}),
        ("import json.nothing_like_it\n", {"line": 1, "hint": "json.nothing_like_it is not in this Python"}),
        (
            "raise ModuleNotFoundError(\"No module named '_ssl'\", name='_ssl')\n",
            {"line": 1, "hint": "ssl is not in this Python"},
        ),
        ("x = 1\n@tool\ndef f(): ...\n", {"line": 2, "hint": "write `from rho import tool`"}),
        (
            "def f():\n    return 1 / 0\nf()\n",
            {"line": 2, "text": "return 1 / 0", "message": "ZeroDivisionError: division by zero"},
        ),
        (
            "raise SystemExit(3)\n",
            {"line": 1, "message": "the source ended the program while it was loaded (SystemExit)"},
        ),
        (
            "from rho import tool\n@tool\ndef f(a: int,\n      b: complex) -> None: ...\n",
            {"line": 4, "text": "b: complex) -> None: ..."},
        ),
        ("from rho import tool\n\n@tool\ndef f(a) -> None: ...\n", {"line": 4}),
        ("from rho import tool\n@tool(name='a b')\ndef f() -> None: ...\n", {"line": 2}),
        (
            "from rho import tool\n@tool(\n    read_only=True,\n    capabilities='kv.get',\n)\ndef f() -> None: ...\n",
            {
                "line": 4,
                "text": "capabilities='kv.get',",
                "message": 'capabilities is a list of names, like ["kv.get"], not str',
            },
        ),
        ("import rho\n@rho.tool(\n  examples='x')\ndef f() -> None: ...\n", {"line": 3, "text": "examples='x')"}),
        ("from rho import tool\n@tool(\n  name='a',\n  wat=1)\ndef f() -> None: ...\n", {"line": 4}),
        ("from rho import tool\nsaid = {'wat': 1}\n@tool(**said)\ndef f() -> None: ...\n", {"line": 3}),
        (
            "raise ModuleNotFoundError(name='requests')\n",
            {"line": 1, "hint": f"Python's standard library is there, and nothing else; {NETWORK}"},
        ),
        (
            "import rho\nrho.http.get('x')\n",
            {"line": 2, "message": f"AttributeError: module {rho.__name__!r} has no 'http'; {NETWORK}"},
        ),
        ("from rho import fetch\n", {"line": 1, "hint": f"rho has {', '.join(rho.__all__)}; {NETWORK}"}),
        (
            "from rho import tool\nclass A:\n    @tool\n    def f(self) -> None: ...\n",
            {"line": 4, "message": "a tool is a function of the file and no method, so it has no 'self'"},
        ),
        ("raise HostError\n", {"line": 1, "hint": "write `from rho import HostError`"}),
        (
            "from rho import tool\n@tool(metadata={'a': {1}})\ndef f() -> None: ...\n",
            {"hint": "schemas, examples and metadata are JSON's types"},
        ),
    ],
)
def test_a_source_that_cannot_be_loaded_says_where_and_why(guest: Guest, source: str, error: dict[str, Any]) -> None:
    found = guest.load(source)["error"]
    assert {key: found.get(key) for key in error} == error


def test_the_trace_of_a_source_has_its_own_lines_only(guest: Guest) -> None:
    found = guest.load("import json\ndef f():\n    json.loads('{')\nf()\n")["error"]
    assert found["trace"] == ["notes.py:4 in <module>: f()", "notes.py:3 in f: json.loads('{')"]


def loaded(guest: Guest, body: str, head: str = "") -> None:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    reply = guest.load(f"from rho import *\n{head}\n@tool\ndef t() -> object:\n{lines}")
    assert "ok" in reply, reply


def test_a_crash_tells_type_message_and_own_lines(guest: Guest) -> None:
    loaded(guest, "import json\nreturn json.loads('{')")
    raised = guest.call("t")["raised"]
    assert raised["type"] == "json.decoder.JSONDecodeError"
    assert raised["trace"] == ["notes.py:6 in t: return json.loads('{')"]


def test_what_led_to_a_crash_comes_first(guest: Guest) -> None:
    loaded(guest, "try:\n    {}['a']\nexcept KeyError as error:\n    raise ValueError('no a') from error")
    assert guest.call("t")["raised"] == {
        "type": "ValueError",
        "message": "no a",
        "trace": [
            "notes.py:6 in t: {}['a']",
            "KeyError: 'a'",
            "which led to:",
            "notes.py:8 in t: raise ValueError('no a') from error",
        ],
    }


def test_a_deep_trace_is_cut_in_the_middle(guest: Guest) -> None:
    loaded(guest, "def f(n):\n    return 1 + f(n + 1)\nreturn f(0)")
    raised = guest.call("t")["raised"]
    assert raised["type"] == "RecursionError"
    assert len(raised["trace"]) == 41
    assert any("more ..." in line for line in raised["trace"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("class E(Exception):\n    def __str__(self): raise self\nraise E", "(its text cannot be had)"),
        ("raise ValueError('\\ud800')", "\\ud800"),
        ("raise ValueError('x' * 10_000)", "x" * 2_000),
        ("raise BaseException('b')", "b"),
    ],
)
def test_any_message_can_be_told(guest: Guest, body: str, message: str) -> None:
    loaded(guest, body)
    assert guest.call("t")["raised"]["message"] == message


def test_failures_are_reported_and_may_be_raised(guest: Guest) -> None:
    loaded(guest, "raise Failed('no', details={'a': 1})")
    assert guest.call("t") == {"error": "no", "details": {"a": 1}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return {'a': [1, {2}]}", "the answer['a'][1]: set is no plain data: a set has no order: return sorted(...)"),
        ("return '\\ud800'", "the answer: text with a lone surrogate, which has no UTF-8"),
        ("return 2 ** 64", "the answer: an integer of more than 64 bits: return str(...) of it"),
        ("return Failed({1: 2})", "the reason: a map's keys are text, not int: 1"),
        ("return Ok(1, details=object)", "the details: type is no plain data"),
    ],
)
def test_an_answer_that_is_not_plain_names_the_place(guest: Guest, body: str, message: str) -> None:
    loaded(guest, body)
    raised = guest.call("t")["raised"]
    assert raised["message"].startswith(message)
    assert raised["type"] == "NotPlain"
    assert raised["trace"] == ["notes.py:4 in t: def t() -> object:"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("['a', 'b']", ", not list"),
        ("{1: 'a'}", "; the value: a map's keys are text, not int: 1"),
        ("{'a': {1}}", "; ['a']: set is no plain data: a set has no order: return sorted(...)"),
    ],
)
def test_options_that_are_no_map_are_refused_on_the_line_that_has_them(guest: Guest, options: str, why: str) -> None:
    loaded(guest, f"return AskUser('q?', {options})")
    assert guest.call("t")["raised"] == {
        "type": "TypeError",
        "message": 'an AskUser\'s options are a map of text keys to plain values, like {"a": "first choice"}' + why,
        "trace": [f"notes.py:5 in t: return AskUser('q?', {options})"],
    }


def test_the_first_exceptions_of_a_group_are_told_with_their_lines(guest: Guest) -> None:
    loaded(
        guest,
        "found = []\nfor n in range(5):\n    try:\n        raise ValueError(str(n) * 300 if n else 'no')\n"
        "    except ValueError as error:\n        found.append(error)\nraise ExceptionGroup('several', found)",
    )
    line = "notes.py:8 in t: raise ValueError(str(n) * 300 if n else 'no')"
    raised = guest.call("t")["raised"]
    assert raised["message"] == "several (5 sub-exceptions)"
    assert raised["trace"] == [
        "notes.py:11 in t: raise ExceptionGroup('several', found)",
        "1 of 5: ValueError: no",
        line,
        ("2 of 5: ValueError: " + "1" * 300)[:200],
        line,
        ("3 of 5: ValueError: " + "2" * 300)[:200],
        line,
        "... 2 more ...",
    ]


def test_a_file_that_is_not_there_says_that_none_are(guest: Guest) -> None:
    loaded(guest, "open('/nothing-like-it')")
    assert guest.call("t")["raised"]["message"].endswith(
        "'/nothing-like-it' (there are no files here: take text as an argument, or ask the host)"
    )


def test_a_tool_that_exits_says_where_in_its_log(
    guest: Guest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Ended(BaseException):
        pass

    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr("os._exit", end)
    monkeypatch.setattr(guest.engine, "_stderr", sys.stderr)
    loaded(guest, "import sys\nsys.exit('enough')")
    with pytest.raises(Ended, match="1"):
        guest.call("t")
    assert capsys.readouterr().err.splitlines() == ["enough", "SystemExit at notes.py:6 in t: sys.exit('enough')"]


def test_a_default_of_none_takes_none_whatever_the_annotation_says(guest: Guest) -> None:
    source = "from rho import tool\n\n@tool\ndef t(n: int = None, data: bytes = None, s: str | None = None):\n"
    reply = guest.load(source + "    return [n, data, s]\n")
    properties = reply["ok"]["tools"][0]["input_schema"]["properties"]
    assert properties["n"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert properties["s"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert guest.call("t", {"n": None, "data": None}) == {"ok": [None, None, None]}
    assert guest.call("t", {"n": 1.0, "data": "YQ"}) == {"ok": [1, b"a", None]}


def test_answers_that_only_python_can_encode_are_encoded(guest: Guest) -> None:
    loaded(guest, "import collections\nreturn [b'x', collections.Counter('aab'), (1,)]")
    assert guest.call("t") == {"ok": [b"x", {"a": 2, "b": 1}, [1]]}


def test_an_unknown_tool_is_a_crash_of_ours_and_not_silent(guest: Guest) -> None:
    loaded(guest, "return 1")
    assert guest.call("other")["raised"]["type"] == "KeyError"


def test_the_request_and_what_compiling_left_are_wiped(guest: Guest) -> None:
    request = bytearray(plain.encode({"source": "from rho import tool\n@tool\ndef t(): ...\n", "file": "notes.py"}))
    guest.engine.load(request)
    assert not any(request)


def test_an_async_tool_runs_to_its_end_without_waiting(guest: Guest) -> None:
    reply = guest.load(
        "import asyncio\nfrom rho import tool\n"
        "async def slow(n):\n    await asyncio.sleep(0.001 * n)\n    return n\n"
        "@tool\nasync def t() -> list:\n    return await asyncio.gather(*[slow(n) for n in (3, 1, 2)])\n"
    )
    assert "ok" in reply
    assert guest.call("t") == {"ok": [3, 1, 2]}


def test_waiting_for_what_cannot_happen_ends_at_once() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing else runs"):
        _loop.run(forever())


def test_the_loop_sleeps_until_the_first_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(_loop.Loop, "time", lambda self: sum(slept))

    async def wait() -> str:
        await asyncio.gather(asyncio.sleep(3), asyncio.sleep(1))
        return "done"

    assert _loop.run(wait()) == "done"
    assert 2.99 < sum(slept) < 3.01


def test_chance_is_new_after_it_was_forgotten() -> None:
    chance = _random.CallRandom()
    chance.forget()
    drawn = set()
    for _ in range(3):
        drawn |= {chance.random(), chance.gauss(0, 1)}
        chance.forget()
    assert len(drawn) == 6


def test_a_seed_that_the_tool_chose_is_kept() -> None:
    draws: list[Callable[[random.Random], object]] = [
        lambda it: it.random(),
        lambda it: it.randrange(10**9),
        lambda it: it.sample(range(10**6), 3),
    ]
    for draw in draws:
        chance = _random.CallRandom()
        chance.seed(7)
        chance.forget()
        assert draw(chance) == draw(random.Random(7))


def test_all_functions_of_the_module_draw_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in vars(random).copy().items():
        monkeypatch.setattr(random, name, value)
    shared = _random.install()
    monkeypatch.setattr(shared, "_fresh", True)
    random.seed(5)
    expected = random.Random(5)
    assert random.random() == expected.random()
    assert random.choice(range(100)) == expected.choice(range(100))
    assert random.getrandbits(70) == expected.getrandbits(70)
    assert random.getstate() == expected.getstate()
