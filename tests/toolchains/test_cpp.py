"""C++ becomes a guest: tools of structs and functions, constructors that ran at the build, errors with their place."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import anyio
import pytest
import wasmtime

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import BuildLimits, build
from rho_wasm.toolchains.binary import FUNCTION
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.cpp import compile_cpp
from rho_wasm.toolchains.project import Project
from tests.guest_sdk.raw import RawGuest

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(landlock_version() == 0, reason="C++ is built only where the kernel has Landlock"),
]


@pytest.fixture
def anyio_backend() -> str:
    """A compiler does not hang on who waits for it, and its builds take seconds."""
    return "asyncio"


BARE = """
#include "rho.h"
static int computed() { int sum = 0; for (int n = 1; n <= 100; n++) sum += n; return sum; }
struct Table {
    int *numbers = RHO_NEW(int, 64); /* memory that grows: no optimiser knows beforehand what comes of it */
    Table() { for (int n = 0; n < 64; n++) numbers[n] = computed(); }
};
static Table table;
static rho_answer get(rho_value arguments) {
    rho_out *out = rho_new_out();
    return rho_put_int(out, table.numbers[rho_uint_or(arguments, "n", 63) & 63]), rho_ok(out);
}
static const rho_tool tools[] = {{"get", get}};
extern "C" void __wasm_call_ctors();
RHO_C void _initialize() RHO_EXPORT("_initialize");
RHO_C void *rho_alloc(size_t size) RHO_EXPORT("rho_alloc");
RHO_C uint64_t rho_call(const void *request, size_t size) RHO_EXPORT("rho_call");
void _initialize() { __wasm_call_ctors(); }
void *rho_alloc(size_t size) { return rho_try_new(size); }
uint64_t rho_call(const void *request, size_t size) { return rho__answer_call(tools, 1, sizeof *tools, request, size); }
"""
"""Over rho.h alone, which takes a tenth of the time of the standard library's headers."""
MANIFEST = {"tools": [{"name": "get", "description": "Gets.", "input_schema": {"type": "object"}}]}


async def test_constructors_run_when_it_is_built_and_not_at_each_call() -> None:
    artifact = await build(BARE, language="cpp", manifest=MANIFEST, trusted=True)
    assert read_module(artifact.wasm).exported("_initialize", FUNCTION) is None
    assert (5050).to_bytes(4, "little") * 63 in artifact.wasm
    assert RawGuest(artifact.wasm).call("get", {}) == {"ok": 5050}


@pytest.mark.slow
async def test_without_a_snapshot_they_run_at_each_call() -> None:
    artifact = await build(BARE, language="cpp", manifest=MANIFEST, snapshot=False, trusted=True)
    assert read_module(artifact.wasm).exported("_initialize", FUNCTION) is not None
    assert (5050).to_bytes(4, "little") * 63 not in artifact.wasm


@pytest.mark.slow
async def test_the_same_source_gives_the_same_bytes_whatever_its_file_is_called() -> None:
    first = await compile_cpp(Project.of_text(BARE, name="a.cpp"), limits=BuildLimits())
    assert first.wasm == (await compile_cpp(Project.of_text(BARE, name="other.cc"), limits=BuildLimits())).wasm
    assert first.log == ""


async def test_an_error_has_its_file_line_and_column() -> None:
    with pytest.raises(BuildError) as caught:
        await build('#include "rho.h"\nint x = ;\n', language="cpp", manifest=MANIFEST)
    [found] = caught.value.diagnostics
    assert (found.file, found.line, found.column) == ("source.cpp", 2, 9)


@pytest.mark.slow
async def test_what_is_in_no_header_is_named() -> None:
    with pytest.raises(BuildError) as caught:
        await build(BARE + 'int puts(const char *);\nint f = puts("x");\n', language="cpp", manifest=MANIFEST)
    assert "puts" in str(caught.value)
    assert "is not defined anywhere" in str(caught.value)
    assert "of which nothing is linked" in caught.value.hint


@pytest.mark.slow
async def test_a_project_has_several_files_and_its_own_headers() -> None:
    files = {
        "main.cpp": BARE.replace("static int computed()", '#include "lib/sum.hpp"\nstatic int unused()'),
        "lib/sum.hpp": '#include "rho.h"\nint computed();\n',
        "lib/sum.cc": '#include "sum.hpp"\nint computed() { return *RHO_NEW(int, 1) + 77; }\n',
    }
    project = Project(main="main.cpp", files=MappingProxyType(files), name="main.cpp")
    built = await compile_cpp(project, limits=BuildLimits())
    assert built.wasm.startswith(b"\0asm")
    assert b"unused" in built.log.encode()


