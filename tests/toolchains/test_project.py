"""What a folder is read as: its sources, whole, bounded, and nothing that lies outside or could be misread."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rho_wasm.errors import BuildError
from rho_wasm.toolchains import BuildLimits, build
from rho_wasm.toolchains.project import Project, main_files, read_folder, read_main
from tests.toolchains.conftest import MINIMAL_WAT

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """One: a folder is read in a thread, whoever waits for it."""
    return "asyncio"


def _write(folder: Path, *names: str, text: str = "x") -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


async def _read(folder: Path, *others: str, limits: BuildLimits | None = None) -> Project:
    return await read_folder(folder, language="zig", suffixes=(".zig", *others), limits=limits or BuildLimits())


async def _refused(folder: Path, *others: str, limits: BuildLimits | None = None) -> BuildError:
    with pytest.raises(BuildError) as refused:
        await _read(folder, *others, limits=limits)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 1_000
    return refused.value


async def test_the_sources_of_a_folder_are_read_and_nothing_else(tmp_path: Path) -> None:
    _write(tmp_path, "main.zig", "deep/er/part.zig", "go.mod", "README.md", "main.wasm", "main.manifest.json")
    _write(tmp_path, ".hidden.zig", ".git/x.zig", "zig-out/x.zig", "node_modules/a/x.zig", "target/x.zig")
    _write(tmp_path, "zig-cache/x.zig", "deep/zig-cache/x.zig", "deep/.x/x.zig", "__pycache__/x.zig")
    project = await _read(tmp_path, "go.mod")
    assert sorted(project.files) == ["deep/er/part.zig", "go.mod", "main.zig"]
    assert (project.main, project.name) == ("main.zig", "main.zig")


@pytest.mark.parametrize(
    ("names", "main"),
    [
        (("tool-box.zig", "main.zig"), "tool-box.zig"),
        (("tool_box.zig", "main.zig"), "tool_box.zig"),
        (("main.zig", "src/lib.zig", "a.zig"), "main.zig"),
        (("src/lib.zig", "src/main.zig", "a.zig"), "src/lib.zig"),
        (("src/main.zig", "a.zig"), "src/main.zig"),
        (("inside/only.zig", "part.h"), "inside/only.zig"),
    ],
)
async def test_the_main_file_is_called_so_or_is_the_only_one(tmp_path: Path, names: tuple[str, ...], main: str) -> None:
    assert (await _read(_write(tmp_path / "tool-box", *names), ".h")).main == main


@pytest.mark.parametrize("names", [(), ("a.zig", "b.zig"), ("a.h",)])
async def test_without_a_main_file_it_is_said_how_one_is_called(tmp_path: Path, names: tuple[str, ...]) -> None:
    refused = await _refused(_write(tmp_path / "tool", *names, "README.md"), ".h")
    assert refused.reason == "source_unreadable"
    assert "tool.zig, main.zig or src/lib.zig" in str(refused)


@pytest.mark.parametrize("name", ["stolen.zig", "deep/stolen.zig"])
@pytest.mark.parametrize("target", ["secret.zig", "/etc/passwd", "nowhere"])
async def test_a_link_is_refused_and_not_followed(tmp_path: Path, name: str, target: str) -> None:
    (tmp_path / "secret.zig").write_text("secret")
    folder = _write(tmp_path / "tool", "main.zig")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(target if target.startswith("/") else tmp_path / target)
    refused = await _refused(folder)
    assert refused.diagnostics[0].file == name
    assert "links are not followed" in str(refused)


async def test_a_link_to_a_folder_is_passed_over(tmp_path: Path) -> None:
    _write(tmp_path / "elsewhere", "secret.zig")
    folder = _write(tmp_path / "tool", "main.zig")
    (folder / "part").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert list((await _read(folder)).files) == ["main.zig"]


async def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    folder = _write(tmp_path, "main.zig")
    os.mkfifo(folder / "wait.zig")
    assert (await _refused(folder)).diagnostics[0].file == "wait.zig"


@pytest.mark.parametrize(
    "name", ["-o.zig", "@args.zig", "a b.zig", "a\nb.zig", "a\x1b[2J.zig", "$(id).zig", "a;b.zig", "-d/x.zig", "ü.zig"]
)
async def test_a_name_that_a_compiler_could_misread_is_refused(tmp_path: Path, name: str) -> None:
    refused = await _refused(_write(tmp_path, "main.zig", name))
    assert refused.reason == "source_unreadable"
    assert "is no name for a source" in str(refused)
    assert "\n" not in str(refused.diagnostics[0])


@pytest.mark.parametrize("name", ["-o.zig", "@args.zig", "my tool.zig", "a\nb.zig", "$(id).zig", "ü.zig", "x" * 300])
def test_a_file_alone_may_be_called_anything_but_is_not_given_by_that_name(name: str) -> None:
    project = Project.of_text("text", name=name)
    assert project.name == name
    assert project.text == "text"
    assert project.main.isascii()
    assert project.main[0].isalnum()
    assert len(project.main) <= 128
    assert not set(project.main) & set(" \n$()@/;")


async def test_more_than_the_bounds_is_refused(tmp_path: Path) -> None:
    folder = _write(tmp_path, "main.zig", "a.zig", "b.zig", text="12345")
    assert len((await _read(folder, limits=BuildLimits(source_files=3, source_bytes=15))).files) == 3
    for limits in (BuildLimits(source_files=2), BuildLimits(source_bytes=14)):
        assert (await _refused(folder, limits=limits)).reason == "source_too_large"


async def test_folders_go_eight_deep(tmp_path: Path) -> None:
    deep = "/".join("d" * 8)
    folder = _write(tmp_path, "main.zig", f"{deep}/x.zig")
    assert f"{deep}/x.zig" in (await _read(folder)).files
    assert "more than 8 folders deep" in str(await _refused(_write(folder, f"{deep}/d/x.zig")))


async def test_what_is_no_text_is_refused_by_its_name(tmp_path: Path) -> None:
    _write(tmp_path, "main.zig")
    (tmp_path / "bad.zig").write_bytes(b"\xff\xfe")
    refused = await _refused(tmp_path)
    assert (refused.reason, refused.diagnostics[0].file) == ("source_unreadable", "bad.zig")


async def test_a_folder_that_is_not_there_is_a_build_error(tmp_path: Path) -> None:
    assert (await _refused(tmp_path / "gone")).reason == "source_unreadable"


def test_a_project_is_written_under_its_folder_and_over_nothing(tmp_path: Path) -> None:
    project = Project(main="a.zig", files={"a.zig": "one\r\n", "deep/b.zig": "two"}, name="a.zig")
    project.write_to(tmp_path)
    assert (tmp_path / "a.zig").read_bytes() == b"one\r\n"
    assert (tmp_path / "deep" / "b.zig").read_text() == "two"
    assert project.reviewed == "one\r\n\n==== deep/b.zig ====\ntwo"
    with pytest.raises(FileExistsError):
        project.write_to(tmp_path)


_SUFFIXES = {"c": ".c", "python": ".py", "typescript": ".ts", "other": ".as.ts"}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("tool.c", "test_tool.py"), {"c": "tool.c"}),
        (("a.c", "b.py"), {"c": "a.c", "python": "b.py"}),
        (("main.c", "main.py", "x.py"), {"c": "main.c", "python": "main.py"}),
        (("tool.as.ts",), {"other": "tool.as.ts"}),
        (("a.c", "b.c", "README.md"), {}),
        (("renamed.c", "test_renamed.py"), {"c": "renamed.c"}),
        (("only.py", "only_test.py", "deep/test_more.py"), {"python": "only.py"}),
        (("test_gone.py",), {}),
    ],
)
async def test_a_folder_is_in_the_language_of_its_main_file(
    tmp_path: Path, names: tuple[str, ...], found: dict[str, str]
) -> None:
    folder = _write(tmp_path / "tool", *names)
    assert await main_files(folder, _SUFFIXES, limits=BuildLimits()) == found


async def test_a_folder_is_built_by_its_main_file_and_the_manifest_beside_that(
    tmp_path: Path, manifest: dict[str, Any]
) -> None:
    folder = _write(tmp_path / "nothing", "nothing.wat", text=MINIMAL_WAT)
    artifact = await build(folder, manifest=manifest)
    assert (artifact.language, artifact.tools, artifact.source) == ("wat", ("nothing",), MINIMAL_WAT)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("a.wat", "b.c"), "several languages: "),
        (("README.md",), "call it tool or main, with the suffix"),
        (("a.wat", "b.wat"), "call it tool or main, with the suffix"),
    ],
)
async def test_a_folder_of_no_clear_language_is_refused(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    with pytest.raises(BuildError) as refused:
        await build(_write(tmp_path / "tool", *names))
    assert refused.value.reason == "language_unknown"
    assert said in str(refused.value)


async def test_the_main_file_of_an_interpreted_language_is_read_alone(tmp_path: Path) -> None:
    folder = _write(tmp_path / "tool", "src/main.py", "other.py", text="x = 1")
    assert await _main(folder) == ("src/main.py", b"x = 1")
    assert await _main(_write(tmp_path / "none", "a.py", "b.py")) is None
    with pytest.raises(BuildError) as refused:
        await _main(folder, BuildLimits(source_bytes=4))
    assert refused.value.reason == "source_too_large"


async def _main(folder: Path, limits: BuildLimits | None = None) -> tuple[str, bytes] | None:
    return await read_main(folder, language="python", suffix=".py", limits=limits or BuildLimits())


@contextmanager
def _swapped_for_a_link(folder: Path, target: Path) -> Iterator[None]:
    """``folder`` is by turns itself and a link to ``target``, as fast as that goes."""
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            folder.rename(folder.with_name(".away"))
            folder.symlink_to(target)
            folder.unlink()
            folder.with_name(".away").rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def test_a_folder_that_becomes_a_link_while_it_is_read_leads_nowhere(tmp_path: Path) -> None:
    _write(tmp_path / "secret", "main.py", "main.zig", text="secret")
    folder = _write(tmp_path / "tool", "src/main.py", "src/main.zig", text="own")
    read: set[str | bytes] = set()
    reasons = set()
    with _swapped_for_a_link(folder / "src", tmp_path / "secret"):
        for _ in range(150):
            try:
                read.add((await _main(folder) or ("", b"own"))[1])
                read.update((await _read(folder)).files.values())
            except BuildError as refused:
                reasons.add(refused.reason)
    assert read <= {"own", b"own"}
    assert reasons <= {"source_unreadable"}


async def test_the_manifest_beside_the_main_file_lies_in_the_folder_too(
    tmp_path: Path, manifest: dict[str, Any]
) -> None:
    folder = _write(tmp_path / "tool", "src/main.wat", text=MINIMAL_WAT)
    (folder / "src" / "main.manifest.json").write_text(json.dumps(manifest))
    assert (await build(folder)).tools == ("nothing",)
    (folder / "src" / "main.manifest.json").rename(tmp_path / "outside.json")
    (folder / "src" / "main.manifest.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(BuildError) as refused:
        await build(folder)
    assert refused.value.reason == "source_unreadable"
    assert refused.value.diagnostics[0].file == "src/main.manifest.json"
