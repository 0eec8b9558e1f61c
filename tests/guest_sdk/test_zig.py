"""rho.zig makes schemas of types and answers of values, and its README's guest is built and called as printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import wasmtime

from rho_wasm import resources
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError
from rho_wasm.toolchains import build
from tests.guest_sdk.conftest import GUESTS
from tests.guest_sdk.raw import RawGuest

pytestmark = pytest.mark.slow

README = resources.sdk("zig/README.md")
GIVEN: dict[str, Any] = {"small": -3, "number": 2, "yes": True, "list": [], "map": {}}


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return anyio.run(build, GUESTS / "kinds.zig")


@pytest.fixture
def guest(artifact: Artifact) -> RawGuest:
    return RawGuest(artifact.wasm)


def test_types_are_schemas(artifact: Artifact) -> None:
    tool = artifact.manifest.tools[0].as_plain()
    schema = tool["input_schema"]
    assert set(schema["required"]) == {"small", "number", "yes", "list", "map"}
    assert schema["additionalProperties"] is False
    pair = {"type": "array", "items": {"type": "number"}, "default": [0.0, 0.5], "minItems": 2, "maxItems": 2}
    place = {"name": {"type": "string"}, "at": pair}
    of_place = {"type": "object", "properties": place, "required": ["name"], "additionalProperties": False}
    whole = {
        "type": "integer",
        "minimum": 0,
        "maximum": 9,
        "default": 7,
        "description": "How many.",
        "examples": [1, 2],
    }
    assert schema["properties"] == {
        "small": {"type": "integer", "minimum": -128, "maximum": 127, "description": "A small one."},
        "whole": whole,
        "number": {"type": "number"},
        "yes": {"type": "boolean"},
        "text": {"type": "string", "default": "none"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "maybe": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 65535}, {"type": "null"}]},
        "list": {"type": "array", "items": of_place},
        "any": {"default": None},
        "map": {"type": "object"},
        "data": {"type": "string", "contentEncoding": "base64"},
    }
    assert tool["output_schema"] == schema
    assert tool["metadata"] == {"version": 2, "tags": ["a", "b"]}
    assert (tool["timeout_ms"], tool["idempotent"], tool["destructive"]) == (2000, True, False)
    assert tool["examples"] == [{"arguments": {}, "answer": {"halt": "done", "value": None}}]


def test_arguments_become_values_of_their_types_and_answers(guest: RawGuest) -> None:
    given = GIVEN | {
        "list": [{"name": "a"}, {"name": "b", "at": [1, 2.5]}],
        "map": {"k": [1]},
        "data": b"x",
        "maybe": 9,
    }
    answer = guest.call("kinds", given)["ok"]
    assert answer["list"] == [{"name": "a", "at": [0.0, 0.5]}, {"name": "b", "at": [1.0, 2.5]}]
    assert answer | {"list": 0} == given | {"list": 0, "whole": 7, "text": "none", "unit": "celsius", "any": None}
    assert guest.call("nothing", {}) == {"ok": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"small": 128}, "small is no integer of -128 to 127"),
        ({"small": 1.5}, "small is no integer of -128 to 127"),
        ({"whole": 1e300}, f"whole is no integer of 0 to {2**64 - 1}"),
        ({"unit": "kelvin"}, "unit is no name that is allowed here"),
        ({"list": [{}]}, "name is missing"),
        ({"map": []}, "map is no object"),
        ({"text": b"x"}, "text is no text"),
        *(
            ({"data": bad}, "data is no base64 text and no bytes")
            for bad in ("A", "AQ=", "AQ===", "====", "A Q=", "é", 1)
        ),
    ],
)
def test_an_argument_of_another_type_is_a_failure(guest: RawGuest, change: dict[str, Any], message: str) -> None:
    assert guest.call("kinds", GIVEN | change) == {"error": message}


@pytest.mark.parametrize("text", ["-_8", "+/8=", "+/8", b"\xfb\xff"])
def test_bytes_may_be_base64_text(guest: RawGuest, text: str | bytes) -> None:
    assert guest.call("kinds", GIVEN | {"data": text})["ok"]["data"] == b"\xfb\xff"


@pytest.mark.parametrize("text", ["", "AQ==", "AQ", "AQIDBA", "AQID"])
def test_base64_may_be_of_any_length(guest: RawGuest, text: str) -> None:
    assert guest.call("kinds", GIVEN | {"data": text})["ok"]["data"] == b"\1\2\3\4"[: len(text.rstrip("=")) * 3 // 4]


def test_a_number_without_a_fraction_is_an_integer(guest: RawGuest) -> None:
    assert guest.call("kinds", GIVEN | {"small": -3.0})["ok"]["small"] == -3


@pytest.mark.parametrize("source", ["", "pub const tools = [_]rho.Tool{};\n"])
def test_a_guest_without_tools_is_told_how_one_is_declared(source: str) -> None:
    with pytest.raises(BuildError, match=r"no tool is declared: pub const tools = \[_\]rho\.Tool\{rho\.tool\("):
        anyio.run(lambda: build('const rho = @import("rho");\n' + source, language="zig"))


@pytest.mark.parametrize(
    ("how", "name"), [("returned", "NoSuchCity"), ("text", "NotUtf8"), ("integer", "NotPlain"), ("depth", "TooDeep")]
)
def test_an_error_that_is_returned_is_raised_by_its_name(guest: RawGuest, how: str, name: str) -> None:
    assert guest.call("fails", {"how": how}) == {"raised": {"message": name, "type": "error", "trace": []}}


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("index", "index out of bounds: index 5, len 1"),
        ("overflow", "integer overflow"),
        ("unreachable_code", "reached unreachable code"),
    ],
)
def test_a_panic_is_a_line_of_the_log_and_a_trap_that_names_functions(guest: RawGuest, how: str, line: str) -> None:
    with pytest.raises(wasmtime.Trap, match=r"kinds\.fails"):
        guest.call("fails", {"how": how})
    assert guest.log == [(40, line)]


def test_memory_that_runs_out_traps(guest: RawGuest) -> None:
    with pytest.raises(wasmtime.Trap):
        guest.call("fails", {"how": "memory"})
    assert guest.log == [(40, "OutOfMemory")]


def test_a_handler_knows_of_its_call_and_logs(guest: RawGuest) -> None:
    answer = guest.call("facts", {}, context={"call_id": "c1", "values": {"unit": "m"}, "new": 1})
    assert answer == {"ok": {"id": "c1", "tool": "facts", "unit": "m"}}
    assert guest.log == [(20, "1 of 3 pages"), (30, "facts: half 0.50")]


def test_a_megabyte_the_deepest_nesting_and_every_plane_come_back(guest: RawGuest) -> None:
    deep: Any = 0
    for _ in range(61):
        deep = [deep]
    planes = "".join(chr(plane * 0x10000 + 0x1234) for plane in range(17))
    for value in ("x" * 1_000_000, [0] * 90_000, deep, planes):
        assert guest.call("kinds", GIVEN | {"any": value})["ok"]["any"] == value


def test_the_readmes_guest_works_and_its_commands_do(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    [source] = re.findall(r"```zig\n(.*?)```", text, re.DOTALL)
    [commands] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    (tmp_path / "greet.zig").write_text(source, encoding="utf-8")
    install, *run = commands.splitlines()
    assert install == "pip install 'rho-wasm[cli,zig]'"
    for command in run:
        program = command.replace("rho-wasm", f"{sys.executable} -m rho_wasm.cli", 1)
        done = subprocess.run(program, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"name": "Ada", "greetings": ["hello", "hello"]}


def test_every_name_that_the_readme_tells_is_in_the_file() -> None:
    text = README.read_text(encoding="utf-8")
    sdk = resources.sdk("zig/rho.zig").read_text(encoding="utf-8")
    named = set(re.findall(r"\brho\.([A-Za-z]+)\b", text)) - {"zig"}
    assert {name for name in named if not re.search(rf"\bpub (fn|const) {name}\b", sdk)} == set()
