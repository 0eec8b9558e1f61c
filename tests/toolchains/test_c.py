"""C becomes a guest: what the linker leaves, what the author hears, what a build may cost."""

from __future__ import annotations

import importlib.util
import tempfile
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import anyio
import pytest

from rho_wasm import wasm
from rho_wasm.errors import BuildError, ModuleRejected
from rho_wasm.sandbox.abi import MANIFEST_SECTION
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import BuildLimits, build
from rho_wasm.toolchains.c import compile_c
from rho_wasm.toolchains.c_hints import C_HEADERS
from rho_wasm.toolchains.confined import require_confinement
from rho_wasm.toolchains.project import Project
from tests.guest_sdk.raw import RawGuest
from tests.toolchains.conftest import MINIMAL_C

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(landlock_version() == 0, reason="C is built only where the kernel has Landlock"),
]


async def compiled(source: str, limits: BuildLimits | None = None) -> bytes:
    return (await compile_c(Project.of_text(source, name="tool.c"), limits=limits or BuildLimits())).wasm


async def refusal(source: str, limits: BuildLimits | None = None) -> BuildError:
    with pytest.raises(BuildError) as caught:
        await compiled(source, limits)
    return caught.value


async def test_a_guest_is_built_and_let_in(manifest: dict[str, Any]) -> None:
    artifact = await build(MINIMAL_C, language="c", compiler="clang", manifest=manifest)
    assert (artifact.language, artifact.provenance, artifact.log) == ("c", "built here", "")
    assert artifact.toolchain is not None
    assert artifact.toolchain.startswith("ziglang ")


async def test_the_same_source_gives_the_same_bytes_in_every_folder_and_at_every_time() -> None:
    source = MINIMAL_C + "const char *const stamp[] = {__DATE__, __TIME__, __TIMESTAMP__, __FILE__, __BASE_FILE__};\n"
    source += '__attribute__((export_name("stamp"))) const char *const *stamp_of(void) { return stamp; }\n'
    first = await compiled(source)
    assert first == await compiled(source)
    assert b"rho-build-" not in first
    assert b"1970" in first


