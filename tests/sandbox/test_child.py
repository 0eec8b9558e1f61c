"""One confined child process: its bounds, what it cannot reach, and that it is gone afterwards."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import anyio
import pytest

from rho_wasm.sandbox.child import ChildOutcome, Confinement, run_child
from rho_wasm.sandbox.confine import landlock_version

SYSTEM = ("/bin", "/lib", "/lib64", "/usr", "/etc", sys.prefix, sys.base_prefix)
needs_landlock = pytest.mark.skipif(landlock_version() == 0, reason="this kernel has no Landlock")


async def python(code: str, confinement: Confinement = Confinement(), *, stdin: bytes = b"") -> ChildOutcome:  # noqa: B008
    return await run_child(
        [sys.executable, "-I", "-c", code],
        stdin=stdin,
        confinement=confinement,
        wall_seconds=60,
        max_output_bytes=100_000,
    )


async def test_a_child_reads_and_answers_bytes() -> None:
    outcome = await python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])", stdin=b"abc" * 50_000)
    assert outcome.reason == "output"
    outcome = await python(
        "import sys; print(len(sys.stdin.buffer.read())); print('no', file=sys.stderr)", stdin=b"x" * 9
    )
    assert (outcome.ok, outcome.stdout, outcome.stderr) == (True, b"9\n", b"no\n")


async def test_a_child_that_does_not_read_is_no_error() -> None:
    assert (await python("pass", stdin=b"x" * 1_000_000)).ok


async def test_an_exit_code_and_a_signal_are_told_apart() -> None:
    assert (await python("raise SystemExit(3)")).returncode == 3
    outcome = await python("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert (outcome.returncode, outcome.signal, outcome.reason) == (-signal.SIGTERM, signal.SIGTERM, None)


async def test_cpu_time_is_bounded_to_the_millisecond() -> None:
    outcome = await python("while True: pass", Confinement(cpu_seconds=0.05))
    assert (outcome.ok, outcome.reason) == (False, "cpu")


async def test_memory_is_bounded() -> None:
    outcome = await python("bytearray(1 << 30)", Confinement(memory_bytes=300 << 20))
    assert b"MemoryError" in outcome.stderr


async def test_at_the_wall_clock_it_and_what_it_started_are_killed(tmp_path: Path) -> None:
    # The grandchild holds the pipe open and would outlive its parent. A busy machine may not come to start it in time.
    for wall_seconds in (0.3, 3, 30):
        outcome = await run_child(
            ["/bin/sh", "-c", "sleep 600 & echo $!; exit 0"], wall_seconds=wall_seconds, max_output_bytes=100
        )
        assert outcome.reason == "wall"
        if outcome.stdout:
            break
    await _gone(int(outcome.stdout))


async def _gone(process: int) -> None:
    """Waits until ``process`` has ended: the kernel tells nobody but its parent."""
    with anyio.fail_after(60):
        while not _zombie(process):  # noqa: ASYNC110
            await anyio.sleep(0.01)


def _zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def test_output_is_bounded_and_errors_are_cut() -> None:
    outcome = await run_child(["/bin/sh", "-c", "yes"], wall_seconds=60, max_output_bytes=1_000)
    assert (outcome.reason, len(outcome.stdout)) == ("output", 1_000)
    loud = await run_child(
        ["/bin/sh", "-c", "head -c 100000 /dev/zero >&2"], wall_seconds=60, max_output_bytes=9, max_error_bytes=50
    )
    assert (loud.ok, len(loud.stderr)) == (True, 50)


async def test_cancellation_kills_the_child() -> None:
    with anyio.fail_after(60):
        with anyio.move_on_after(0.1) as scope:
            await run_child(["/bin/sleep", "600"], wall_seconds=600, max_output_bytes=9)
        assert scope.cancelled_caught


async def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    outcome = await python("import os; print(sorted(os.environ))")
    assert b"SECRET" not in outcome.stdout
    # Python tells the programs that it starts in a bare environment which locale it took.
    given = {"ONLY": "this", "LANG": "C"}
    outcome = await run_child(["/usr/bin/env"], wall_seconds=60, max_output_bytes=999, env=given)
    assert sorted(outcome.stdout.splitlines()) == [b"LANG=C", b"ONLY=this"]


async def test_a_program_that_is_not_there_is_an_os_error() -> None:
    with pytest.raises(OSError, match=r"\S"):
        await run_child(["/nonexistent"], confines_itself=True, wall_seconds=5, max_output_bytes=9)


@needs_landlock
async def test_files_that_are_not_named_cannot_be_read_or_written(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("x")
    code = f"""
import os
open({str(inside / "new")!r}, "w").write("ok")
for attempt in (lambda: open({str(outside / "secret")!r}), lambda: open({str(outside / "new")!r}, "w"),
                lambda: os.listdir({str(outside)!r}), lambda: os.unlink({str(outside / "secret")!r})):
    try:
        attempt()
    except PermissionError:
        print("no")
"""
    outcome = await python(code, Confinement(read=SYSTEM, write=(str(inside), "/dev/null")))
    assert outcome.stdout == b"no\n" * 4, outcome.stderr
    assert (inside / "new").read_text() == "ok"


@needs_landlock
@pytest.mark.skipif(landlock_version() < 4, reason="this kernel's Landlock does not know TCP")
async def test_there_is_no_network() -> None:
    code = "import socket; socket.create_connection(('127.0.0.1', 9), timeout=2)"
    outcome = await python(code, Confinement(read=SYSTEM, write=()))
    assert b"PermissionError" in outcome.stderr


async def test_no_file_grows_where_none_may(tmp_path: Path) -> None:
    write = f"import os; os.write(os.open({str(tmp_path / 'f')!r}, os.O_CREAT | os.O_WRONLY), b'x')"
    outcome = await python(write, Confinement(file_bytes=0))
    assert b"OSError" in outcome.stderr
    assert (tmp_path / "f").stat().st_size == 0


async def test_a_limit_that_is_lower_already_stays() -> None:
    wide = Confinement(memory_bytes=1 << 40, cpu_seconds=1_000)
    outcome = await run_child(
        ["/bin/sh", "-c", 'ulimit -v 2000000; exec "$@"', "sh", *wide.wrap(["/bin/sh", "-c", "ulimit -v"], {})],
        confines_itself=True,
        wall_seconds=60,
        max_output_bytes=99,
    )
    assert outcome.stdout == b"2000000\n"
