"""AssemblyScript: diagnostics, projects, the same bytes, what is missing, and what a hostile source tries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import BuildLimits
from rho_wasm.toolchains.assemblyscript import PACKAGE, compile_assemblyscript, find_assemblyscript
from rho_wasm.toolchains.project import Project

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(600),
    pytest.mark.skipif(landlock_version() == 0, reason="it is built only where the kernel has Landlock"),
]

MINIMAL = """import { ok, tool } from "rho";

tool("nothing", "Does nothing.").handle((call) => ok("nothing"));
"""
MARK = "secret_of_the_host"


@pytest.fixture
def anyio_backend() -> str:
    """What a compiler may read does not hang on who waits for it, and each build takes seconds."""
    return "asyncio"


@pytest.fixture
def compiler() -> None:
    try:
        find_assemblyscript()
    except BuildError as error:
        pytest.skip(str(error))


async def compiled(files: Mapping[str, str], limits: BuildLimits | None = None) -> bytes:
    project = Project(main="main.as.ts", files=MappingProxyType(dict(files)), name="main.as.ts")
    return (await compile_assemblyscript(project, limits=limits or BuildLimits())).wasm


async def said(files: Mapping[str, str], limits: BuildLimits | None = None) -> BuildError:
    with pytest.raises(BuildError) as caught:
        await compiled(files, limits)
    told = str(caught.value)
    assert MARK not in told
    assert str(find_assemblyscript().package) not in told
    assert "rho-build-" not in told
    return caught.value


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
async def test_the_same_source_is_the_same_bytes_and_tells_nothing_of_where_it_was_built() -> None:
    first = await compiled({"main.as.ts": MINIMAL})
    assert first == await compiled({"main.as.ts": MINIMAL})
    for place in (str(find_assemblyscript().package), "rho-build-", str(Path.home())):
        assert len(place) < 3 or place.encode() not in first


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
async def test_mistakes_have_their_file_line_and_column() -> None:
    text = 'import { helper } from "./lib/helper";\n' + MINIMAL + "\nhelper();\nconst wrong: string = 1;\n"
    error = await said({"main.as.ts": text, "lib/helper.ts": "export function helper(): void {\n  absent();\n}\n"})
    assert set(error.diagnostics) >= {
        Diagnostic("Cannot find name 'absent'.", file="lib/helper.ts", line=2, column=3),
        Diagnostic("Type 'i32' is not assignable to type '~lib/string/String'.", file="main.as.ts", line=7, column=23),
    }


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
async def test_what_a_browser_has_is_told_not_to_be_here() -> None:
    error = await said({"main.as.ts": MINIMAL + '\nconsole.log("hello");\n'})
    assert "console.log is not here" in str(error)
    assert 'info() of "rho"' in error.hint


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
async def test_imports_lead_to_no_file_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "secret.ts").write_text(f'export const {MARK}: string = "{MARK}";\n')
    (tmp_path / "index.ts").write_text(f'export const {MARK}: string = "{MARK}";\n')
    places = [
        str(tmp_path / "secret"),
        str(tmp_path),
        "../" * 20 + str(tmp_path / "secret").lstrip("/"),
        f"file://{tmp_path}/secret.ts",
        "/etc/passwd",
        "/proc/self/environ",
        "./project.json",
        "./compile.mjs",
        "assemblyscript",
        "/usr/lib/node_modules/assemblyscript/std/assembly/index",
        "../../../rho_start",
    ]
    imports = "".join(f"import * as place{at} from {json.dumps(place)};\n" for at, place in enumerate(places))
    error = await said({"main.as.ts": imports + MINIMAL}, BuildLimits(diagnostics=100))
    assert {each.line for each in error.diagnostics if each.line is not None} >= set(range(1, len(places) + 1))


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
async def test_options_of_a_project_are_not_looked_at(tmp_path: Path) -> None:
    transform = f'import {{ writeFileSync }} from "node:fs";\nwriteFileSync("{tmp_path}/ran", "");\n'
    options = json.dumps({"options": {"transform": ["./transform.mjs", "./transform.js"], "runtime": "stub"}})
    beside = {
        "asconfig.json": options,
        "package.json": '{"type": "module", "ascMain": "transform.ts"}',
        "transform.mjs": transform,
        "transform.js": transform,
        "tsconfig.json": "{",
        "node_modules/x/index.ts": "export const x = 1;",
    }
    text = f'/// <reference path="{tmp_path}/secret.ts" />\n// --transform ./transform.mjs\n{MINIMAL}'
    assert await compiled({"main.as.ts": text, **beside}) == await compiled({"main.as.ts": text})
    assert _names(tmp_path) == []


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
async def test_the_environment_of_the_host_is_not_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    required = tmp_path / "required.cjs"
    required.write_text(f'require("node:fs").writeFileSync("{tmp_path}/ran", "");\n')
    monkeypatch.setenv("NODE_OPTIONS", f"--require={required}")
    monkeypatch.setenv("NODE_PATH", str(tmp_path))
    assert (await compiled({"main.as.ts": MINIMAL})).startswith(b"\0asm")
    assert _names(tmp_path) == [required.name]


LOOPS = {
    "types without end": "class A<T> { next(): A<A<T>> { return new A<A<T>>().next(); } }\nnew A<i32>().next();\n",
    "nesting": "const x = " + "(" * 200_000 + "1" + ")" * 200_000 + ";\n",
}


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("way", LOOPS)
async def test_a_source_that_takes_for_ever_is_stopped(way: str) -> None:
    limits = BuildLimits(native_cpu_seconds=5, native_wall_seconds=60)
    error = await said({"main.as.ts": MINIMAL + LOOPS[way]}, limits)
    assert error.reason in ("build_timeout", "build_memory", "build_failed", "build_crashed")


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
async def test_a_file_of_the_builds_own_name_is_refused() -> None:
    error = await said({"main.as.ts": MINIMAL, "rho_start.ts": ""})
    assert "writes a file of this name itself" in str(error)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with Node, and nothing else on its PATH."""
    monkeypatch.delenv("RHO_WASM_ASC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").symlink_to("/bin/true")
    return tmp_path


async def test_a_missing_compiler_is_told_with_what_to_run(machine: Path) -> None:
    error = await _missing()
    assert "the AssemblyScript compiler is not installed" in str(error)
    assert f"npm install -g {PACKAGE}" in error.hint
    (machine / "bin" / "node").unlink()
    assert "Node is not installed" in str(await _missing())


async def test_a_compiler_of_another_version_is_not_used(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = machine / "node_modules" / "assemblyscript"
    for name, text in (("dist/asc.js", ""), ("bin/asc.js", ""), ("package.json", '{"version": "0.19.\\u001b[1m"}')):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (package / "bin" / "asc.js").chmod(0o755)
    (machine / "bin" / "asc").symlink_to(package / "bin" / "asc.js")
    assert "is of version 0.19.\\x1b[1m, not" in str(await _missing())
    monkeypatch.setenv("RHO_WASM_ASC", str(package))
    (package / "package.json").write_text("{")
    assert "is of version unknown" in str(await _missing())


async def _missing() -> BuildError:
    with pytest.raises(BuildError) as caught:
        await compiled({"main.as.ts": MINIMAL})
    assert caught.value.reason == "missing_toolchain"
    return caught.value
