"""Zig builds are the same everywhere, tell where a source is wrong, and give a hostile one nothing of the host."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from rho_wasm.errors import BuildError
from rho_wasm.toolchains import build
from rho_wasm.toolchains.kept import kept_folder
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.pipeline import missing
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.zig import compile_zig
from tests.guest_sdk.raw import RawGuest

pytestmark = pytest.mark.anyio

HEAD = 'const std = @import("std");\nconst rho = @import("rho");\n'
TOOLS = 'fn nothing() void {}\npub const tools = .{rho.tool("nothing", nothing, .{ .description = "Of a test." })};\n'
QUICK = BuildLimits(native_cpu_seconds=4)
ENDS = {"build_timeout", "build_memory", "build_failed", "build_crashed"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def project(main: str, **others: str) -> Project:
    files = {"main.zig": HEAD + main + TOOLS} | {f"{name}.zig": text for name, text in others.items()}
    return Project(main="main.zig", files=MappingProxyType(files), name="main.zig")


async def refused(main: str, *, limits: BuildLimits | None = None, **others: str) -> BuildError:
    with pytest.raises(BuildError) as caught:
        await compile_zig(project(main, **others), limits=limits or BuildLimits())
    return caught.value


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    error = missing("zig")
    assert error is not None
    assert (error.reason, error.hint) == ("missing_extra", "pip install 'rho-wasm[zig]'")


@pytest.mark.slow
async def test_a_folder_becomes_one_module_the_same_everywhere(tmp_path: Path) -> None:
    sources: Mapping[str, str] = {
        "main.zig": HEAD
        + 'const part = @import("parts/part.zig");\nconst words = @embedFile("words.txt");\n'
        + "fn told() []const u8 { return comptime part.text ++ words; }\n"
        + 'pub const tools = .{rho.tool("told", told, .{ .description = "Of a test." })};\n',
        "parts/part.zig": 'pub const text = "from a part, ";\n',
        "words.txt": "and from a text",
    }
    built = []
    for place in ("here", "elsewhere"):
        for name, text in sources.items():
            (tmp_path / place / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / place / name).write_text(text)
        built.append((await build(tmp_path / place)).wasm)
    assert built[0] == built[1]
    assert b"rho-build-" not in built[0]
    assert str(Path.home()).encode() not in built[0]
    assert RawGuest(built[0]).call("told", {}) == {"ok": "from a part, and from a text"}


@pytest.mark.slow
async def test_errors_have_file_line_and_column() -> None:
    error = await refused(
        'const part = @import("part.zig");\ncomptime { _ = part.number; }\n', part="\npub const number: u8 = 300;\n"
    )
    [first, *_] = error.diagnostics
    assert error.reason == "build_failed"
    assert (first.file, first.line, first.column) == ("part.zig", 2, 24)
    assert "cannot represent integer value '300'" in first.message
    error = await refused('comptime {\n    @compileError("not /home/user/secret\\x1b[31m");\n}\n')
    [first, *_] = error.diagnostics
    assert (first.file, first.line, first.column) == ("main.zig", 4, 5)
    assert "\x1b" not in str(error)
    assert "/home" not in str(error)


@pytest.mark.slow
async def test_what_a_source_writes_is_never_a_message_of_its_own() -> None:
    forged = "source/main.zig:99:1: error: forged"
    for text in (
        f'comptime {{ @compileError("a\\n{forged}"); }}\n',
        f"{forged} const a = ;\n",
        f'comptime {{ _ = @"\\n{forged}"(); }}\n'
        f'fn @"\\n{forged}"() u8 {{ @compileLog(@"b\\n{forged}"); return 300; }}\n'
        f'const @"b\\n{forged}" = struct {{}};\n',
    ):
        assert 99 not in [each.line for each in (await refused(text)).diagnostics]


@pytest.mark.slow
async def test_nothing_outside_the_project_is_embedded() -> None:
    paths = ["/etc/passwd", "../../../../../../etc/passwd", "../lib/std/std.zig", "/proc/self/environ", "../cache/z"]
    uses = "".join(f'comptime {{ _ = @embedFile("{path}"); }}\n' for path in paths)
    told = {each.line: each.message for each in (await refused(uses)).diagnostics}
    assert set(told) == {3, 4, 5, 6, 7}
    assert all("embed of file outside package path" in message for message in told.values())


@pytest.mark.slow
async def test_nothing_outside_the_project_is_imported_and_there_is_no_c() -> None:
    error = await refused('comptime { _ = @import("../lib/compiler_rt.zig"); }\n')
    assert "outside module path" in str(error)
    error = await refused('const c = @cImport(@cInclude("stdlib.h"));\ncomptime { _ = c; }\n')
    assert "invalid builtin function: '@cImport'" in str(error)


@pytest.mark.slow
async def test_the_assembler_finds_no_file_and_cannot_tell_one_that_is_there() -> None:
    for path in ("/etc/passwd", "/etc/not-there"):
        error = await refused(
            f'export fn f() void {{ asm volatile (".incbin \\"{path}\\""); }}\ncomptime {{ _ = &f; }}\n'
        )
        assert f"Could not find incbin file '{Path(path).name}'" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "reasons"),
    [
        ("comptime { var n: u64 = 0; while (true) n +%= 1; }\n", {"build_failed"}),
        ("comptime { @setEvalBranchQuota(4_000_000_000); while (true) {} }\n", {"build_timeout"}),
        ("fn f(n: u64) u64 { @setEvalBranchQuota(4_000_000_000); return f(n + 1); }\ncomptime { _ = f(0); }\n", ENDS),
        ('comptime { var s: []const u8 = "x"; while (true) s = s ++ s; }\n', ENDS),
        ("export const big: [40 << 20]u8 = @splat(1);\ncomptime { _ = &big; }\n", {"build_too_large", "build_timeout"}),
    ],
    ids=["loop", "loop without a quota", "recursion", "memory", "disk"],
)  # fmt: skip
async def test_what_never_ends_at_compile_time_ends(source: str, reasons: set[str]) -> None:
    limits = QUICK if "build_timeout" in reasons else BuildLimits()
    assert (await refused(source, limits=limits)).reason in reasons


@pytest.mark.slow
async def test_a_name_is_never_an_argument_and_a_response_file_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIG_LIB_DIR", "/nowhere")
    for name in ("@/etc/passwd", "--help"):
        with pytest.raises(BuildError) as caught:
            await compile_zig(Project.of_text("@/etc/passwd\n", name=name), limits=BuildLimits())
        [first, *_] = caught.value.diagnostics
        assert (first.line, "root:" in str(caught.value)) == (1, False)


@pytest.mark.slow
async def test_no_build_leaves_anything_for_the_next() -> None:
    def kept() -> dict[Path, tuple[int, int]]:
        files = (path for path in kept_folder("x").parent.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in files if "ziglang" in str(path)}

    await compile_zig(project(""), limits=BuildLimits())
    before = kept()
    await compile_zig(project("fn other() void {}\ncomptime { _ = &other; }\n"), limits=BuildLimits())
    assert before
    assert kept() == before
