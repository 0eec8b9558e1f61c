"""A module that is being started is given files of a table, and nothing else is there."""

from __future__ import annotations

import ctypes
import struct

import pytest

from rho_wasm.limits import Limits
from rho_wasm.sandbox.boot_files import BootFiles
from rho_wasm.sandbox.imports import HostFunction
from rho_wasm.sandbox.memory import GuestMemory
from rho_wasm.sandbox.state import CallState, GuestTrap

ROOT, NAME, IOVS, DATA, RESULT = 3, 1024, 2048, 4096, 512
NOENT, ROFS, NOSPC, BADF, NOSYS, MFILE, NAMETOOLONG, INVAL = 44, 69, 51, 8, 52, 33, 37, 28
CREATE = 1 | 8
WRITE = 1 << 6


class Guest:
    """Calls the functions as a module would, through a memory of 64 KiB."""

    def __init__(self, files: BootFiles) -> None:
        self._room = ctypes.create_string_buffer(65_536)
        self.memory = GuestMemory(ctypes.addressof(self._room), 65_536)
        self._state = CallState(limits=Limits())
        self._functions: dict[str, HostFunction] = {each.name: each for each in files.functions()}

    def call(self, name: str, *arguments: int) -> int | None:
        function = self._functions[name]
        assert len(arguments) == len(function.params)
        return function.call(self._state, self.memory, *arguments)

    def path(self, name: str) -> tuple[int, int]:
        self.memory.write(NAME, name.encode())
        return NAME, len(name.encode())

    def open(self, name: str, how: int = 0, rights: int = 0) -> int:
        """The descriptor, or the error number below zero."""
        code = self.call("path_open", ROOT, 0, *self.path(name), how, rights, 0, 0, RESULT)
        return -code if code else self.memory.read_u32(RESULT)

    def read(self, descriptor: int, length: int) -> bytes:
        self.memory.write(IOVS, struct.pack("<II", DATA, length))
        assert self.call("fd_read", descriptor, IOVS, 1, RESULT) == 0
        return self.memory.read(DATA, self.memory.read_u32(RESULT))

    def write(self, descriptor: int, data: bytes) -> int | None:
        self.memory.write(DATA, data)
        self.memory.write(IOVS, struct.pack("<II", DATA, len(data)))
        return self.call("fd_write", descriptor, IOVS, 1, RESULT)

    def seek(self, descriptor: int, offset: int, whence: int) -> int | None:
        return self.call("fd_seek", descriptor, offset, whence, RESULT)


@pytest.fixture
def files() -> BootFiles:
    return BootFiles({"main.c": b"int x;", "sdk/rho.h": b"header"}, writable="out.wasm", limit=100)


@pytest.fixture
def guest(files: BootFiles) -> Guest:
    return Guest(files)


@pytest.mark.parametrize("name", ["main.c", "/main.c", "./main.c", "sdk/../main.c", "../../main.c", "//main.c"])
def test_every_way_to_write_a_name_leads_to_its_file(guest: Guest, name: str) -> None:
    descriptor = guest.open(name)
    assert (guest.read(descriptor, 4), guest.read(descriptor, 40), guest.read(descriptor, 4)) == (b"int ", b"x;", b"")


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../etc/passwd", "", "sdk", "main.c/x", "out.wasm", "ma\0in.c", "ü"]
)
def test_what_is_not_in_the_table_is_not_there(guest: Guest, name: str) -> None:
    assert guest.open(name) == -NOENT


def test_a_name_may_be_long_only_so_far(guest: Guest) -> None:
    assert guest.open("x" * 1_025) == -NAMETOOLONG
    with pytest.raises(GuestTrap):
        guest.call("path_open", ROOT, 0, 65_500, 1_000, 0, 0, 0, 0, RESULT)


