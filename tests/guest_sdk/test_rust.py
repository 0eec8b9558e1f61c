"""The crate rho makes schemas of types and answers of values, and its README's guest is built and called as printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
import wasmtime
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rho_wasm import plain, resources
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError
from rho_wasm.toolchains import build
from rho_wasm.toolchains.pipeline import missing
from tests.guest_sdk.conftest import GUESTS
from tests.guest_sdk.json_texts import BAD, GOOD, URL_PARTS, close, json_values
from tests.guest_sdk.raw import RawGuest

pytestmark = pytest.mark.slow

README = resources.sdk("rust/README.md")
GIVEN: dict[str, Any] = {"small": -3, "number": 2, "yes": True, "list": [], "map": {}}


@pytest.fixture(scope="module", autouse=True)
def rust() -> None:
    if (error := missing("rust")) is not None:
        pytest.skip(f"{error}: {error.hint}")


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return anyio.run(build, GUESTS / "kinds.rs")


@pytest.fixture
def guest(artifact: Artifact) -> RawGuest:
    return RawGuest(artifact.wasm)


def test_types_are_schemas_and_comments_are_descriptions(artifact: Artifact) -> None:
    assert artifact.log == ""
    tool = artifact.manifest.tools[0].as_plain()
    assert tool["name"] == "all-kinds"
    assert tool["description"] == "Gives back what it is given.\n\nIn one map."
    schema = tool["input_schema"]
    assert set(schema["required"]) == {"small", "number", "yes", "list", "map"}
    assert schema["additionalProperties"] is False
    people = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, {"type": "null"}]}
    place = {
        "name": {"type": "string", "description": "What it is called."},
        "people": people,
        "height": {"type": "number", "default": 0.5},
    }
    of_place = {"type": "object", "properties": place, "required": ["name"], "additionalProperties": False}
    of_map = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}
    assert schema["properties"] == {
        "small": {"type": "integer", "minimum": -128, "maximum": 127, "description": "A small one."},
        "whole": {"type": "integer", "minimum": 0, "maximum": 9, "default": 7, "description": "How many."},
        "number": {"type": "number"},
        "yes": {"type": "boolean"},
        "text": {"type": "string", "default": "none"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "maybe": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 65535}, {"type": "null"}]},
        "list": {"type": "array", "items": of_place},
        "any": {"default": None},
        "map": {"type": "object", "additionalProperties": of_map},
        "data": {"type": "string", "contentEncoding": "base64"},
    }
    assert tool["metadata"] == {"version": 2, "tags": ["a", "b"]}
    assert (tool["timeout_ms"], tool["idempotent"]) == (2000, True)
    assert tool["examples"] == [{"arguments": {}, "answer": {"halt": "done", "value": None}}]
    fails = next(each for each in artifact.manifest.tools if each.name == "fails")
    assert fails.as_plain()["output_schema"] == {"type": "integer", "minimum": 0, "maximum": 255}


def test_arguments_become_values_of_their_types_and_answers(guest: RawGuest) -> None:
    given = GIVEN | {"list": [{"name": "a", "people": 3}], "map": {"k": 1}, "data": b"x", "maybe": 9}
    answer = guest.call("all-kinds", given)["ok"]
    assert answer["list"] == [{"name": "a", "people": 3, "height": 0.5}]
    assert answer | {"list": 0} == given | {"list": 0, "whole": 7, "text": "none", "unit": "celsius", "any": None}
    assert guest.call("nothing", {}) == {"ok": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"small": 128}, "small must be an integer of -128 to 127"),
        ({"small": 1.5}, "small must be an integer of -128 to 127"),
        ({"whole": 1e300}, f"whole must be an integer of 0 to {2**64 - 1}"),
        ({"unit": "kelvin"}, "unit must be one of celsius fahrenheit"),
        ({"list": [{"name": "a"}, {}]}, "list[1].name is missing"),
        ({"map": {"k": "x"}}, f"map.k must be an integer of {-(2**31)} to {2**31 - 1}"),
        ({"text": b"x"}, "text must be text"),
        *(
            ({"data": text}, "data must be bytes, or base64 text")
            for text in ("A", "AQ=", "AQ===", "====", "A Q=", "é")
        ),
        ({"data": 1}, "data must be bytes, or base64 text"),
    ],
)
def test_an_argument_of_another_type_is_a_failure(guest: RawGuest, change: dict[str, Any], message: str) -> None:
    assert guest.call("all-kinds", GIVEN | change) == {"error": message}


@pytest.mark.parametrize("text", ["-_8", "+/8=", "+/8", b"\xfb\xff"])
def test_bytes_may_be_base64_text(guest: RawGuest, text: str | bytes) -> None:
    assert guest.call("all-kinds", GIVEN | {"data": text})["ok"]["data"] == b"\xfb\xff"


def test_a_number_without_a_fraction_is_an_integer(guest: RawGuest) -> None:
    assert guest.call("all-kinds", GIVEN | {"small": -3.0})["ok"]["small"] == -3


def test_a_literal_is_a_default_of_any_type_of_numbers(artifact: Artifact, guest: RawGuest) -> None:
    told = [1, 2, 3, 2**40, 5, -6, -7, -8, -9, -10, 11.0, 12.0, 13, [14], None]
    assert guest.call("defaults", {}) == {"ok": told}
    tool = next(each for each in artifact.manifest.tools if each.name == "defaults")
    assert [each["default"] for each in tool.as_plain()["input_schema"]["properties"].values()] == told


def test_a_default_of_another_type_is_told_where_it_stands() -> None:
    source = 'rho::tool! {\n    /// F.\n    fn f(\n        x: u32 = "a",\n    ) {}\n}\nrho::tools![f];\n'
    with pytest.raises(BuildError, match=r"source\.rs:4:18: error: .*u32"):
        anyio.run(lambda: build(source, language="rust"))


def test_a_guest_without_tools_is_told_how_one_is_declared() -> None:
    with pytest.raises(BuildError, match=r"no tool is declared: rho::tools!\[greet\] names"):
        anyio.run(lambda: build("rho::tools![];\n", language="rust"))


def test_an_error_that_is_returned_is_a_failure_or_a_crash_with_the_line_of_the_question_mark(guest: RawGuest) -> None:
    assert guest.call("fails", {"how": "failed"}) == {"error": {"field": "city"}, "details": 1}
    raised = guest.call("fails", {"how": "returned"})["raised"]
    assert (raised["message"], raised["type"]) == ("invalid digit found in string", "ParseIntError")
    line = (GUESTS / "kinds.rs").read_text().splitlines().index("        Ok(text.parse()?)") + 1
    assert raised["trace"] == [f"source/kinds.rs:{line}:12"]


def test_what_is_no_plain_data_is_raised(guest: RawGuest) -> None:
    assert guest.call("not_plain", {"depth": 0})["raised"]["message"].endswith("an integer beyond 64 bits and a sign")
    assert guest.call("not_plain", {"depth": 64})["raised"]["message"].endswith("nested too deeply")
    assert "ok" in guest.call("not_plain", {"depth": 63})


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("index", "index out of bounds: the len is 1 but the index is 5"),
        ("overflow", "attempt to add with overflow"),
        ("panicked", "no city of 8 letters"),
        ("misused", "images go with ok only"),
    ],
)
def test_a_panic_is_a_line_of_the_log_with_the_authors_line_and_a_trap(guest: RawGuest, how: str, message: str) -> None:
    with pytest.raises(wasmtime.Trap):
        guest.call("fails", {"how": how})
    [(level, line)] = guest.log
    assert level == 40
    assert re.fullmatch(rf"panicked at source/kinds\.rs:\d+:\d+: {message}", line)


def test_memory_that_runs_out_traps(guest: RawGuest) -> None:
    with pytest.raises(wasmtime.Trap):
        guest.call("fails", {"how": "memory"})


def test_json_of_others_is_read_or_refused(guest: RawGuest) -> None:
    for text, meant in GOOD:
        answer = guest.call("reads", {"json": text})
        assert plain.encode(answer) == plain.encode({"ok": meant}), text
    for bad in BAD:
        if (json := bad.decode("utf-8", "ignore")).encode() == bad:
            assert guest.call("reads", {"json": json}) == {"error": "no JSON"}, json
    assert list(guest.call("reads", {"json": "[" * 64 + "]" * 64})) == ["raised"]  # The answer round it is deeper.


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=json_values, ascii_only=st.booleans())
def test_any_json_is_read_as_python_reads_it(guest: RawGuest, value: Any, ascii_only: bool) -> None:
    assert close(guest.call("reads", {"json": json.dumps(value, ensure_ascii=ascii_only)})["ok"], value)


def test_texts_are_made_parts_of_urls(guest: RawGuest) -> None:
    for text in URL_PARTS:
        assert guest.call("url_part", {"text": text}) == {"ok": quote(text, safe="")}


def test_a_tool_knows_of_its_call_and_logs(guest: RawGuest) -> None:
    answer = guest.call("facts", {}, context={"call_id": "c1", "values": {"unit": "m"}, "new": 1})
    assert answer == {"ok": {"id": "c1", "unit": "m"}}
    assert guest.log == [(20, "1 of 3 pages"), (30, "half 0.50")]


def test_a_megabyte_the_deepest_nesting_and_every_plane_come_back(guest: RawGuest) -> None:
    deep: Any = 0
    for _ in range(61):
        deep = [deep]
    planes = "".join(chr(plane * 0x10000 + 0x1234) for plane in range(17))
    for value in ("x" * 1_000_000, [0] * 90_000, deep, planes):
        assert guest.call("all-kinds", GIVEN | {"any": value})["ok"]["any"] == value


def test_the_readmes_guest_works_and_its_commands_do(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    [source] = re.findall(r"```rust\n(.*?)```", text, re.DOTALL)
    [commands] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    (tmp_path / "greet.rs").write_text(source, encoding="utf-8")
    debian, install, *run = commands.splitlines()
    assert debian.startswith("apt-get install rustc libstd-rust-dev-wasm32 lld ")
    assert install == "pip install 'rho-wasm[cli]'"
    for command in run:
        program = command.replace("rho-wasm", f"{sys.executable} -m rho_wasm.cli", 1)
        done = subprocess.run(program, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"name": "Ada", "greetings": ["hello", "hello"]}


def test_every_name_that_the_readme_tells_is_in_the_crate() -> None:
    text = README.read_text(encoding="utf-8")
    folder = resources.sdk("rust/src/lib.rs").parent
    sdk = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.rs"))
    named = set(re.findall(r"\brho::([A-Za-z_]+)\b", text))
    assert {n for n in named if not re.search(rf"\b(fn|struct|enum|macro_rules!) {n}\b", sdk)} == set()
