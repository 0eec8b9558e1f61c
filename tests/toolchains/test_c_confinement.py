"""A hostile C source reads nothing of the host, cannot tell what is there, and hears nothing of it in a message.

Each wall is tested by itself too: with the fixture ``assembler`` the compiler takes inline assembly again, and what is
left is the kernel's wall and what lies inside it.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from rho_wasm.errors import BuildError
from rho_wasm.sandbox.child import Confinement, run_child
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import BuildLimits, c, c_clang
from rho_wasm.toolchains.c import compile_c
from rho_wasm.toolchains.project import Project
from tests.toolchains.conftest import MINIMAL_C

pytestmark = [
    pytest.mark.slow,
    pytest.mark.anyio,
    pytest.mark.skipif(landlock_version() == 0, reason="C is built only where the kernel has Landlock"),
]


@pytest.fixture
def anyio_backend() -> str:
    """What a compiler may read does not hang on who waits for it, and there are many builds here."""
    return "asyncio"


TINY = "int something;\n"
SECRET = "int secret_of_the_host = 42;"

ESCAPES = {
    "include": '#include "{path}"\n',
    "include in angle brackets": "#include <{path}>\n",
    "include by a macro": '#define WHICH "{path}"\n#include WHICH\n',
    "include_next": '#include_next "{path}"\n',
    "import": '#import "{path}"\n',
    "embed": 'const char data[] = {\n#embed "{path}"\n};\n',
    "embed with a limit": 'const char data[] = {\n#embed "{path}" limit(1) suffix(,0) if_empty(0)\n};\n',
    "dependency": '#pragma GCC dependency "{path}"\n',
    "module": '#pragma clang module import "{path}"\n',
}
ASSEMBLER_ESCAPES = {
    "incbin": '__asm__(".incbin \\"{path}\\"");\n',
    "include in assembler": '__asm__(".include \\"{path}\\"");\n',
}
HARMLESS = {
    "comment": '#pragma comment(lib, "{path}")\n',
    "linker option": '#pragma comment(linker, "{path}")\n',
    "pragma include alias": '#pragma include_alias("rho.h", "{path}")\n',
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.h"
    path.write_text(SECRET + "\n")
    return path


@pytest.fixture
def assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler as it would be if it could be made to take inline assembly."""
    monkeypatch.setattr(c_clang, "CLANG", tuple(flag for flag in c_clang.CLANG if flag != "-fno-gnu-inline-asm"))


async def outcome(source: str) -> str:
    """What the author of ``source`` hears, or the module as text."""
    try:
        built = await compile_c(Project.of_text(source, name="tool.c"), limits=BuildLimits())
    except BuildError as error:
        return str(error)
    return built.wasm.decode("latin-1")


@pytest.mark.parametrize("way", ESCAPES)
async def test_a_file_of_the_host_cannot_be_read(secret: Path, way: str) -> None:
    unread(await outcome(TINY + ESCAPES[way].replace("{path}", str(secret))))


@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize("way", ASSEMBLER_ESCAPES)
async def test_a_file_of_the_host_cannot_be_read_by_an_assembler(secret: Path, way: str) -> None:
    unread(await outcome(TINY + ASSEMBLER_ESCAPES[way].replace("{path}", str(secret))))


def unread(said: str) -> None:
    assert said.startswith("c: ")
    assert "secret_of_the_host" not in said
    assert "42" not in said


@pytest.mark.parametrize("way", ESCAPES | HARMLESS)
async def test_a_file_that_is_there_sounds_like_one_that_is_not(secret: Path, way: str) -> None:
    source = TINY + (ESCAPES | HARMLESS)[way]
    absent = secret.with_name("absent.h")
    there = (await outcome(source.replace("{path}", str(secret)))).replace(secret.name, absent.name)
    assert there == await outcome(source.replace("{path}", str(absent)))


INLINE = {
    "at file scope": '__asm__("nop");',
    "in a function": 'void f(void) { __asm__ volatile("nop"); }',
    "with operands": 'int f(void) { int x; asm("local.get 0" : "=r"(x)); return x; }',
    "with labels": 'void f(void) { asm goto("nop" : : : : out); out: return; }',
    "by a macro": '#define A(x) __asm__(x)\nA("nop");',
    "as a system header": '#pragma GCC system_header\n__asm__("nop");',
    "with its warnings off": '#pragma clang diagnostic ignored "-Weverything"\n__asm__("nop");',
    "in a function that nobody calls": 'static inline void f(void) { asm("nop"); }',
}


@pytest.mark.parametrize("way", INLINE)
async def test_inline_assembly_is_refused_wherever_it_stands(way: str) -> None:
    assert "inline assembly is refused" in await outcome(INLINE[way] + "\n")


@pytest.mark.parametrize(
    "source",
    [
        "void f(void) { __asm { nop } }",
        "void f(void) { __asm nop }",
        'register int x __asm__("a\\n.incbin \\".overlay.json\\"");',
        '__asm__(u8".incbin \\".overlay.json\\"");',
    ],
)
async def test_other_forms_of_assembly_are_no_c_here(source: str) -> None:
    assert "error: " in await outcome(source + "\n")


