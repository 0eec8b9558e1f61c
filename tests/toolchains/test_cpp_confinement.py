"""A hostile C++ source reads nothing of the host, behind the walls of C; what only C++ can do ends in its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from rho_wasm.errors import BuildError
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import BuildLimits, c_clang
from rho_wasm.toolchains.cpp import compile_cpp
from rho_wasm.toolchains.project import Project
from tests.toolchains.test_c_confinement import ESCAPES, HARMLESS, INLINE, SPECIAL, TINY, UPWARDS, of_the_host, secret

__all__ = ["secret"]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(landlock_version() == 0, reason="C++ is built only where the kernel has Landlock"),
]


@pytest.fixture
def anyio_backend() -> str:
    """What a compiler may read does not hang on who waits for it, and there are many builds here."""
    return "asyncio"


async def outcome(source: str, limits: BuildLimits | None = None) -> str:
    """What the author of ``source`` hears, or the module as text."""
    try:
        built = await compile_cpp(Project.of_text(source, name="tool.cpp"), limits=limits or BuildLimits())
    except BuildError as error:
        return f"{error.reason} {error}"
    return built.wasm.decode("latin-1")


CPP_ESCAPES = {
    "import": 'import "{path}";\n',
    "header unit": 'module;\n#include "{path}"\nexport module x;\n',
    "module": "import secret;\n",
    "embed in a constant": 'constexpr char data[] = {\n#embed "{path}"\n};\nstatic_assert(data[0] == 105);\n',
}


@pytest.mark.slow
@pytest.mark.parametrize("way", [*ESCAPES, *CPP_ESCAPES])
async def test_a_file_of_the_host_cannot_be_read(secret: Path, way: str) -> None:
    said = await outcome(TINY + (ESCAPES | CPP_ESCAPES)[way].replace("{path}", str(secret)))
    assert said.startswith("build_failed ")
    assert "secret_of_the_host" not in said
    assert str(secret.parent) not in said


async def test_a_probe_finds_nothing_and_tells_nothing(secret: Path) -> None:
    """Not even through the compiler's own folders, which are there under names of their own."""
    through = [f"/{headers}/{up}" for headers in ("include", "libcxx/include") for up in UPWARDS]
    real = c_clang.find_compiler("cpp").library
    places = [str(secret), "/etc/passwd", "/", ".overlay.json", *SPECIAL, *UPWARDS, *through, str(real / "c.zig")]
    lines = "".join(
        f'#if __has_include("{place}") || __has_include(<{place}>) || __has_embed("{place}")\n#error\n#endif\n'
        for place in places
    )
    assert (await outcome(TINY + lines)).startswith("\0asm")


@pytest.mark.slow
async def test_a_probe_finds_the_headers_that_there_are() -> None:
    there = ("rho.h", "rho.hpp", "vector", "stdint.h", "cstring")
    lines = "".join(f"#if !__has_include(<{name}>)\n#error {name}\n#endif\n" for name in there)
    assert (await outcome(TINY + lines)).startswith("\0asm")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["at file scope", "in a function", "by a macro", "as a system header"])
async def test_inline_assembly_is_refused(way: str) -> None:
    assert "inline assembly is refused" in await outcome(INLINE[way].replace("(void)", "()") + "\n")


@pytest.mark.slow
@pytest.mark.parametrize("way", HARMLESS)
async def test_what_sounds_like_an_option_is_none(secret: Path, way: str) -> None:
    said = await outcome(TINY + HARMLESS[way].replace("{path}", str(secret)))
    assert "secret_of_the_host" not in said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["@response", "-fplugin=x.so", "--help", "-", "a b.cpp", "../../x.cpp", "x\n.cpp", ""])
async def test_a_files_name_is_never_an_argument(name: str) -> None:
    with pytest.raises(BuildError) as caught:
        await compile_cpp(Project.of_text("int x = ;", name=name), limits=BuildLimits())
    [diagnostic] = caught.value.diagnostics
    assert "expected expression" in diagnostic.message
    assert "\n" not in str(diagnostic)


BOMBS = {
    "a constant that is computed for ever": "constexpr int f() { for (;;) {} return 0; }\nconstexpr int x = f();\n",
    "a constant that recurses": "constexpr int f(int n) { return f(n + 1) + 1; }\nconstexpr int x = f(0);\n",
    "a template that recurses": "template <int n> struct A { static constexpr int v = A<n + 1>::v; };\n"
    "int x = A<0>::v;\n",
    "templates that double": "template <int n, int m> struct A { A<n - 1, 2 * m> a; A<n - 1, 2 * m + 1> b; };\n"
    "template <int m> struct A<0, m> { char c; };\nA<22, 0> x;\n",
    "a pack": "template <int... n> constexpr int f() { return (n + ... + 0); }\n"
    "int x = f<__integer_pack(100000000)...>();\n",
    "an array": "constexpr int f() { int *p = new int[1'000'000'000]{}; int x = p[7]; delete[] p; return x; }\n"
    "constexpr int x = f();\n",
    "a concept": "template <class T> concept C = requires(T t) { requires C2<T>; };\n",
    "itself": '#include "main.cpp"\n',
    "data": "char big[1'000'000'000] = {1};\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_bomb_goes_off_inside_its_bounds(bomb: str) -> None:
    limits = BuildLimits(native_cpu_seconds=4, native_wall_seconds=60, file_bytes=8 * 1024 * 1024)
    said = await outcome(BOMBS[bomb], limits)
    reason = said.partition(" ")[0]
    assert reason in ("build_failed", "build_timeout", "build_memory", "build_too_large", "build_crashed")
    assert len(said) < 20_000
    assert of_the_host(said.encode()) == []


@pytest.mark.slow
async def test_a_module_tells_nothing_of_the_host() -> None:
    source = TINY + "namespace std { struct source_location { struct __impl {\n"
    source += "const char *_M_file_name, *_M_function_name; unsigned _M_line, _M_column; }; }; }\n"
    source += '__attribute__((export_name("where"))) const void *where() { return __builtin_source_location(); }\n'
    said = await outcome(source)
    assert said.startswith("\0asm")
    assert "main.cpp" in said
    assert of_the_host(said.encode("latin-1")) == []
