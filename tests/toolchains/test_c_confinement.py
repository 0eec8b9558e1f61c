"""A hostile C source reads nothing of the host, cannot tell what is there, and hears nothing of it in a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from rho_wasm.errors import BuildError
from rho_wasm.sandbox.child import Confinement, run_child
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import BuildLimits
from rho_wasm.toolchains.c import compile_c

pytestmark = [
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
    "incbin": '__asm__(".incbin \\"{path}\\"");\n',
    "include in assembler": '__asm__(".include \\"{path}\\"");\n',
    "dependency": '#pragma GCC dependency "{path}"\n',
    "module": '#pragma clang module import "{path}"\n',
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


async def outcome(source: str) -> str:
    """What the author of ``source`` hears, or the module as text."""
    try:
        built = await compile_c(source, name="tool.c", limits=BuildLimits())
    except BuildError as error:
        return str(error)
    return built.wasm.decode("latin-1")


@pytest.mark.parametrize("way", ESCAPES)
async def test_a_file_of_the_host_cannot_be_read(secret: Path, way: str) -> None:
    said = await outcome(TINY + ESCAPES[way].replace("{path}", str(secret)))
    assert said.startswith("c: ")
    assert "secret_of_the_host" not in said
    assert "42" not in said


@pytest.mark.parametrize("way", ESCAPES | HARMLESS)
async def test_a_file_that_is_there_sounds_like_one_that_is_not(secret: Path, way: str) -> None:
    source = TINY + (ESCAPES | HARMLESS)[way]
    absent = secret.with_name("absent.h")
    there = (await outcome(source.replace("{path}", str(secret)))).replace(str(secret), str(absent))
    assert there == await outcome(source.replace("{path}", str(absent)))


@pytest.mark.parametrize("probe", ["__has_include", "__has_include_next", "__has_embed"])
async def test_a_probe_finds_nothing_and_tells_nothing(secret: Path, probe: str) -> None:
    places = [str(secret), "/etc/passwd", "/etc", "/", "/dev/stdin", "/dev/zero", "/proc/self/environ", "overlay.json"]
    lines = "".join(f'#if {probe}("{place}")\n#error found\n#endif\n' for place in places)
    said = await outcome(TINY + lines)
    assert said.startswith("\0asm")


async def test_a_probe_finds_what_may_be_included() -> None:
    source = '#if !__has_include("rho.h") || !__has_include(<stdint.h>) || __has_include(<stdio.h>)\n#error\n#endif\n'
    assert (await outcome(source)).startswith("\0asm")


async def test_going_up_leads_nowhere() -> None:
    ways = ["../" * depth + "etc/passwd" for depth in (1, 2, 5, 20)]
    assert "file not found" in await outcome(f'#include "{ways[-1]}"\n')
    assert await refused_by_the_assembler(ways) == len(ways)


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


async def test_special_files_cannot_be_read_by_the_assembler_either() -> None:
    assert await refused_by_the_assembler(SPECIAL) == len(SPECIAL)


async def refused_by_the_assembler(paths: list[str]) -> int:
    said = await outcome(TINY + "".join(f'__asm__(".incbin \\"{path}\\"");\n' for path in paths))
    return said.count("Could not find incbin file")


async def test_its_own_standard_input_is_empty_and_its_own_output_a_wait_that_ends() -> None:
    """Landlock lets a process open the pipes again that it already has. They lead to nobody but this host."""
    incbin = TINY + '__asm__(".incbin \\"{path}\\"");\n'
    assert (await outcome(incbin.replace("{path}", "/dev/stdin"))).startswith("\0asm")
    with pytest.raises(BuildError) as caught:
        await compile_c(incbin.replace("{path}", "/dev/fd/1"), name="tool.c", limits=BuildLimits(wall_seconds=0.5))
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
        await compile_c("int x = ;", name=name, limits=BuildLimits())
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
        wall_seconds=10,
        max_output_bytes=1000,
    )
    assert found.stdout == b"may\n"
    assert not (tmp_path / "out").exists()
