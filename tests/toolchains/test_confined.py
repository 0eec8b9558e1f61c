"""A native program of a toolchain sees what it is given, ends at its bounds, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from rho_wasm.errors import BuildError
from rho_wasm.sandbox.child import ChildOutcome
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains.confined import fresh_folder, require_confinement, run_confined
from rho_wasm.toolchains.limits import BuildLimits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.anyio,
    pytest.mark.skipif(landlock_version() == 0, reason="native programs are confined only where there is Landlock"),
]

SYSTEM = ("/bin", "/lib", "/lib64", "/usr", sys.prefix, sys.base_prefix)
_MIB = 1 << 20


@pytest.fixture
def anyio_backend() -> str:
    """One: what waits for a child is tested with both (tests/sandbox/test_child.py)."""
    return "asyncio"


async def _python(
    code: str,
    folder: Path,
    *,
    limits: BuildLimits | None = None,
    read: Sequence[str | Path] = SYSTEM,
    write: Sequence[str | Path] = (),
    file_bytes: int | None = None,
) -> ChildOutcome:
    return await run_confined(
        [sys.executable, "-I", "-S", "-c", code],
        folder=folder,
        language="test",
        read=read,
        write=write,
        environment={"SEEN": "yes"},
        limits=limits or BuildLimits(native_wall_seconds=60, native_cpu_seconds=10),
        file_bytes=file_bytes,
    )


async def test_a_program_has_its_folder_its_environment_and_nothing_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "given").write_text("given")
    async with fresh_folder() as folder:
        (folder / "link").symlink_to(tmp_path / "secret")
        code = f"""
import os
open("made", "w").write("made")
print(open("made").read(), os.getcwd(), sorted(os.environ), open({str(tmp_path / "given")!r}).read())
for path in ({str(tmp_path / "secret")!r}, "link", "/etc/passwd", "/proc/self/environ", "/root", "/tmp"):
    try:
        os.listdir(path) if path in ("/root", "/tmp") else open(path).read()
        print("read", path)
    except PermissionError:
        pass
for path in ({str(tmp_path / "given")!r}, "/tmp/rho-was-here", {str(tmp_path / "new")!r}):
    try:
        open(path, "w")
        print("wrote", path)
    except PermissionError:
        pass