async def test_names_of_symbols_and_sections_are_no_assembler_text() -> None:
    incbin = '"x\\n.incbin \\".overlay.json\\"\\n"'
    named = f"int named(void) __asm__({incbin});\n"
    named += f"__attribute__((used, section({incbin}))) int placed = 1;\nint named(void) {{ return placed; }}\n"
    said = await outcome(MINIMAL_C + named)
    assert said.startswith("\0asm")
    assert "redirect" not in said


@pytest.mark.parametrize("probe", ["__has_include", "__has_include_next", "__has_embed"])
async def test_a_probe_finds_nothing_and_tells_nothing(secret: Path, probe: str) -> None:
    places = [str(secret), "/etc/passwd", "/etc", "/", "/dev/stdin", "/dev/zero", "/proc/self/environ", ".overlay.json"]
    lines = "".join(f'#if {probe}("{place}")\n#error found\n#endif\n' for place in places)
    said = await outcome(TINY + lines)
    assert said.startswith("\0asm")


async def test_a_probe_finds_what_may_be_included() -> None:
    source = '#if !__has_include("rho.h") || !__has_include(<stdint.h>) || __has_include(<stdio.h>)\n#error\n#endif\n'
    assert (await outcome(source)).startswith("\0asm")


UPWARDS = ["../" * depth + "etc/passwd" for depth in (1, 2, 5, 20)]


async def test_going_up_leads_nowhere() -> None:
    for way in UPWARDS:
        assert "file not found" in await outcome(f'#include "{way}"\n')


SPECIAL = [
    "/proc/self/environ",
    "/proc/self/cmdline",
    "/proc/self/maps",
    "/proc/self/mem",
    "/proc/self/root/etc/passwd",
    "/proc/self/cwd/../../etc/passwd",
    "/proc/1/environ",
    "/dev/zero",
    "/dev/urandom",
    "/sys/kernel/notes",
]


@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize("paths", [SPECIAL, UPWARDS], ids=["special", "upwards"])
async def test_an_assembler_finds_neither_special_files_nor_the_way_up(paths: list[str]) -> None:
    said = await outcome(TINY + "".join(f'__asm__(".incbin \\"{path}\\"");\n' for path in paths))
    assert said.count("Could not find incbin file") == len(paths)


@pytest.mark.usefixtures("assembler")
async def test_its_own_standard_input_is_empty_and_its_own_output_a_wait_that_ends() -> None:
    """Landlock lets a process open the pipes again that it already has. They lead to nobody but this host."""
    incbin = TINY + '__asm__(".incbin \\"{path}\\"");\n'
    assert (await outcome(incbin.replace("{path}", "/dev/stdin"))).startswith("\0asm")
    with pytest.raises(BuildError) as caught:
        await compile_c(
            Project.of_text(incbin.replace("{path}", "/dev/fd/1"), name="tool.c"), limits=BuildLimits(wall_seconds=0.5)
        )
    assert caught.value.reason == "build_timeout"


async def test_what_lies_beside_the_source_is_not_there(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "link.h").symlink_to("/etc/passwd")
    (tmp_path / "tool.c").write_text(TINY + '#include "link.h"\n')
    said = await outcome((tmp_path / "tool.c").read_text())
    assert "'link.h' file not found" in said


@pytest.mark.parametrize("name", ["@response", "-fplugin=x.so", "--help", "-", "a b.c", "../../x.c", "x\n.c", ""])
async def test_a_files_name_is_never_an_argument(name: str) -> None:
    """The source is always compiled under one name, so a name is for messages only, and inert there."""
    with pytest.raises(BuildError) as caught:
        await compile_c(Project.of_text("int x = ;", name=name), limits=BuildLimits())
    [diagnostic] = caught.value.diagnostics
    assert "expected expression" in diagnostic.message
    assert "\n" not in str(diagnostic)


async def test_a_response_file_inside_the_source_is_text() -> None:
    assert "error" in await outcome("@/etc/passwd\n")


