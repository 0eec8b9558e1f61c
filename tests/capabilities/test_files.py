"""What guests read of the folders that were granted, and that nothing leads out of these."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.capabilities.files import PAGE_BYTES, files_capabilities
from rho_wasm.capabilities.files_open import parts_of
from rho_wasm.capabilities.granted import Granted, GrantedCapabilities
from rho_wasm.errors import CapabilityError
from rho_wasm.grants import FilesBounds
from rho_wasm.host import Host
from rho_wasm.host_threads import HostThreads
from rho_wasm.limits import Limits
from rho_wasm.policy import Policy
from tests.capabilities.relay import asking, relay
from tests.helpers import call

_SWAPS = 100
"""How often a part of a path is swapped while it is read. Each time both are seen."""

with_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc here")


@pytest.fixture
def granted(tmp_path: Path) -> Path:
    """A granted folder, and a secret outside it."""
    folder = tmp_path / "granted"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.txt").write_bytes(b"public")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_bytes(b"secret")
    return folder


class Files:
    """``files.read`` and ``files.list`` as a guest meets them, of one folder that is called ``docs``."""

    def __init__(self, folder: Path, *, threads: HostThreads | None = None, **bounds: int) -> None:
        within = FilesBounds.model_validate({"folders": {"docs": str(folder)}, **bounds})
        self._granted = {made.name: Granted(made, within) for made in files_capabilities(threads=threads)}

    async def read(self, path: str, *, folder: str = "docs", **arguments: int) -> Any:
        return await self._ask("files.read", {"folder": folder, "path": path, **arguments})

    async def list(self, path: str = "", **arguments: str) -> Any:
        return await self._ask("files.list", {"folder": "docs", "path": path, **arguments})

    async def refused(self, path: str, *, folder: str = "docs", **arguments: int) -> tuple[str, str]:
        """Kind and message of what ``files.read`` is refused with."""
        with pytest.raises(CapabilityError) as refused:
            await self.read(path, folder=folder, **arguments)
        return refused.value.kind, refused.value.message

    async def _ask(self, name: str, arguments: dict[str, Any]) -> Any:
        call = ToolContext(call=ToolCall(id="1", name="t"))
        asked = GrantedCapabilities(self._granted, tool="t", artifact="", generation=1, context=call, limits=Limits())
        return await asked.answer(name, arguments, remaining_ms=5_000)


def opened_below(folder: Path) -> set[Path]:
    """What this process has open there. It opens and closes others meanwhile, whatever a test does."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(link.readlink())
    return {path for path in found if path.is_relative_to(folder)}


async def test_a_file_is_read_whole_and_in_parts(granted: Path) -> None:
    files = Files(granted)
    assert await files.read("notes/a.txt") == {"data": b"public", "size": 6}
    assert await files.read("notes/a.txt", offset=3) == {"data": b"lic", "size": 6}
    assert await files.read("notes/a.txt", offset=1, length=2) == {"data": b"ub", "size": 6}
    assert await files.read("notes/a.txt", offset=4, length=100) == {"data": b"ic", "size": 6}
    assert await files.read("notes/a.txt", offset=2**62) == {"data": b"", "size": 6}


async def test_a_file_over_the_grants_bound_is_refused_and_a_larger_reply_is_asked_for_in_parts(granted: Path) -> None:
    (granted / "large").write_bytes(bytes(PAGE_BYTES + 1))
    kind, message = await Files(granted, file_bytes=5).refused("notes/a.txt")
    assert (kind, "file_bytes=5" in message) == ("quota", True)
    files = Files(granted, file_bytes=2 * PAGE_BYTES)
    assert (await files.refused("large"))[0] == "quota"
    assert (await files.refused("large", length=PAGE_BYTES + 1))[0] == "quota"
    assert len((await files.read("large", length=PAGE_BYTES))["data"]) == PAGE_BYTES
    assert len((await files.read("large", offset=PAGE_BYTES))["data"]) == 1


@with_proc
async def test_what_has_no_size_is_read_up_to_the_bound(granted: Path) -> None:
    found = await Files(Path("/proc/self"), file_bytes=10).read("status")
    assert (len(found["data"]), found["size"]) == (10, 0)


async def test_no_path_leads_out_of_the_folder(granted: Path) -> None:
    files = Files(granted)
    for path in (
        *("..", "../outside/a.txt", "notes/../../outside/a.txt", "notes/..", "../granted/notes/a.txt"),
        *("/etc/passwd", "/", "//etc/passwd", str(granted / "notes" / "a.txt")),
    ):
        assert (await files.refused(path))[0] == "denied"
        with pytest.raises(CapabilityError, match="denied"):
            await files.list(path)