"""
        outcome = await _python(code, folder, read=(*SYSTEM, tmp_path / "given"))
        # Where the folder lies is taken out of what is said; LC_CTYPE this Python made itself.
        assert outcome.stdout.decode() == "made . ['LC_CTYPE', 'SEEN'] given\n"
        assert outcome.ok
    assert not folder.exists()


async def test_a_program_reaches_no_server_over_tcp(tmp_path: Path) -> None:
    if landlock_version() < 4:
        pytest.skip("this kernel's Landlock knows no network")
    async with fresh_folder() as folder:
        code = "import socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept PermissionError: print('no')"
        assert (await _python(code, folder)).stdout == b"no\n"


async def test_a_cache_that_is_named_may_be_written(tmp_path: Path) -> None:
    async with fresh_folder() as folder:
        outcome = await _python(f"open({str(tmp_path / 'cached')!r}, 'w').write('x')", folder, write=[tmp_path])
    assert outcome.ok
    assert (tmp_path / "cached").read_text() == "x"


async def test_time_and_memory_are_bounded() -> None:
    async with fresh_folder() as folder:
        busy = await _python("while True: pass", folder, limits=BuildLimits(native_cpu_seconds=0.05))
        idle = await _python("import time; time.sleep(60)", folder, limits=BuildLimits(native_wall_seconds=0.3))
        large = await _python("bytearray(1 << 30)", folder, limits=BuildLimits(native_memory_bytes=300 * _MIB))
    assert (busy.reason, idle.reason) == ("cpu", "wall")
    assert b"MemoryError" in large.stderr


@pytest.mark.parametrize(
    "code",
    [
        "for i in range(10**9): open(str(i), 'w').write('x' * 100_000)",
        # What was written before the program ended by itself counts too.
        "import os\nos.mkdir('d'); os.chdir('d'); open('a', 'w').write('x' * 3_000_000)",
        pytest.param("import os\nwhile True: os.mkdir('d'); os.chdir('d')", marks=pytest.mark.slow),
        pytest.param("for i in range(300): open(str(i), 'w')", marks=pytest.mark.slow),
    ],
)
async def test_a_program_that_fills_the_disk_is_stopped_and_leaves_nothing(code: str) -> None:
    limits = BuildLimits(folder_bytes=2 * _MIB, folder_files=200, native_wall_seconds=60)
    async with fresh_folder() as folder:
        outcome = await _python(code, folder, limits=limits)
        assert outcome.reason == "output"
        assert not outcome.ok
    assert not folder.exists()


async def test_one_file_is_bounded_and_a_sparse_one_counts_for_what_it_holds() -> None:
    limits = BuildLimits(folder_bytes=2 * _MIB, native_wall_seconds=60)
    sparse = "f = open('a', 'wb'); f.truncate(20 << 20); f.seek(19 << 20); f.write(b'x')"
    async with fresh_folder() as folder:
        assert (await _python(sparse, folder, limits=limits)).ok
        assert not (await _python(sparse, folder, limits=limits, file_bytes=10 * _MIB)).ok


@pytest.mark.skipif(os.geteuid() == 0, reason="what root may read nobody can close")
async def test_a_folder_that_cannot_be_looked_into_is_taken_for_full() -> None:
    async with fresh_folder() as folder:
        outcome = await _python("import os; os.mkdir('d'); os.chmod('d', 0)", folder)
        assert outcome.reason == "output"
    assert not folder.exists()


async def test_whatever_is_left_in_a_folder_it_is_removed() -> None:
    async with fresh_folder() as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        for _ in range(1_100):  # Longer than a path may be, and deeper than Python recurses.
            os.mkdir("deeper", dir_fd=descriptor)
            inner = os.open("deeper", os.O_RDONLY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
        os.close(descriptor)
        (folder / "link").symlink_to("/etc", target_is_directory=True)
        (folder / "closed").mkdir()
        (folder / "closed" / "inside").write_text("x")
        (folder / "closed").chmod(0)
    assert not folder.exists()
    assert os.listdir("/etc")  # noqa: PTH208 - it only has to be there


async def test_no_process_outlives_the_program_that_started_it(tmp_path: Path) -> None:
    """One that makes a session of its own would be found by nobody: it cannot make one."""
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    code = f"""
import os
if os.fork() == 0:
    pipe = open({str(pipe)!r}, "w")
    refused = 0
    for leave in (os.setsid, os.setpgrp):
        try:
            leave()
        except PermissionError:
            refused += 1
    os.write(pipe.fileno(), b"%d" % refused)
    for each in (0, 1, 2):
        os.close(each)
    import time
    time.sleep(600)
os.read(os.open({str(pipe)!r}, os.O_RDONLY), 0)
"""
    async with fresh_folder() as folder:
        outcome = await _python(code, folder, write=[pipe])
    assert outcome.ok, outcome.stderr
    with anyio.fail_after(60):
        told = b""
        while True:
            try:
                data = os.read(descriptor, 100)
            except BlockingIOError:  # Somebody still has it open.
                await anyio.sleep(0.01)
                continue
            if not data:
                break
            told += data
    os.close(descriptor)
    assert told == (b"2" if os.uname().machine in ("x86_64", "aarch64") else told)


async def test_a_program_that_cannot_be_started_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        await _python("pass", tmp_path / "gone")


async def test_the_folder_is_gone_after_a_cancellation() -> None:
    with anyio.CancelScope() as scope:
        async with fresh_folder() as folder:
            scope.deadline = anyio.current_time() + 0.3
            await _python("import time; time.sleep(60)", folder)
    assert scope.cancelled_caught
    assert not folder.exists()


def test_without_landlock_only_what_is_trusted_is_built() -> None:
    require_confinement(0, language="zig", trusted=True)
    require_confinement(1, language="zig", trusted=False)
    with pytest.raises(BuildError) as refused:
        require_confinement(0, language="zig", trusted=False)
    assert refused.value.reason == "confinement_missing"
    assert "--trusted" in refused.value.hint
