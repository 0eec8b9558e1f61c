"""The AssemblyScript SDK beyond the vectors: its README's guest, what values become, what a mistake does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm import plain, resources
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.toolchains import build
from rho_wasm.toolchains.assemblyscript import PACKAGE
from tests.guest_sdk.json_texts import BAD, GOOD, close, json_values
from tests.guest_sdk.vectors_guests import Calls, Refused

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

README = resources.sdk("assemblyscript/README.md")
GUEST = Path(__file__).parent / "guests" / "types.as.ts"
PLANES = "".join(chr(plane << 16 | 0x41) for plane in range(17))


@pytest.fixture(scope="module")
def types() -> Iterator[tuple[Artifact, Calls]]:
    yield from _built(GUEST)


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Artifact, Calls]]:
    block = re.search(r"```ts\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    path = tmp_path_factory.mktemp("readme") / "greet.as.ts"
    path.write_text(block[1], encoding="utf-8")
    yield from _built(path)


def _built(path: Path) -> Iterator[tuple[Artifact, Calls]]:
    with start_blocking_portal() as portal:
        try:
            artifact: Artifact = portal.call(build, path)
        except BuildError as error:
            if error.reason != "missing_toolchain":
                raise
            pytest.skip(str(error))
        with portal.wrap_async_context_manager(Sandbox(cache=NativeCache.default(), way="public")) as sandbox:
            yield artifact, Calls(portal.call(sandbox.load, artifact.wasm))


def test_the_guest_of_the_readme_works_as_printed(readme: tuple[Artifact, Calls]) -> None:
    artifact, calls = readme
    assert artifact.log == ""
    [tool] = artifact.manifest.tools
    [example] = tool.examples
    assert calls.call("greet", **example.arguments) == example.answer
    assert calls.call("greet", name="Ada", times=2) == {"ok": {"name": "Ada", "greetings": ["hello", "hello"]}}
    assert calls.log == [(20, "greeting")]
    assert list(calls.call("greet", name="", times=2)) == ["error"]
    assert tool.read_only
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "whom to greet"},
            "times": {"type": "integer", "description": "how often", "default": 1, "minimum": 1, "maximum": 10},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


def test_the_readme_installs_the_compiler_that_is_asked_for() -> None:
    assert f"npm install -g {PACKAGE}\n" in README.read_text(encoding="utf-8")


def test_every_name_that_the_readme_tells_is_in_the_sdk() -> None:
    sdk = resources.sdk("assemblyscript/rho.ts").read_text(encoding="utf-8")
    table = "\n".join(line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("|"))
    names = set(re.findall(r"\b([a-z]\w+)\(|\.([a-zA-Z]\w+)", table))
    for name in {first or second for first, second in names}:
        assert re.search(rf"(function|get|  private|  static|^ +|public) ?{name}\b", sdk, re.MULTILINE), name


def test_declarations_become_a_manifest(types: tuple[Artifact, Calls]) -> None:
    tools = {tool.name: tool for tool in types[0].manifest.tools}
    schema = tools["types"].input_schema
    assert schema["properties"] == {
        "text": {"type": "string", "description": "a text", "pattern": "^a", "minLength": 1},
        "whole": {"type": "integer", "minimum": -5, "maximum": 5},
        "real": {"type": "number"},
        "flag": {"type": "boolean"},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "names": {"type": "array", "items": {"type": "string"}, "description": "of people", "maxItems": 3},
        "any": {},
        "data": {"type": "string", "contentEncoding": "base64", "description": "any bytes"},
    }
    assert "required" not in schema
    assert (tools["types"].idempotent, tools["types"].timeout_ms) == (True, 1000)
    assert tools["types"].output_schema == {"type": "object"}
    assert (tools["mistakes"].destructive, tools["mistakes"].metadata) == (True, {"a": 1})


def test_arguments_are_given_back(types: tuple[Artifact, Calls]) -> None:
    calls = types[1]
    assert calls.call("types") == {"ok": {"color": "red"}}
    given = {"text": PLANES, "whole": -5, "real": 3, "flag": True, "names": ["a"], "any": {"n": -(2**64)}}
    assert calls.call("types", **given) == {"ok": given | {"color": "red"}}
    assert calls.call("getters", value=1) == {"error": "arguments.as is missing"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"\xfb\xff", b"\xfb\xff"),
        ("-_8", b"\xfb\xff"),
        ("+/8=", b"\xfb\xff"),
        ("", b""),
        ("AQ==", b"\1"),
        ("AQIDBA", b"\1\2\3\4"),
    ],
)
def test_bytes_may_be_base64_text(types: tuple[Artifact, Calls], given: str | bytes, told: bytes) -> None:
    assert types[1].call("bytes", data=given) == {"ok": told}


def test_a_default_of_bytes_is_base64_text(types: tuple[Artifact, Calls]) -> None:
    assert types[1].call("bytes") == {"ok": b"\1\2\3"}


@pytest.mark.parametrize("given", ["A", "AQ=", "AQ===", "====", "A Q=", "é", 1, None])
def test_what_is_no_base64_is_a_failure(types: tuple[Artifact, Calls], given: Any) -> None:
    assert types[1].call("bytes", data=given) == {"error": "arguments.data must be bytes, or base64 text"}


def test_large_arguments_come_and_go(types: tuple[Artifact, Calls]) -> None:
    text = "aé𝄞" * 140_000
    assert types[1].call("types", text=text)["ok"]["text"] == text


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("i64", -(2**63), -(2**63)),
        ("i64", 3.0, 3),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("f64", -(2**64), -(2.0**64)),
        ("f64", 0.5, 0.5),
        ("text", "\0", "\0"),
        ("bytes", b"\xff", b"\xff"),
        ("list", [1, 2], 2),
        ("map", {"a": 1}, 1),
        ("bool", False, False),
    ],
)
def test_getters_read_what_fits(types: tuple[Artifact, Calls], kind: str, value: Any, told: Any) -> None:
    assert types[1].call("getters", **{"as": kind, "value": value}) == {"ok": told}


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("i64", 2**63, "a whole number beyond i64"),
        ("i64", 1.5, "a number with a fraction, or too large"),
        ("i64", 1e300, "a number with a fraction, or too large"),
        ("u64", -1, "a whole number below 0"),
        ("f64", "1", "a value is a text where a whole number is wanted"),
        ("text", b"1", "a value is bytes where a text is wanted"),
        ("list", {}, "a value is a map where a list is wanted"),
    ],
)
def test_a_getter_that_does_not_fit_ends_the_call(
    types: tuple[Artifact, Calls], kind: str, value: Any, why: str
) -> None:
    with pytest.raises(Refused, match="trapped"):
        types[1].call("getters", **{"as": kind, "value": value})
    [(level, line)] = types[1].log
    assert level == 40
    assert line.startswith(f"{why}, in ~lib/rho.ts(")


def test_values_are_made_of_the_languages_own(types: tuple[Artifact, Calls]) -> None:
    made = [True, -1, 2**64 - 1, -(2**63), 0.5, "text", b"\0\xff", {"one": 1}, [[1, 2], [3]], None, -(2**64)]
    assert types[1].call("made") == {"ok": made}


@pytest.mark.parametrize(
    ("which", "told"),
    [
        ("throw", r"a thrown text, in types\.as\.ts\(\d+:\d+\)"),
        ("index", r"Index out of range, in ~lib/array\.ts\(.*"),
        ("missing", r"there is no no such key, in ~lib/rho\.ts\(.*"),
        ("kind", r"a value is a map where a text is wanted, in ~lib/rho\.ts\(.*"),
        ("surrogate", r".*, in ~lib/string\.ts\(.*"),
        ("too deep", r"a value is nested more than 64 deep, or has itself inside, in ~lib/rho\.ts\(.*"),
        ("image on failure", r"images go with ok only, in ~lib/rho\.ts\(.*"),
    ],
)
def test_a_mistake_is_a_crash_that_the_log_tells(types: tuple[Artifact, Calls], which: str, told: str) -> None:
    with pytest.raises(Refused, match="trapped"):
        types[1].call("mistakes", which=which)
    [(level, line)] = types[1].log
    assert level == 40
    assert re.fullmatch(told, line), line


def test_an_answer_may_be_as_deep_as_the_host_takes(types: tuple[Artifact, Calls]) -> None:
    assert list(types[1].call("mistakes", which="deep enough")) == ["ok"]


def test_garbage_is_collected_while_a_call_runs(types: tuple[Artifact, Calls]) -> None:
    assert types[1].call("mistakes", which="garbage") == {"ok": 200_000_000}


def test_json_of_others_is_read_or_refused(types: tuple[Artifact, Calls]) -> None:
    calls = types[1]
    for text, meant in GOOD:
        answer = calls.call("reads", json=text)
        assert answer.keys() == {"ok"}, text
        assert close(answer["ok"], meant), (text, answer)
    for bad in BAD:
        if (json := bad.decode("utf-8", "ignore")).encode() == bad:
            assert calls.call("reads", json=json) == {"error": "no JSON"}, json


@settings(max_examples=100, deadline=None)
@given(value=json_values, ascii_only=st.booleans())
def test_any_json_is_read_as_python_reads_it(types: tuple[Artifact, Calls], value: Any, ascii_only: bool) -> None:
    assert close(types[1].call("reads", json=json.dumps(value, ensure_ascii=ascii_only))["ok"], value)


def test_randomness_is_of_the_request(types: tuple[Artifact, Calls]) -> None:
    assert types[1].call("mistakes", which="random") == {"ok": True}


def test_the_call_is_known_and_logged(types: tuple[Artifact, Calls]) -> None:
    context = {"call_id": "c", "session_id": "s", "values": {"a": 1}, "later": True}
    answer = types[1].send(plain.encode({"abi": 1, "tool": "about", "arguments": {}, "context": context}))
    assert answer == {"ok": {"call": "c", "session": "s", "values": {"a": 1}}}
    assert types[1].log == [(20, "progress: 1 of 4 pages"), (20, "progress: 0.5"), (30, "careful \ufffd")]


@pytest.mark.usefixtures("types")
@pytest.mark.parametrize(
    ("declares", "told"),
    [
        ('tool("nothing", "").text("a").text("a");', "nothing: the argument a is there twice, in ~lib/rho.ts("),
        (
            'tool("nothing", "").text("a");',
            "the tool nothing has no .handle(...): it ends a declaration, in ~lib/rho.ts(",
        ),
        ("export const a = tool;", "no tool is declared: tool(name, description).handle("),
    ],
)
def test_a_tool_that_cannot_be_declared_is_told_when_it_is_built(declares: str, told: str) -> None:
    source = f'import {{ tool }} from "rho";\n\n{declares}\n'
    with pytest.raises(BuildError) as caught:
        anyio.run(lambda: build(source, language="assemblyscript"))
    assert caught.value.reason == "bad_manifest"
    assert told in str(caught.value)