@pytest.mark.parametrize(
    "path",
    [
        *(".", "./notes/a.txt", "notes//a.txt", "notes/a.txt/", "notes\\a.txt", "..\\outside", "a\0b", "\udcff"),
        *("a" * 256, "é" * 128, "a/" * 64 + "a", "/".join(["a" * 200] * 21), "\u202e" * 300),
    ],
)
def test_what_is_no_path_is_told_in_few_and_inert_words(path: str) -> None:
    with pytest.raises(CapabilityError) as refused:
        parts_of(path)
    assert refused.value.kind == "invalid_arguments"
    assert len(refused.value.message) < 400
    assert refused.value.message.isprintable()


async def test_the_empty_path_is_the_folder_and_no_file(granted: Path) -> None:
    assert (await Files(granted).refused(""))[0] == "invalid_arguments"
    assert (await Files(granted).list(""))["entries"]


async def test_a_file_that_is_not_there_is_told_without_the_hosts_path(granted: Path) -> None:
    kind, message = await Files(granted).refused("notes/b.txt")
    assert (kind, message) == ("invalid_arguments", "there is no 'b.txt' there")
    assert await Files(granted).refused("b/a.txt") == ("invalid_arguments", "there is no 'b' there")
    with pytest.raises(CapabilityError) as caught:
        await Files(granted / "gone").read("a.txt")
    kind, message = caught.value.kind, caught.value.message
    assert (kind, caught.value.fault) == ("unavailable", True)
    assert "docs" in message
    assert str(granted) not in message


async def test_a_folder_that_is_not_granted_is_denied_whatever_its_name(granted: Path) -> None:
    for name in ("other", "/etc", "", "docs/notes", "..", "Docs"):
        assert await Files(granted).refused("a.txt", folder=name) == (
            "denied",
            "no folder of that name is granted (granted: docs)",
        )


async def test_links_are_never_followed_wherever_they_lead(granted: Path) -> None:
    (granted / "file").symlink_to("notes/a.txt")
    (granted / "folder").symlink_to("notes")
    (granted / "out").symlink_to(granted.parent / "outside")
    (granted / "dangling").symlink_to("nowhere")
    files = Files(granted)
    for path in ("file", "folder/a.txt", "out/a.txt", "out", "dangling"):
        kind, message = await files.refused(path)
        assert (kind, "links are never followed" in message) == ("denied", True)
    for path in ("folder", "out", "file", "notes/a.txt"):
        with pytest.raises(CapabilityError, match="denied"):
            await files.list(path)


@with_proc
async def test_the_magic_links_of_proc_are_links_too() -> None:
    files = Files(Path("/proc"))
    for path in ("self/root/etc/passwd", f"{os.getpid()}/root/etc/passwd", f"{os.getpid()}/cwd", f"{os.getpid()}/fd/0"):
        assert (await files.refused(path))[0] == "denied"