TOOLS = """
#include "rho.hpp"
#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

struct Part { std::string name; std::optional<double> weight; std::vector<std::uint8_t> data;
    static constexpr auto fields = rho::fields(rho::field(&Part::name, "name"), rho::field(&Part::weight, "weight"),
        rho::field(&Part::data, "data").optional()); };
struct All { std::vector<Part> parts; std::map<std::string, int> counts; std::int8_t small = 1; bool yes = false;
    std::string_view kind = "a"; rho::Value any;
    static constexpr auto fields = rho::fields(rho::field(&All::parts, "parts", "Some.").min(1).max(9),
        rho::field(&All::counts, "counts"), rho::field(&All::small, "small").optional(),
        rho::field(&All::yes, "yes").optional(), rho::field(&All::kind, "kind").optional().one_of("a", "b"),
        rho::field(&All::any, "any").optional()); };
static All back(const All &in) { return in; }

struct Size { std::uint32_t count; static constexpr auto fields = rho::fields(rho::field(&Size::count, "count")); };
static std::uint64_t churn(const Size &in) {
    std::unordered_map<std::string, std::unique_ptr<std::string>> kept;
    std::uint64_t sum = 0;
    for (std::uint32_t n = 0; n < in.count; n++) {
        std::string text(1 + n % 4096, 'x');
        sum += text.size();
        kept[std::string(1 + n % 7, 'k')] = std::make_unique<std::string>(text);
    }
    return sum + kept.size();
}
static int outside(const Size &in) { std::vector<int> few(3); return few[in.count]; }
static std::vector<rho::Text> logged() { rho::warning("careful"); return {"a", "b"}; }
static rho::Answer parts() {
    rho::Out out;
    {
        rho::Map map = out.map();
        map.set("n", 1).set("json", rho::Json{"[1, 'two', {\\"three\\": null}]"});
        { rho::List list = map.list("list"); list.add(1).add("two"); rho::Map inner = list.map(); inner.set("x", 1.5); }
        map.set("end", true);
    }
    return rho::ok(out);
}
RHO_GUEST(rho::tool("back", "Back.", back), rho::tool("churn", "Churns.", churn).timeout_ms(900).idempotent(),
    rho::tool("outside", "Outside.", outside).destructive(), rho::tool("logged", "Logs.", logged).read_only(),
    rho::tool("parts", "Parts.", parts).metadata(rho::Json{"{'a': 1}"}),
    rho::tool("raw", "Raw.", [](rho::Value in) { return in.get_or("n", std::int64_t{-1}); }).capability("kv.get"))
"""


@pytest.fixture(scope="module")
def tools() -> Artifact:
    return anyio.run(lambda: build(TOOLS, language="cpp", trusted=True))


@pytest.mark.slow
async def test_structs_say_what_a_tool_takes(tools: Artifact) -> None:
    back, churn, outside, logged, parts, raw = tools.manifest.tools
    part = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "weight": {"type": "number"},
            "data": {"type": "string", "contentEncoding": "base64"},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    expected = {
        "type": "object",
        "properties": {
            "parts": {"type": "array", "items": part, "description": "Some.", "minItems": 1, "maxItems": 9},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "small": {"type": "integer", "minimum": -128, "maximum": 127},
            "yes": {"type": "boolean"},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "any": {},
        },
        "required": ["parts", "counts"],
        "additionalProperties": False,
    }
    assert back.input_schema == back.output_schema == expected
    assert (churn.timeout_ms, churn.idempotent, outside.destructive, logged.read_only) == (900, True, True, True)
    assert logged.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert (parts.metadata, raw.input_schema) == ({"a": 1}, {"type": "object"})
    assert list(tools.manifest.capabilities) == ["kv.get"]
    assert tools.log == ""


@pytest.mark.slow
async def test_arguments_become_structs_and_structs_answers(tools: Artifact) -> None:
    guest = RawGuest(tools.wasm)
    part = {"name": "bolt", "weight": 1.5, "data": b"\x00\xff"}
    full = {"parts": [part], "counts": {"a": 1}, "small": -128, "yes": True, "kind": "b", "any": [1, {"x": None}]}
    assert guest.call("back", full) == {"ok": full}
    for text in ("AP8=", "AP8"):
        assert guest.call("back", full | {"parts": [part | {"data": text}]}) == {"ok": full}
    least = {"parts": [{"name": "nut", "data": b""}], "counts": {}, "small": 1, "yes": False, "kind": "a", "any": None}
    assert guest.call("back", {"parts": [{"name": "nut"}], "counts": {}}) == {"ok": least}
    wrongs: dict[str, Any] = {
        "small": 128,
        "yes": 1,
        "parts": [{"name": "nut", "data": "A"}],
        "counts": {"a": 1.5},
        "kind": b"a",
    }
    for name, value in wrongs.items():
        [reason] = guest.call("back", {"parts": [], "counts": {}} | {name: value}).values()
        assert reason == f"{name} is missing, or is no value that fits"


@pytest.mark.slow
async def test_memory_that_is_freed_is_used_again(tools: Artifact) -> None:
    """All of it together would be 400 MB, of 64 that a call has."""
    guest = RawGuest(tools.wasm)
    assert guest.call("churn", {"count": 200_000})["ok"] > 400_000_000


@pytest.mark.slow
async def test_an_index_out_of_range_ends_the_call_with_a_line_in_its_log(tools: Artifact) -> None:
    guest = RawGuest(tools.wasm)
    with pytest.raises(wasmtime.Trap):
        guest.call("outside", {"count": 3})
    [(level, line)] = guest.log
    assert level == 40
    assert line.endswith("vector[] index out of bounds")


@pytest.mark.slow
async def test_json_that_is_wrong_is_named_by_where_it_is_declared() -> None:
    tool = 'RHO_GUEST(rho::tool("one", "One.", [] { return 1; }).example("{}", "{\'ok\': 1}").example("{bad", "{}"))\n'
    with pytest.raises(BuildError) as caught:
        await build(f'#include "rho.hpp"\n{tool}', language="cpp")
    assert "one, arguments of example 2: JSON: a key is missing, at byte 2: bad" in str(caught.value)


@pytest.mark.slow
async def test_values_are_written_part_by_part(tools: Artifact) -> None:
    guest = RawGuest(tools.wasm)
    parts = {"n": 1, "json": [1, "two", {"three": None}], "list": [1, "two", {"x": 1.5}], "end": True}
    assert guest.call("parts", {}) == {"ok": parts}
    assert guest.call("logged", {}) == {"ok": ["a", "b"]}
    assert guest.log == [(30, "careful")]
    assert (guest.call("raw", {"n": 3}), guest.call("raw", {"n": "3"})) == ({"ok": 3}, {"ok": -1})