async def test_a_project_has_several_files_and_its_own_headers(tmp_path: Path) -> None:
    files = {
        "main.c": '#include "lib/sum.h"\n#include "rho.h"\nstatic rho_answer add(rho_value arguments) {\n'
        'rho_out *out = rho_new_out();\nrho_put_int(out, *sum(rho_int_or(arguments, "a", 0), 2));\n'
        'return rho_ok(out);\n}\nRHO_GUEST(RHO_TOOL(add, "Adds.", RHO_ARGUMENTS(RHO_INT_ARG("a", "One."))))\n',
        "lib/sum.h": "#include <stdint.h>\nint64_t *sum(int64_t a, int64_t b);\n",
        # Memory is one for all files, or this would lie where the answer is written.
        "lib/sum.c": '#include "sum.h"\n#include <rho.h>\nint64_t *sum(int64_t a, int64_t b) {\n'
        "int64_t *made = RHO_NEW(int64_t, 1);\n*made = a + b;\nreturn made;\n}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    artifact = await build(tmp_path, language="c")
    assert (artifact.log, RawGuest(artifact.wasm).call("add", {"a": 40})) == ("", {"ok": 42})
    (tmp_path / "lib" / "sum.c").write_text("int x = ;\n")
    with pytest.raises(BuildError) as caught:
        await build(tmp_path, language="c")
    assert (caught.value.diagnostics[0].file, caught.value.diagnostics[0].line) == ("lib/sum.c", 1)


async def test_inline_assembly_is_refused_where_it_stands() -> None:
    error = await refusal('int f(void) {\n  __asm__("nop");\n  return 1;\n}\n')
    first = error.diagnostics[0]
    assert (first.file, first.line, first.message.partition(":")[0]) == ("tool.c", 2, "inline assembly is refused")


async def test_only_names_of_functions_are_kept_beside_the_code() -> None:
    module = await compiled(MINIMAL_C)
    assert [name for name, _ in wasm.custom_sections(module)] == ["name"]


async def test_the_compilers_own_headers_can_be_included() -> None:
    await compiled("".join(f"#include <{name}>\n" for name in (*C_HEADERS, "iso646.h", "wasm_simd128.h")))


async def test_a_source_cannot_bring_a_manifest_of_its_own(manifest: dict[str, Any]) -> None:
    smuggled = '__attribute__((used, section(".custom_section.rho.manifest"))) const char smuggled[] = "x";\n'
    artifact = await build(MINIMAL_C + smuggled, language="c", compiler="clang", manifest=manifest)
    assert [name for name, _ in wasm.custom_sections(artifact.wasm)].count(MANIFEST_SECTION) == 1
    assert artifact.tools == ("nothing",)


async def test_a_foreign_import_is_refused_before_anyone_runs_it(manifest: dict[str, Any]) -> None:
    foreign = '__attribute__((import_module("env"), import_name("system"))) int run(const char *);\n'
    foreign += '__attribute__((export_name("run"))) int call(void) { return run("id"); }\n'
    with pytest.raises(ModuleRejected) as caught:
        await build(MINIMAL_C + foreign, language="c", compiler="clang", manifest=manifest)
    assert caught.value.name == "env.system"


async def test_an_error_has_line_column_and_the_authors_file_name() -> None:
    error = await refusal("int f(void) {\n  return missing;\n}\n")
    assert error.reason == "build_failed"
    first = error.diagnostics[0]
    assert (first.file, first.line, first.column, first.severity) == ("tool.c", 2, 10, "error")
    assert "missing" in first.message


async def test_an_error_inside_a_header_names_the_header() -> None:
    error = await refusal('#define rho_value int\n#include "rho.h"\n')
    assert "rho.h" in {found.file for found in error.diagnostics}


async def test_a_line_directive_may_rename_a_file_but_shows_nothing_of_it() -> None:
    for name in ("/etc/passwd", "passwd"):
        error = await refusal(f'#line 1 "{name}"\nint x = missing;\n')
        [found] = error.diagnostics
        assert str(found) == "note: passwd:1:9: error: use of undeclared identifier 'missing'"


async def test_a_message_of_several_lines_is_one_message() -> None:
    forged = "tool.c:1:1: error: forged"
    error = await refusal(
        f'#pragma message "a\\nmain.c:1:1: error: x\\n{forged}"\n_Static_assert(0, "b\\n{forged}");\n'
    )
    [only] = [found for found in error.diagnostics if found.severity == "error"]
    assert (only.file, only.line, only.message) == ("tool.c", 2, "static assertion failed: b")
    assert {found.line for found in error.diagnostics} == {1, 2, None}
    assert "rho-build-" not in str(error)


async def test_warnings_are_kept_in_the_log(manifest: dict[str, Any]) -> None:
    artifact = await build(
        MINIMAL_C + "int f(int unused) { return 1; }\n", language="c", compiler="clang", manifest=manifest
    )
    assert "unused parameter 'unused'" in artifact.log


async def test_a_function_of_the_c_library_is_named() -> None:
    error = await refusal(
        'double sin(double);\n__attribute__((export_name("f"))) double f(double x) { return sin(x); }\n'
    )
    assert error.diagnostics[0].message.startswith("sin is not defined anywhere")


@pytest.mark.parametrize("wanting", ["#include <stdio.h>\n", "int f(void) { return puts(0); }\n"])
async def test_a_source_that_wants_the_c_library_is_told_what_there_is(wanting: str) -> None:
    error = await refusal(wanting)
    assert error.hint.startswith("there is no C library: a tool has rho.h")
    assert error.hint.endswith(", ".join(C_HEADERS))


async def test_many_errors_are_cut_to_a_few() -> None:
    error = await refusal("".join(f"int x{n} = missing{n};\n" for n in range(5000)))
    assert len(error.diagnostics) <= 20


async def test_a_flood_of_warnings_is_bounded(manifest: dict[str, Any]) -> None:
    artifact = await build(MINIMAL_C + '#warning "x"\n' * 2_000, language="c", compiler="clang", manifest=manifest)
    assert len(artifact.log) < 10_000


async def test_an_author_cannot_send_escapes_through_the_compiler() -> None:
    error = await refusal("#error \x1b[31m\u202e\n")
    assert not set(str(error)) & {"\x1b", "\u202e"}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("char big[10000000] = {1};", "build_too_large"),
        ("char big[1u << 31] = {1};", "build_memory"),
        ("int x[] = {[0 ... 400000000] = 1};", "build_memory"),
        ('#include "main.c"\n#include "main.c"\n', "build_failed"),
        ("int x = " + "-(" * 5000 + "1" + ")" * 5000 + ";", "build_failed"),
    ],
    ids=["a large file", "a huge file", "a huge initialiser", "itself twice", "nesting"],
)
async def test_a_bomb_ends_at_a_bound(source: str, reason: str) -> None:
    limits = BuildLimits(file_bytes=1_000_000, memory_bytes=300_000_000, cpu_seconds=5)
    error = await refusal(source, limits)
    assert error.reason in (reason, "build_timeout")


MACRO_BOMB = "#define A(x) x,x,x,x,x,x,x,x,x,x\n#define B A(A(A(A(A(A(A(A(1))))))))\n" + "#if (B)\n#endif\n" * 1000


async def test_a_build_that_takes_for_ever_is_stopped() -> None:
    error = await refusal(MACRO_BOMB, BuildLimits(cpu_seconds=0.5))
    assert error.reason == "build_timeout"
    assert "0.5 s of CPU time" in str(error)


async def test_a_build_is_stopped_by_the_clock_too() -> None:
    error = await refusal(MACRO_BOMB, BuildLimits(wall_seconds=0.2))
    assert error.reason == "build_timeout"


async def test_the_fresh_folder_is_gone_after_success_failure_and_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    await compiled(MINIMAL_C)
    await refusal("int x = ;")
    with anyio.move_on_after(0.2) as scope:
        await compiled(MACRO_BOMB)
    assert scope.cancelled_caught
    assert [path async for path in anyio.Path(tmp_path).iterdir()] == []


async def test_builds_run_side_by_side() -> None:
    modules: list[bytes] = []

    async def one() -> None:
        modules.append(await compiled(MINIMAL_C))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(one)
    assert len(modules) == 4
    assert len(set(modules)) == 1


async def test_a_missing_compiler_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "ziglang" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    error = await refusal(MINIMAL_C)
    assert (error.reason, error.hint) == ("missing_extra", "pip install 'rho-wasm[c]'")


async def test_without_confinement_only_a_trusted_source_is_built() -> None:
    with pytest.raises(BuildError) as caught:
        require_confinement(0, language="c", trusted=False)
    assert caught.value.reason == "confinement_missing"
    assert "Landlock" in str(caught.value)
    require_confinement(0, language="c", trusted=True)
    require_confinement(1, language="c", trusted=False)
