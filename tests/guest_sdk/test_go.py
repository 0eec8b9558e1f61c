"""The Go SDK beyond the vectors: its README's guest, what types become, and what an author sees of a mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from rho_wasm import plain, resources
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.toolchains import build
from tests.guest_sdk.vectors_guests import Calls, Refused
from tests.sandbox.conftest import shared_cache

__all__ = ["shared_cache"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

README = resources.sdk("go/README.md")
GUEST = Path(__file__).parent / "guests" / "types.go"
PLANES = "".join(chr(plane << 16 | 0x41) for plane in range(17))


@pytest.fixture(scope="module")
def types() -> Iterator[tuple[Artifact, Calls]]:
    yield from _built(GUEST)


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Artifact, Calls]]:
    block = re.search(r"```go\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    path = tmp_path_factory.mktemp("readme") / "greet.go"
    path.write_text(block[1], encoding="utf-8")
    yield from _built(path)


def _built(path: Path) -> Iterator[tuple[Artifact, Calls]]:
    with start_blocking_portal() as portal:
        artifact: Artifact = portal.call(build, path)
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
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "whom to greet"},
            "times": {"type": "integer", "default": 1, "minimum": 1, "maximum": 10},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


def test_every_name_that_the_readme_tells_is_in_the_package() -> None:
    package = "".join(path.read_text(encoding="utf-8") for path in README.parent.glob("*.go"))
    for named in re.findall(r"\b(rho|ctx)\.([A-Z]\w*)", README.read_text(encoding="utf-8")):
        assert re.search(rf"(func|type) (\(ctx \*Context\) )?{named[1]}\b|^\t{named[1]} ", package, re.MULTILINE), named


def test_tags_and_types_become_a_schema(types: tuple[Artifact, Calls]) -> None:
    tools = {tool.name: tool for tool in types[0].manifest.tools}
    schema = tools["types"].input_schema
    number = {"type": "number"}
    points = {"x": number, "y": number}
    inside = {"type": "object", "properties": points, "required": ["x", "y"], "additionalProperties": False}
    assert schema["properties"] == {
        "flag": {"type": "boolean"},
        "small": {"type": "integer", "minimum": 0, "maximum": 255, "description": "a byte"},
        "signed": {"type": "integer", "minimum": -5, "maximum": 5},
        "large": {"type": "integer", "minimum": 0},
        "real": {"type": "number"},
        "text": {"type": "string", "pattern": "^a", "minLength": 1},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "data": {"type": "string", "contentEncoding": "base64"},
        "points": {"type": "array", "items": inside, "maxItems": 3},
        "names": {"type": "object", "additionalProperties": {"type": "string"}},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "user_ids": {"type": "array", "items": {"type": "integer"}},
        "any": {},
    }
    assert "required" not in schema
    assert (tools["types"].idempotent, tools["types"].timeout_ms) == (True, 1000)
    assert (tools["mistakes"].destructive, tools["mistakes"].metadata) == (True, {"a": 1})
    assert tools["mistakes"].output_schema is None


GIVEN: dict[str, tuple[Any, Any]] = {
    "flag": (True, True),
    "small": (255, 255),
    "signed": (-5, -5),
    "large": (2**64 - 1, 2**64 - 1),
    "real": (3, 3.0),
    "text": (PLANES, PLANES),
    "data": (b"\x00\xff", b"\x00\xff"),
    "points": ([{"x": 1, "y": 2.5}], [{"x": 1.0, "y": 2.5}]),
    "names": ({"b": "1", "a": "2"}, {"a": "2", "b": "1"}),
    "maybe": (0, 0),
    "user_ids": ([1, -(2**63)], [1, -(2**63)]),
    "any": ({"n": -(2**64)}, {"n": -(2**64)}),
}


def test_values_of_every_type_are_given_back(types: tuple[Artifact, Calls]) -> None:
    calls = types[1]
    assert calls.call("types") == {"ok": {"color": "red"}}
    given = {name: value for name, (value, _) in GIVEN.items()}
    told = {name: value for name, (_, value) in GIVEN.items()}
    assert calls.call("types", **given) == {"ok": told | {"color": "red"}}
    assert calls.call("types", signed=3.0, maybe=None, color="green") == {"ok": {"signed": 3, "color": "green"}}


@pytest.mark.parametrize("text", ["+/8=", "+/8", "-_8=", "-_8"])
def test_bytes_may_be_base64_text(types: tuple[Artifact, Calls], text: str) -> None:
    assert types[1].call("types", data=text) == {"ok": {"data": b"\xfb\xff", "color": "red"}}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"small": 256}, "arguments.small is beyond what a uint8 holds"),
        ({"small": -1}, "arguments.small must be a whole number from 0 on"),
        ({"signed": 1.5}, "arguments.signed must be a whole number"),
        ({"user_ids": [1, 2**63]}, "arguments.user_ids[1] is beyond what a int holds"),
        ({"user_ids": [-(2**63) - 1]}, "arguments.user_ids[0] is beyond what a int holds"),
        ({"large": 1e300}, "arguments.large must be a whole number from 0 on"),
        ({"points": [{"x": 1}]}, "arguments.points[0].y is missing"),
        ({"names": {"a": 1}}, "arguments.names.a must be a text"),
        *(({"data": text}, "arguments.data is no base64 text") for text in ("A", "AQ=", "AQ===", "====", "A Q=", "é")),
        ({"text": b"a"}, "arguments.text must be a text"),
    ],
)
def test_what_does_not_fit_is_a_failure_with_its_place(
    types: tuple[Artifact, Calls], given: dict[str, Any], told: str
) -> None:
    assert types[1].call("types", **given) == {"error": told}


@pytest.mark.parametrize(
    ("which", "answer"),
    [
        ("wrapped", {"error": "reading: no such file"}),
        ("joined", {"error": "one\ntwo"}),
        ("plain", {"error": "broken 4"}),
        ("wrapped question", {"ask_user": "which?"}),
        ("bad error", {"error": "\ufffd"}),
    ],
)
def test_errors_are_answered_with_all_that_they_say(
    types: tuple[Artifact, Calls], which: str, answer: dict[str, Any]
) -> None:
    assert types[1].call("mistakes", which=which) == answer


@pytest.mark.parametrize(
    ("which", "told"),
    [
        ("index", "runtime.Error: runtime error: index out of range [5] with length 0"),
        ("nil map", "runtime.Error: assignment to entry in nil map"),
        ("text", "panic: a text"),
        ("error", "main.broken: broken 3"),
        ("bad text", "panic: rho: a text of the answer is no UTF-8"),
        ("function", "panic: rho: an answer has a func"),
        ("too deep", "panic: rho: an answer is nested more than 64 deep"),
        ("itself", "panic: rho: an answer is nested more than 64 deep"),
        ("exit", "trapped"),
    ],
)
def test_a_mistake_is_a_crash_that_is_told(types: tuple[Artifact, Calls], which: str, told: str) -> None:
    with pytest.raises(Refused) as refused:
        types[1].call("mistakes", which=which)
    assert told in str(refused.value)


def test_an_answer_may_be_as_deep_as_the_host_takes(types: tuple[Artifact, Calls]) -> None:
    assert list(types[1].call("mistakes", which="deep enough")) == ["ok"]


def test_large_arguments_come_and_go(types: tuple[Artifact, Calls]) -> None:
    text = "aé𝄞" * 140_000
    assert types[1].call("types", text=text)["ok"]["text"] == text


def test_the_call_is_known_and_logged(types: tuple[Artifact, Calls]) -> None:
    context = {"call_id": "c", "session_id": "s", "values": {"a": 1}, "later": True}
    request = {"abi": 1, "tool": "about", "arguments": {}, "context": context}
    answer = types[1].send(plain.encode(request))
    assert answer == {"ok": {"call": "c", "session": "s", "values": {"a": 1}}}
    assert types[1].log == [(20, "progress: 1 of 4 pages"), (20, "progress: 0.5"), (30, "careful \ufffd")]


MISDECLARED = """package main

