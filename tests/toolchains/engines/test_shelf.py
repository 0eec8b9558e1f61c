"""A shelf makes an engine once, believes only what it wrote itself, and lets go of nothing that is needed."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

import anyio
import pytest

from rho_wasm.errors import BuildError
from rho_wasm.sandbox import NativeCache
from rho_wasm.toolchains.engines import EngineShelf, SelfTest
from tests.toolchains.engines.toy import TOY_WASM, install_toy, toy_spec

pytestmark = pytest.mark.anyio

_SHA256 = hashlib.sha256(TOY_WASM).digest()


@pytest.fixture(autouse=True)
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    install_toy(tmp_path / "site")


@pytest.fixture
def shelf(tmp_path: Path, shared_cache: NativeCache) -> EngineShelf:
    return EngineShelf(tmp_path / "engines", tmp_path / "key" / "host.key", cache=shared_cache)


async def test_an_engine_is_made_tried_and_kept(shelf: EngineShelf) -> None:
    stages: list[tuple[str, float]] = []
    engine = await shelf.install(toy_spec(), progress=lambda stage, fraction: stages.append((stage, fraction)))
    assert (engine.sha256, engine.wasm) == (_SHA256, TOY_WASM)
    assert [fraction for _, fraction in stages] == sorted(fraction for _, fraction in stages)
    assert stages[0] == ("reading its package", 0.0)
    assert not any("waiting" in stage for stage, _ in stages)  # For nobody else installs.
    assert stages[-1] == ("ready", 1.0)
    assert shelf.find(_SHA256) == engine
    [installed] = shelf.list()
    assert (installed.name, installed.sha256, installed.size) == ("toy", _SHA256.hex(), len(TOY_WASM))
    assert (installed.distribution, installed.version, installed.licence) == ("toy-engine", "1.0", "Apache-2.0")
    assert [(each.installed, each.problem) for each in shelf.verify()] == [(installed, None)]
    assert [path.name for path in shelf.folder.iterdir() if "part" in path.name] == []


async def test_an_engine_is_made_once(shelf: EngineShelf) -> None:
    made = 0

    async def build(given: bytes) -> bytes:
        nonlocal made
        made += 1
        await anyio.lowlevel.checkpoint()
        return given

    spec = toy_spec(build=build)
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(shelf.install, spec)
    await shelf.get(spec)
    assert made == 1
    assert (await shelf.get(toy_spec(build=build, revision=2))).sha256 == _SHA256
    assert made == 2


async def test_one_process_installs_at_a_time(shelf: EngineShelf) -> None:
    shelf.folder.mkdir(mode=0o700)
    descriptor = os.open(shelf.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    waiting = anyio.Event()

    def progress(stage: str, fraction: float) -> None:
        if "waiting" in stage:
            waiting.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: shelf.install(toy_spec(), progress=progress))
        await waiting.wait()
        assert shelf.list() == ()
        os.close(descriptor)
    assert len(shelf.list()) == 1


@pytest.mark.parametrize("offset", [0, 20, 60, -1])
async def test_an_entry_that_was_changed_is_not_believed_and_is_healed(shelf: EngineShelf, offset: int) -> None:
    await shelf.install(toy_spec())
    [path] = shelf.folder.glob("*.engine")
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    assert shelf.find(_SHA256) is None
    [checked] = shelf.verify()
    assert checked.installed is None
    assert checked.problem is not None
    assert (await shelf.get(toy_spec())).wasm == TOY_WASM
    assert shelf.verify()[0].problem is None


async def test_an_entry_of_another_host_or_name_or_user_is_not_believed(shelf: EngineShelf, tmp_path: Path) -> None:
    await shelf.install(toy_spec())
    assert EngineShelf(shelf.folder, tmp_path / "other" / "host.key").find(_SHA256) is None
    [path] = shelf.folder.glob("*.engine")
    other = path.with_name(f"{'0' * 64}.engine")
    other.write_bytes(path.read_bytes())
    other.chmod(0o600)
    assert shelf.find(bytes(32)) is None
    assert [each.problem is None for each in shelf.verify()] == [False, True]
    path.chmod(0o644)
    assert shelf.find(_SHA256) is None


async def test_an_engine_that_fails_its_test_is_not_kept(shelf: EngineShelf) -> None:
    wrong = SelfTest(file="t", source="--", tool="t", arguments={}, answer="something else")
    loading = SelfTest(file="t", source="e", tool="t", arguments={}, answer=None)
    trapping = SelfTest(file="t", source="-t", tool="t", arguments={}, answer=None)
    for test in (wrong, loading, trapping):
        with pytest.raises(BuildError) as failed:
            await shelf.install(toy_spec(test=test))
        assert failed.value.reason == "engine_failed"
    assert shelf.list() == ()


async def test_what_is_no_engine_is_not_kept(shelf: EngineShelf) -> None:
    async def build(given: bytes) -> bytes:
        return b"\0asm\1\0\0\0"

    with pytest.raises(BuildError) as failed:
        await shelf.install(toy_spec(build=build))
    assert failed.value.reason == "engine_failed"
    assert shelf.list() == ()


async def test_an_engine_that_is_needed_is_not_removed(shelf: EngineShelf) -> None:
    await shelf.install(toy_spec())
    with pytest.raises(BuildError) as refused:
        shelf.remove("toy", in_use=[_SHA256.hex()])
    assert refused.value.reason == "engine_in_use"
    assert len(shelf.list()) == 1
    assert [each.name for each in shelf.remove(_SHA256.hex(), in_use=["0" * 64])] == ["toy"]
    assert shelf.list() == ()
    with pytest.raises(BuildError) as unknown:
        shelf.remove("toy")
    assert unknown.value.reason == "engine_unknown"


async def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError) as refused:
        await EngineShelf(tmp_path / "file" / "engines", tmp_path / "host.key").install(toy_spec())
    assert refused.value.reason == "engine_shelf"


def test_the_default_folder_is_beside_the_native_cache(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert EngineShelf.default(environment=home).folder == tmp_path / ".cache" / "rho_wasm" / "engines"
    assert EngineShelf.default(environment=home | {"RHO_WASM_CACHE": "/a/b"}).folder == Path("/a/b-engines")
    assert EngineShelf.default(environment=home | {"RHO_WASM_ENGINES": "/e"}).folder == Path("/e")
    with pytest.raises(ValueError, match="outside"):
        EngineShelf(tmp_path, tmp_path / "host.key")