async def test_only_regular_files_are_read_and_nothing_waits_for_the_others(granted: Path) -> None:
    os.mkfifo(granted / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(granted)  # the path of a socket is at most 107 bytes long
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
        with anyio.fail_after(60):
            for folder, name in ((granted, "pipe"), (granted, "socket"), (granted, "notes"), (Path("/dev"), "null")):
                assert await Files(folder).refused(name) == ("denied", f"'{name}' is no regular file")


@contextmanager
def swapping(swap: Callable[[], None]) -> Iterator[threading.Event]:
    """Runs ``swap`` in a thread, over and over, until it has run often enough; then the event is set."""
    done = threading.Event()

    def work() -> None:
        try:
            for _ in range(_SWAPS):
                swap()
        finally:
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        thread.join()


async def _seen(files: Files, path: str, done: threading.Event) -> set[str]:
    """What reads of ``path`` came to until ``done``: data, or the kind of the refusal."""
    seen = set()
    while not done.is_set():
        try:
            seen.add((await files.read(path))["data"].decode())
        except CapabilityError as error:
            seen.add(error.kind)
    return seen


async def test_a_file_swapped_for_a_link_during_the_call_is_never_followed(granted: Path) -> None:
    target, spare = granted / "notes" / "a.txt", granted / "spare"

    def swap() -> None:
        spare.symlink_to(granted.parent / "outside" / "a.txt")
        spare.replace(target)
        spare.write_bytes(b"public")
        spare.replace(target)

    with swapping(swap) as done:
        seen = await _seen(Files(granted), "notes/a.txt", done)
    assert seen <= {"public", "denied"}


async def test_a_parent_swapped_for_a_link_during_the_call_is_never_followed(granted: Path) -> None:
    target, aside, link = granted / "notes", granted / "aside", granted / "link"
    link.symlink_to(granted.parent / "outside")

    def swap() -> None:
        target.rename(aside)
        link.rename(target)
        target.rename(link)
        aside.rename(target)

    with swapping(swap) as done:
        seen = await _seen(Files(granted), "notes/a.txt", done)
    assert seen <= {"public", "denied", "invalid_arguments"}


async def test_a_pipe_put_in_a_files_place_is_refused_once_it_is_open(
    granted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(granted / "pipe")
    regular = (granted / "notes" / "a.txt").stat()
    monkeypatch.setattr("os.stat", lambda *args, **options: regular)
    with anyio.fail_after(60):
        assert await Files(granted).refused("pipe") == ("denied", "'pipe' is no regular file")


async def test_a_list_is_sorted_says_what_each_entry_is_and_follows_no_link(granted: Path) -> None:
    (granted / "link").symlink_to(granted.parent / "outside")
    (granted / "B.txt").write_bytes(b"12345")
    os.mkfifo(granted / "pipe")
    assert await Files(granted).list() == {
        "entries": [
            {"name": "B.txt", "kind": "file", "size": 5},
            {"name": "link", "kind": "link", "size": 0},
            {"name": "notes", "kind": "folder", "size": 0},
            {"name": "pipe", "kind": "other", "size": 0},
        ],
        "more": False,
        "unnamed": 0,
    }
    assert [entry["name"] for entry in (await Files(granted).list("notes"))["entries"]] == ["a.txt"]


async def test_a_long_list_comes_in_pages(granted: Path) -> None:
    for number in range(5):
        (granted / "notes" / f"{number}").touch()
    files, after, pages = Files(granted, entries=2), "", []
    for _ in range(4):
        page = await files.list("notes", after=after)
        pages.append(([entry["name"] for entry in page["entries"]], page["more"]))
        after = page["entries"][-1]["name"]
        if not page["more"]:
            break
    assert pages == [(["0", "1"], True), (["2", "3"], True), (["4", "a.txt"], False)]
    with pytest.raises(CapabilityError, match="quota"):
        await Files(granted, entries=0).list()


async def test_names_that_no_path_can_have_are_counted_and_not_listed(granted: Path) -> None:
    for name in ("back\\slash", os.fsdecode(b"\xff\xfe")):
        try:
            (granted / "notes" / name).touch()
        except OSError:
            pytest.skip("this file system has no such names")
    found = await Files(granted).list("notes")
    assert ([entry["name"] for entry in found["entries"]], found["unnamed"]) == (["a.txt"], 2)


async def test_a_folder_without_end_is_refused_and_not_looked_through(
    granted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rho_wasm.capabilities.files._SCANNED", 3)
    for number in range(4):
        (granted / f"{number}").touch()
    with pytest.raises(CapabilityError, match="quota"):
        await Files(granted).list()


def move_on(granted: Path) -> None:
    granted.rename(granted.parent / "before")
    granted.symlink_to(granted.parent / "outside")


async def test_what_an_operator_puts_in_the_folders_place_is_read_from_then_on(granted: Path) -> None:
    files = Files(granted)
    assert (await files.read("notes/a.txt"))["data"] == b"public"
    move_on(granted)
    assert (await files.read("a.txt"))["data"] == b"secret"


@with_proc
async def test_no_descriptor_stays_open(granted: Path) -> None:
    (granted / "link").symlink_to("notes")
    files = Files(granted)
    with (granted / "notes" / "a.txt").open("rb"):
        assert opened_below(granted) == {granted / "notes" / "a.txt"}
    for path in ("notes/a.txt", "notes/b.txt", "link/a.txt", "notes", "notes/a.txt/b"):
        try:
            await files.read(path)
        except CapabilityError:
            pass
        try:
            await files.list(path)
        except CapabilityError:
            pass
    assert opened_below(granted) == set()


async def test_where_too_many_reads_were_left_behind_files_are_unavailable(granted: Path) -> None:
    threads, hang = HostThreads(max_abandoned=1), threading.Event()
    with anyio.move_on_after(0.01):
        await threads.run(hang.wait)
    try:
        assert (await Files(granted, threads=threads).refused("notes/a.txt"))[0] == "unavailable"
    finally:
        hang.set()


async def test_a_guest_reads_what_its_tool_was_granted_and_another_tools_guest_does_not(granted: Path) -> None:
    policy = Policy.model_validate({"tools": {"a": {"grants": {"files.read": {"folders": {"docs": str(granted)}}}}}})
    ask = asking("files.read", {"folder": "docs", "path": "notes/a.txt"})
    async with Host.open(":memory:", core=[], policy=policy) as host:
        artifact = relay("a", "b", capabilities=("files.read",))
        await host.source.activate(await host.source.stage(add=[artifact], author="test"))
        assert (await host.runner.run(call("a", ask))).value == {"data": b"public", "size": 6}
        assert (await host.runner.run(call("b", ask))).value["kind"] == "denied"