import "rho"

type arguments struct {
	Times int `min:"x"`
}

func nothing(*rho.Context, arguments) (any, error) { return nil, nil }

func main() {
	rho.Tool("nothing", "", nothing)
}
"""


def test_a_tool_that_cannot_be_declared_is_told_when_it_is_built() -> None:
    with pytest.raises(BuildError) as caught:
        anyio.run(lambda: build(MISDECLARED, language="go"))
    assert caught.value.reason == "bad_manifest"
    told = [found.message for found in caught.value.diagnostics]
    assert 'rho: nothing: arguments.times: min is "x", which does not fit the field' in told
    assert "at source.go:12, in main" in told


def test_a_guest_without_tools_is_told_how_one_is_declared() -> None:
    with pytest.raises(BuildError) as caught:
        anyio.run(lambda: build('package main\n\nimport _ "rho"\n\nfunc main() {}\n', language="go"))
    told = [found.message for found in caught.value.diagnostics]
    assert "no tool is declared: func main() does it, by rho.Tool(name, description, function)" in told


def test_a_package_that_is_not_main_is_told_by_the_authors_file_alone() -> None:
    with pytest.raises(BuildError) as caught:
        anyio.run(lambda: build(MISDECLARED.replace("package main", "package mine"), language="go"))
    [found] = caught.value.diagnostics
    assert (found.file, found.message) == (
        "source.go",
        "it is of package mine, where tools are declared in package main",
    )
