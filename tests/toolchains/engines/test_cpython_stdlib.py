"""The standard library answers in the sandbox as it does in the host."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.sandbox import GuestModule
from tests.toolchains.engines import cpython_pure
from tests.toolchains.engines.cpython_host import Python

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]

PROSE = "The quick brown Fox jumps over the lazy dog. The dog sleeps; the fox runs away from the dog!"
NESTED = {"b": [1, 2.5, None, True], "a": {"é": "日本", "deep": [[["x" * 30]]], "list": ["one"]}, "list": [1]}

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("reshape_json", {"text": json.dumps(NESTED), "indent": 2}),
    ("reshape_json", {"text": '[1e400, -0.0, "\\ud83d\\ude00", 12345678901234567890]'}),
    ("json_problem", {"text": '{"a": 1,\n "b": }'}),
    ("find_all", {"pattern": r"(?P<word>t\w+)\s+(\w)", "text": PROSE}),
    ("find_all", {"pattern": r"(?<=o)\w(?!\w)|é+|\bdog\b", "text": PROSE + "ééé"}),
    ("replace_all", {"pattern": r"(\w+) (\w+)", "template": r"\2 \1", "text": PROSE}),
    ("date_arithmetic", {"moment": "2024-02-28T23:59:59.5", "days": 1.25, "zone_hours": -7}),
    ("parse_dates", {"texts": ["31 Dec 1999", "29 Feb 2024"], "format_": "%d %b %Y"}),
    ("month", {"year": 2024, "number": 2}),
    ("read_csv", {"text": 'a;b\n1;"x;\n""y"""\n2;\n', "delimiter": ";"}),
    ("write_csv", {"rows": [["a", 'q"uote', "new\nline"], [1, 2.5, None], ["é", ",", ""]]}),
    ("describe", {"numbers": [3, 1.5, 4, 1.5, 9.25, -2, 6]}),
    ("money", {"amounts": ["19.99", "0.01", "1e3", "-7.125"], "rate": "1.0725"}),
    ("add_fractions", {"parts": ["1/3", "0.25", "-7/11"], "limit": 10}),
    ("wrap", {"text": PROSE, "width": 24}),
    ("differences", {"one": "apple\npear\nplum", "two": "apple\npears\nplum\nfig"}),
    ("encodings", {"text": "Zürich € 日本"}),
    ("digests", {"text": PROSE}),
    ("combine", {"items": ["a", "bb", "cc", "ddd"], "size": 2}),
    ("count_words", {"text": PROSE}),
    ("smallest", {"numbers": [5, 3, 9, 1, 7, 3], "count": 3}),
    ("places", {"numbers": [5, 3, 9, 3], "wanted": [0, 3, 4, 10]}),
    ("fill_in", {"template": "dear $name, {name}: $x", "values": {"name": "Ada"}}),
    ("web_text", {"text": "<a href='x'>\"é\" & b</a>"}),
    ("web_address", {"url": "https://u:p@h.example:8080/a/b/c?q=1&q=%20é#f", "more": {"k": "a b&c"}}),
    ("identifiers", {"name": "https://example.org/é"}),
    ("squeeze", {"text": PROSE * 20}),
    ("pack", {"numbers": [1, -2, 32_767]}),
    ("characters", {"text": "éﬁ①ß𝄞a\u0301"}),
    ("fold", {"numbers": [7, 3, 12, 5]}),
    ("deep_copy", {"value": NESTED}),
    ("members", {}),
    ("versions", {"numbers": [[2, 1], [1], [1, 9]]}),
    ("hints", {}),
    ("pretty", {"value": NESTED}),
    ("drawn", {"seed": 42}),
    ("order_of", {"tasks": {"d": ["b", "c"], "b": ["a"], "c": ["a"]}}),
    ("networks", {"network": "192.168.4.0/29"}),
    ("outline", {"text": "<a x='1'> t <b>é<c/></b></a>"}),
    ("settings", {"text": "[one]\nA = 1\nb: two\n[two]\nc = %(d)s!\nd = e\n"}),
    ("numbers", {"values": [0.1, 2.75, 1234.5678]}),
    ("command", {"text": 'a \'b c\' "d\\"e" f'}),
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def pure(python: Python) -> GuestModule:
    source = resources.files("tests.toolchains.engines").joinpath("cpython_pure.py").read_text("utf-8")
    names = sorted({name for name, _ in CALLS})
    return await python.load(f"{source}\nfrom rho import tool\nfor _each in ({', '.join(names)}):\n    tool(_each)\n")


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
async def test_it_answers_as_in_the_host(
    python: Python, pure: GuestModule, name: str, arguments: dict[str, Any]
) -> None:
    given = plain.decode(plain.encode(arguments))
    expected = getattr(cpython_pure, name)(**given)
    answered = await python.call(pure, name, arguments)
    assert answered == plain.plain(expected), name


async def test_what_a_model_would_write(python: Python) -> None:
    source = '''
import re
from collections import defaultdict
from statistics import mean
from rho import tool

LINE = re.compile(
    r"\\S+ \\S+ \\S+ \\[[^]]+\\] \\"(?P<method>\\w+) (?P<path>\\S+)[^\\"]*\\" (?P<status>\\d+) (?P<size>\\d+)"
)

@tool(read_only=True)
def summarise_log(text: str, by: str = "status") -> str:
    """Groups the lines of a web server's log and renders a table.

    Args:
        text: the log, in Common Log Format
        by: status, method or path
    """
    groups = defaultdict(list)
    for line in text.splitlines():
        if match := LINE.match(line):
            groups[match[by]].append(int(match["size"]))
    rows = [(key, len(sizes), round(mean(sizes), 1)) for key, sizes in sorted(groups.items())]
    table = [f"{'group':<10}{'count':>6}{'mean':>10}"]
    table += [f"{key:<10}{count:>6}{size:>10}" for key, count, size in rows]
    return "\\n".join(table)
'''
    module = await python.load(source)
    lines = [
        f'10.0.0.{n} - - [01/Jan/2025:00:00:0{n}] "GET /{n % 2} HTTP/1.1" {200 + 204 * (n % 2)} {n * 100}'
        for n in range(6)
    ]
    assert await python.call(module, "summarise_log", {"text": "\n".join(lines)}) == (
        "group      count      mean\n200            3       200\n404            3       300"
    )