async def test_the_environment_of_the_host_is_not_seen(monkeypatch: pytest.MonkeyPatch, secret: Path) -> None:
    for variable in ("CPATH", "C_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "ZIG_LIB_DIR", "COMPILER_PATH"):
        monkeypatch.setenv(variable, f"+-include{secret}" if "OVERRIDE" in variable else str(secret.parent))
    assert "file not found" in await outcome(TINY + '#include "secret.h"\n')
    assert (await outcome(TINY)).startswith("\0asm")


async def test_a_child_so_confined_opens_nothing_else(tmp_path: Path, secret: Path) -> None:
    """The wall itself, without a compiler: what is named can be opened, the rest cannot."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    probe = (
        f"read line < {secret} && echo read\n"
        f"echo x > {tmp_path / 'out'} && echo wrote\n"
        f"echo x > {allowed / 'in'} && echo may\n"
    )
    found = await run_child(
        ["/bin/sh", "-c", probe],
        confinement=Confinement(read=("/bin", "/lib", "/lib64", "/usr"), write=(str(allowed),)),
        wall_seconds=60,
        max_output_bytes=1000,
    )
    assert found.stdout == b"may\n"
    assert not (tmp_path / "out").exists()


MARKS = ("folder-of-the-build", "place-of-the-package")
STAMPS = (
    '#line 7 "own/name.c"\nconst char renamed[] = __FILE__;\n#line 9 "main.c"\n'
    "const char *const stamps[] = {__FILE__, __BASE_FILE__, __FILE_NAME__, __builtin_FILE(), __VERSION__,\n"
    "    __DATE__, __TIME__, __TIMESTAMP__, renamed};\n"
    '_Pragma("clang diagnostic push") _Pragma("GCC visibility push(default)")\n'
    '__attribute__((export_name("stamps"))) const char *const *all(void) { return stamps; }\n'
)


def somewhere(monkeypatch: pytest.MonkeyPatch, place: Path) -> c_clang.Compiler:
    """Builds go on below ``place`` from now on, with the compiler there: both under names that nothing else has."""
    folder, package = (place / mark for mark in MARKS)
    folder.mkdir(parents=True)
    package.mkdir()
    real = c_clang.find_compiler("c")
    (package / "zig").symlink_to(real.program)
    (package / "include").symlink_to(real.headers)
    moved = replace(real, program=package / "zig", headers=package / "include")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(c, "find_compiler", lambda language: moved)
    return moved


def of_the_host(data: bytes) -> list[str]:
    """What ``data`` tells of where the compiler, the builds and the user live."""
    real = c_clang.find_compiler("c").program.resolve().parent
    known = [*MARKS, "rho-build-", str(real), str(Path.home())]
    return [name for name in known if len(name) > 1 and name.encode() in data]


async def test_a_module_tells_nothing_of_where_and_when_it_was_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built = []
    for place in ("here", "elsewhere"):
        with monkeypatch.context() as patch:
            somewhere(patch, tmp_path / place)
            module = await compile_c(Project.of_text(MINIMAL_C + STAMPS, name=f"{place}.c"), limits=BuildLimits())
        assert of_the_host(module.wasm) == []
        built.append(module.wasm)
    assert built[0] == built[1]
    assert b"own/name.c" in built[0]
    assert b"Thu Jan  1 00:00:00 1970" in built[0]


@pytest.mark.usefixtures("assembler")
async def test_no_file_beside_the_source_tells_anything_of_the_host_even_to_an_assembler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = somewhere(monkeypatch, tmp_path / "here")
    example = tmp_path / "example"
    example.mkdir()
    project = Project.of_text(TINY, name="tool.c")
    c_clang.Clang(project, c._DIALECT, compiler, folder=example, limits=BuildLimits(), trusted=False).prepare()
    files = sorted(path for path in example.iterdir() if path.is_file())
    assert {path.name for path in files} >= {"main.c", "rho.h"}
    for path in files:
        assert of_the_host(path.read_bytes()) == []
        section = (
            f'.section .data.leak,\\"\\",@\\n.globl leak\\nleak:\\n.incbin \\"{path.name}\\"\\n.size leak, .-leak\\n'
        )
        source = MINIMAL_C + f'__asm__("{section}");\nextern const char leak[];\n'
        source += '__attribute__((export_name("get"))) const char *get(void) { return leak; }\n'
        said = await outcome(source)
        assert said.startswith("\0asm")
        assert of_the_host(said.encode("latin-1")) == []


def test_the_compilers_headers_tell_nothing_of_the_host() -> None:
    for path in c_clang.find_compiler("c").headers.rglob("*.h"):
        assert of_the_host(path.read_bytes()) == []


MODULE = """#pragma clang module build x
module x {}
#pragma clang module contents
#pragma clang module begin x
int y;
#pragma clang module end
#pragma clang module endbuild
#pragma clang module import x
"""


async def test_a_module_inside_the_source_is_refused_without_a_path() -> None:
    said = await outcome(MODULE)
    assert "module 'x' not found" in said
    assert "/" not in said


@pytest.mark.parametrize(
    "command",
    ["sloc_usage", "dump stamps", "diag_mapping", "macro __FILE__", "crash", "parser_crash", "overflow_stack"],
)
async def test_commands_to_the_compilers_own_debugging_tell_nothing_of_the_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    somewhere(monkeypatch, tmp_path)
    noise = '#pragma clang diagnostic warning "-Weverything"\n'
    try:
        built = await compile_c(
            Project.of_text(MINIMAL_C + noise + f"#pragma clang __debug {command}\n" + "int x;\n", name="tool.c"),
            limits=BuildLimits(cpu_seconds=1),
        )
    except BuildError as error:
        said = str(error)
    else:
        said = built.log
    assert of_the_host(said.encode()) == []