def test_only_one_file_can_be_written(guest: Guest, files: BootFiles) -> None:
    assert guest.open("main.c", CREATE) == -ROFS
    assert guest.open("other", CREATE) == -ROFS
    assert guest.open("main.c", 0, WRITE) == -ROFS
    descriptor = guest.open("out.wasm", CREATE, WRITE)
    assert guest.write(descriptor, b"abc") == 0
    assert guest.seek(descriptor, 5, 0) == 0
    assert guest.write(descriptor, b"z") == 0
    assert files.written == b"abc\0\0z"
    assert guest.write(guest.open("main.c"), b"x") == ROFS
    assert guest.open("out.wasm", CREATE) > ROOT
    assert files.written == b""


def test_it_is_written_no_longer_than_its_bound(guest: Guest, files: BootFiles) -> None:
    descriptor = guest.open("out.wasm", CREATE)
    assert guest.write(descriptor, b"x" * 100) == 0
    assert guest.write(descriptor, b"x") == NOSPC
    assert files.full
    assert guest.seek(descriptor, 2**62, 0) != 0
    assert guest.seek(descriptor, -1, 0) == INVAL
    assert guest.seek(descriptor, 0, 3) == INVAL
    assert len(files.written or b"") == 100


def test_what_is_written_can_be_taken_away_and_nothing_else(guest: Guest, files: BootFiles) -> None:
    guest.open("out.wasm", CREATE)
    assert guest.call("path_unlink_file", ROOT, *guest.path("out.wasm")) == 0
    assert files.written is None
    assert guest.call("path_unlink_file", ROOT, *guest.path("main.c")) == ROFS
    assert guest.call("path_unlink_file", ROOT, *guest.path("nothing")) == NOENT


def test_as_many_files_as_there_are_descriptors_are_open_at_once(guest: Guest) -> None:
    descriptors = [guest.open("main.c") for _ in range(64)]
    assert len(set(descriptors)) == 64
    assert guest.open("main.c") == -MFILE
    assert guest.call("fd_close", descriptors[7]) == 0
    assert guest.open("main.c") == descriptors[7]


def test_a_piece_outside_memory_ends_the_start(guest: Guest, files: BootFiles) -> None:
    for descriptor in (guest.open("main.c"), guest.open("out.wasm", CREATE)):
        guest.memory.write(IOVS, struct.pack("<II", 65_535, 50))
        with pytest.raises(GuestTrap):
            guest.call("fd_read" if descriptor == ROOT + 1 else "fd_write", descriptor, IOVS, 1, RESULT)


def test_the_folder_is_told_and_what_files_are(guest: Guest) -> None:
    assert guest.call("fd_prestat_get", ROOT, RESULT) == 0
    assert guest.memory.read(RESULT, 8) == struct.pack("<II", 0, 1)
    assert guest.call("fd_prestat_dir_name", ROOT, RESULT, 1) == 0
    assert guest.memory.read(RESULT, 1) == b"/"
    assert guest.call("fd_prestat_get", ROOT + 1, RESULT) == BADF
    sizes = {}
    for name in ("main.c", "sdk", ""):
        assert guest.call("path_filestat_get", ROOT, 0, *guest.path(name), RESULT) == 0
        sizes[name] = (guest.memory.read(RESULT + 16, 1)[0], guest.memory.read_u32(RESULT + 32))
    assert sizes == {"main.c": (4, 6), "sdk": (3, 0), "": (3, 0)}
    assert guest.call("path_filestat_get", ROOT, 0, *guest.path("nothing"), RESULT) == NOENT


def test_all_else_that_wasi_does_with_files_is_not_there(guest: Guest) -> None:
    assert guest.call("path_symlink", *guest.path("main.c"), ROOT, *guest.path("x")) == NOSYS
    assert guest.call("path_rename", ROOT, *guest.path("main.c"), ROOT, *guest.path("x")) == NOSYS
    assert guest.call("sock_send", 4, 0, 0, 0, 0) == NOSYS
    assert guest.call("path_open", 9, 0, *guest.path("main.c"), 0, 0, 0, 0, RESULT) == BADF
