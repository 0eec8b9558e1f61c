"""Pure functions answer in the engine as they do in the host's Node."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.toolchains.engines.quickjs_bench import Bench, Loaded

_FILE = Path(__file__).with_name("quickjs_pure.js")
_TEXT = "Four score and seven, years ago; our Fathers' café — naïve 日本 $12.50 2024-03 007 tot tot  $3\n\tend"
_URLS = [
    "http://a.com",
    "HTTP://User:Pa%20ss@EXAMPLE.com:80/a/../b/./c?x=1&y= 2#f o",
    "https://example.com:8443/%7Efoo/é/日本?é='x'\"<>`#é<>`",
    "http://[2001:db8:0:0:1:0:0:1]:99/x",
    "http://0x7f.1/",
    "http://256.1.1.1/",
    "http://a b/",
    "mailto:me@x.com?subject=a b",
    "data:text/plain,hello world#x",
    "file:///etc/../passwd",
    "foo://bar:9/baz?q#f",
    "http://",
    "http://a.com:99999",
    "http://a.com\\b\\c",
    " http://a.com/\ta\nb ",
    "//x/y",
    "/abs",
    "../rel/./x?y",
    "?q",
    "#f",
    "",
    "http:only",
    "http:/one",
]
_CALLS: Mapping[str, list[dict[str, Any]]] = {
    "json": [{"text": '{"a": [1, 2.5e-7, "\\u00e9\\n", null, true], "drop": {"b": 1}, "10": 1, "2": -0}'}],
    "words": [{"text": _TEXT}, {"text": "a B b A a"}, {"text": ""}],
    "logs": [{"log": "2024-01-01T00:00 [INFO] a\nnoise\n2024-01-02T00:00 [WARN] b c\n2024-01-03T00:00 [INFO] d"}],
    "csv": [{"csv": 'a,b\n"1,""x""",2\n3,\n'}],
    "statistics": [{"values": [3, 1.5, 4, 1, 5.25, 9]}, {"values": [0.1, 0.2, 0.3]}],
    "dates": [{"dates": ["2024-02-29T23:59:59.999Z", "1969-12-31", "2024-13-01", "Tue, 05 Nov 2024 10:00:00 GMT"]}],
    "numbers": [{"values": [0, -1.5, 1e21, 123.456, 2**31, 0.1, 1e-7, 255, -0.5, 1.005]}],
    "parses": [{"texts": ["12px", "0x1f", "", " 3 ", "1e3", "-.5", "Infinity", "1_000", "0b11", "é"]}],
    "factorial": [{"n": 5}, {"n": 60}],
    "base64": [{"text": "hé 日本 😀"}, {"text": ""}],
    "strings": [{"text": "amanda é😀 "}, {"text": "z"}],
    "sorts": [{"people": [{"name": "B", "age": 30}, {"name": "a", "age": 41}, {"name": "C", "age": 30}]}],
    "bits": [{"values": [math.pi, 300, -7, 2.5]}],
    "primes": [{"n": 5}, {"n": 60}],
    "promises": [{"values": [1, 2, 3, 4]}],
    "distance": [{"a": "kitten", "b": "sitting"}, {"a": "", "b": "abc"}],
    "markdown": [{"rows": [{"a": 1, "b": "two"}, {"b": None, "c": True}]}],
    "differences": [{"a": {"x": [1, {"y": 2}], "z": 0}, "b": {"x": [1, {"y": 3}], "w": 0}}],
    "checksum": [{"text": "123456789"}, {"text": ""}],
    "errors": [{"n": 1}],
    "patterns": [{"text": _TEXT}, {"text": "a,b"}],
    "urls": [{"urls": _URLS}, {"urls": _URLS, "base": "http://base.com/dir/file?q#f"}],
    "parameters": [
        {"queries": ["a=1&b=2", "?a=b", "a=%20+x&a=é&=1&b", "a=%zz%c3%28&x=%F0%9F%98%80", "", "&&a&=", "a==b"]}
    ],
    "codecs": [
        {
            "texts": ["", "abc", "é日😀", "\U0001f600x"],
            "bytes": [
                [65, 0xC3, 0xA9],
                [0xEF, 0xBB, 0xBF, 66],
                [0xC3, 40],
                [0xF0, 0x9F, 0x98],
                [0x80, 0xED, 0xA0, 0x80, 67],
            ],
        }
    ],
    "clones": [{"value": {"a": [1, {"b": None}], "c": "x"}}],
}
_NODE = """
import { readFileSync } from "node:fs";
const [file, calls] = JSON.parse(readFileSync(0, "utf8"));
const tools = await import("data:text/javascript;base64," + Buffer.from(file).toString("base64"));
const answers = [];
for (const [name, args] of calls) answers.push(await tools[name](args));
console.log(JSON.stringify(answers));
"""


@pytest.fixture(scope="module")
def pure(quickjs: Bench) -> Loaded:
    return quickjs.load(_FILE.read_text(encoding="utf-8"), file=_FILE.name)


@pytest.fixture(scope="module")
def in_node() -> dict[str, list[Any]]:
    """What Node answers to each call."""
    if (node := shutil.which("node")) is None:
        pytest.skip("there is no Node here")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    if int(version.removeprefix("v").split(".")[0]) < 20:
        pytest.skip(f"Node {version.strip()} does not know what the functions use")
    source = _FILE.read_text(encoding="utf-8")
    if int(version.removeprefix("v").split(".")[0]) < 22:
        source = f"{_HELPERS_BEFORE_22}\n{source}"
    calls = [(name, arguments) for name, each in _CALLS.items() for arguments in each]
    done = subprocess.run(
        [node, "--input-type=module", "--eval", _NODE],
        input=json.dumps([source, calls]),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, list[Any]] = {name: [] for name in _CALLS}
    for (name, _), answer in zip(calls, json.loads(done.stdout), strict=True):
        answers[name].append(answer)
    return answers


_HELPERS_BEFORE_22 = """
Object.groupBy ??= (all, by) => all.reduce((groups, each) => ((groups[by(each)] ??= []).push(each), groups), {});
Object.getPrototypeOf(Object.getPrototypeOf((function* () {})())).take ??=
  function* (n) { if (n > 0) for (const each of this) { yield each; if (--n === 0) return; } };
"""


def test_every_function_is_called() -> None:
    source = _FILE.read_text(encoding="utf-8")
    assert re.findall(r"^export (?:async )?function (\w+)", source, re.MULTILINE) == list(_CALLS)
    assert len(_CALLS) > 20


@pytest.mark.parametrize("name", _CALLS)
def test_the_engine_answers_as_node_does(name: str, pure: Loaded, in_node: dict[str, list[Any]]) -> None:
    for arguments, expected in zip(_CALLS[name], in_node[name], strict=True):
        answer = pure.call(name, arguments)
        assert "ok" in answer, answer
        assert _as_json(answer["ok"]) == expected


def _as_json(value: Any) -> Any:
    """As JSON.stringify shows it: there are no infinite numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return {key: _as_json(each) for key, each in value.items()} if isinstance(value, dict) else value
