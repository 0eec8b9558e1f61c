"""Files for a module that is being started: a handful in the memory of this process, of which it may write one.

A compiler that is WebAssembly opens its source and its headers by name. What it may open is a table of bytes, never a
file of the host: a name is looked up in that table and nowhere else. Guests of calls have no files at all.

Source: WASI preview 1, ``wasi_snapshot_preview1.witx`` (layouts and error numbers).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from rho_wasm.sandbox import wasi
from rho_wasm.sandbox.abi import WASI, FunctionType, ValueType
from rho_wasm.sandbox.imports import HostBody, HostFunction
from rho_wasm.sandbox.memory import GuestMemory
from rho_wasm.sandbox.state import CallState

__all__ = ["BootFiles"]

_SUCCESS = 0
_BADF, _FBIG, _INVAL, _MFILE, _NAMETOOLONG, _NOENT, _NOSPC, _NOSYS, _ROFS = 8, 22, 28, 33, 37, 44, 51, 52, 69
_ROOT = 3
"""The descriptor of the one folder, which is called ``/``."""
_MAX_OPEN = 64
_NAME_BYTES = 1_024
_CREATE, _TRUNCATE = 1 << 0, 1 << 3
_RIGHT_WRITE = 1 << 6
_FOLDER, _REGULAR = 3, 4
_RIGHTS = 0x1FFF_FFFF
_MASK = 0xFFFF_FFFF

_FDSTAT = struct.Struct("<BxHxxxxQQ")
_FILESTAT = struct.Struct("<QQBxxxxxxxQQQQQ")

_I32: ValueType = "i32"
_TYPES: Mapping[str, str] = {
    "fd_advise": "iIIi",
    "fd_allocate": "iII",
    "fd_close": "i",
    "fd_datasync": "i",
    "fd_fdstat_get": "ii",
    "fd_fdstat_set_flags": "ii",
    "fd_fdstat_set_rights": "iII",
    "fd_filestat_get": "ii",
    "fd_filestat_set_size": "iI",
    "fd_filestat_set_times": "iIIi",
    "fd_pread": "iiiIi",
    "fd_prestat_dir_name": "iii",
    "fd_prestat_get": "ii",
    "fd_pwrite": "iiiIi",
    "fd_read": "iiii",
    "fd_readdir": "iiiIi",
    "fd_renumber": "ii",
    "fd_seek": "iIii",
    "fd_sync": "i",
    "fd_tell": "ii",
    "fd_write": "iiii",
    "path_create_directory": "iii",
    "path_filestat_get": "iiiii",
    "path_filestat_set_times": "iiiiIIi",
    "path_link": "iiiiiii",
    "path_open": "iiiiiIIii",
    "path_readlink": "iiiiii",
    "path_remove_directory": "iii",
    "path_rename": "iiiiii",
    "path_symlink": "iiiii",
    "path_unlink_file": "iii",
    "sock_accept": "iii",
    "sock_recv": "iiiiii",
    "sock_send": "iiiii",
    "sock_shutdown": "ii",
}
"""The parameters of all that WASI does with files and sockets; each answers an error number."""
_STREAMS = {function.name: function.call for function in wasi.FUNCTIONS}


@dataclass(slots=True)
class _Open:
    """A file that is open. ``data`` is the written file's own, or another's bytes."""

    data: bytes | bytearray
    position: int = 0


class BootFiles:
    """``files`` by their absolute names without the slash, and one more, ``writable``, of at most ``limit`` bytes.

    For one start. What is over ``limit`` is refused with the error number of a disk that is full.
    """

    def __init__(self, files: Mapping[str, bytes], *, writable: str, limit: int) -> None:
        self._files = dict(files)
        self._writable = writable
        self._limit = limit
        self._written: bytearray | None = None
        self._open: dict[int, _Open] = {}
        self.full = False
        """Whether something was refused because of ``limit``."""

    @property
    def written(self) -> bytes | None:
        """The bytes of the writable file, or None where it was not made."""
        return None if self._written is None else bytes(self._written)

    def functions(self) -> tuple[HostFunction, ...]:
        """What ``boot(functions=)`` is given. What is not here answers that there is no such function."""
        bodies: dict[str, HostBody] = {
            "fd_close": self._close,
            "fd_fdstat_get": self._fdstat,
            "fd_filestat_get": self._filestat,
            "fd_prestat_get": self._prestat,
            "fd_prestat_dir_name": self._prestat_name,
            "fd_read": self._read,
            "fd_seek": self._seek,
            "fd_tell": lambda state, memory, descriptor, place: self._seek(state, memory, descriptor, 0, 1, place),
            "fd_write": self._write,
            "path_filestat_get": self._path_filestat,
            "path_open": self._path_open,
            "path_unlink_file": self._unlink,
        }
        return tuple(_function(name, bodies.get(name, _no_such_function)) for name in _TYPES)

    def _path_open(
        self,
        state: CallState,
        memory: GuestMemory,
        folder: int,
        follow: int,
        name_at: int,
        length: int,
        how: int,
        rights: int,
        inherited: int,
        flags: int,
        place: int,
    ) -> int:
        name = self._name(memory, folder, name_at, length)
        if isinstance(name, int):
            return name
        if name == self._writable:
            if how & _CREATE and self._written is None:
                self._written = bytearray()
            if how & _TRUNCATE and self._written is not None:
                self._written.clear()
            data: bytes | bytearray | None = self._written
        elif how & (_CREATE | _TRUNCATE) or (rights & _RIGHT_WRITE and name in self._files):
            return _ROFS
        else:
            data = self._files.get(name)
        if data is None:
            return _NOENT
        if len(self._open) >= _MAX_OPEN:
            return _MFILE
        descriptor = next(number for number in range(_ROOT + 1, _ROOT + 2 + _MAX_OPEN) if number not in self._open)
        self._open[descriptor] = _Open(data)
        memory.write_u32(place, descriptor)
        return _SUCCESS

    def _path_filestat(
        self, state: CallState, memory: GuestMemory, folder: int, flags: int, name_at: int, length: int, place: int
    ) -> int:
        name = self._name(memory, folder, name_at, length)
        if isinstance(name, int):
            return name
        data = self._written if name == self._writable else self._files.get(name)
        if data is not None:
            return _put_filestat(memory, place, _REGULAR, len(data))
        below = f"{name}/" if name else ""
        return (
            _put_filestat(memory, place, _FOLDER, 0) if any(each.startswith(below) for each in self._files) else _NOENT
        )

    def _unlink(self, state: CallState, memory: GuestMemory, folder: int, name_at: int, length: int) -> int:
        name = self._name(memory, folder, name_at, length)
        if isinstance(name, int):
            return name
        if name != self._writable:
            return _ROFS if name in self._files else _NOENT
        self._written = None
        return _SUCCESS

    def _name(self, memory: GuestMemory, folder: int, name_at: int, length: int) -> str | int:
        """The name in the table that a path means, which may be of nothing; or an error number."""
        if folder != _ROOT:
            return _BADF
        if not 0 <= length <= _NAME_BYTES:
            return _NAMETOOLONG
        parts: list[str] = []
        for part in memory.read(name_at, length).decode("utf-8", "replace").split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        return "/".join(parts)

    def _close(self, state: CallState, memory: GuestMemory, descriptor: int) -> int:
        if descriptor in self._open:
            del self._open[descriptor]
            return _SUCCESS
        return _SUCCESS if descriptor == _ROOT else _of_streams("fd_close", state, memory, descriptor)

    def _fdstat(self, state: CallState, memory: GuestMemory, descriptor: int, place: int) -> int:
        if descriptor != _ROOT and descriptor not in self._open:
            return _of_streams("fd_fdstat_get", state, memory, descriptor, place)
        kind = _FOLDER if descriptor == _ROOT else _REGULAR
        memory.write(place, _FDSTAT.pack(kind, 0, _RIGHTS, _RIGHTS))
        return _SUCCESS

    def _filestat(self, state: CallState, memory: GuestMemory, descriptor: int, place: int) -> int:
        if descriptor == _ROOT:
            return _put_filestat(memory, place, _FOLDER, 0)
        if (found := self._open.get(descriptor)) is None:
            return _of_streams("fd_filestat_get", state, memory, descriptor, place)
        return _put_filestat(memory, place, _REGULAR, len(found.data))

    def _prestat(self, state: CallState, memory: GuestMemory, descriptor: int, place: int) -> int:
        if descriptor != _ROOT:
            return _BADF
        memory.write(place, struct.pack("<II", 0, 1))
        return _SUCCESS

    def _prestat_name(self, state: CallState, memory: GuestMemory, descriptor: int, place: int, length: int) -> int:
        if descriptor != _ROOT or length != 1:
            return _BADF
        memory.write(place, b"/")
        return _SUCCESS

    def _read(self, state: CallState, memory: GuestMemory, descriptor: int, iovs: int, count: int, read: int) -> int:
        if (found := self._open.get(descriptor)) is None:
            return _of_streams("fd_read", state, memory, descriptor, iovs, count, read)
        before = found.position
        for pointer, length in _pieces(memory, iovs, count):
            part = bytes(found.data[found.position : found.position + length])
            memory.write(pointer, part)
            found.position += len(part)
        memory.write_u32(read, found.position - before)
        return _SUCCESS

    def _write(
        self, state: CallState, memory: GuestMemory, descriptor: int, iovs: int, count: int, written: int
    ) -> int:
        if (found := self._open.get(descriptor)) is None:
            return _of_streams("fd_write", state, memory, descriptor, iovs, count, written)
        if not isinstance(found.data, bytearray):
            return _ROFS
        pieces = _pieces(memory, iovs, count)
        total = sum(length for _, length in pieces)
        if found.position + total > self._limit:
            self.full = True
            return _NOSPC
        for pointer, length in pieces:
            end = found.position + length
            if found.position > len(found.data):
                found.data.extend(bytes(found.position - len(found.data)))
            found.data[found.position : end] = memory.read(pointer, length)
            found.position = end
        memory.write_u32(written, total)
        return _SUCCESS

    def _seek(
        self, state: CallState, memory: GuestMemory, descriptor: int, offset: int, whence: int, place: int
    ) -> int:
        if (found := self._open.get(descriptor)) is None:
            return _of_streams("fd_seek", state, memory, descriptor, offset, whence, place)
        if not 0 <= whence <= 2:
            return _INVAL
        position = offset + (0, found.position, len(found.data))[whence]
        if position < 0:
            return _INVAL
        if position > self._limit + len(found.data):
            return _FBIG
        found.position = position
        memory.write_u64(place, position)
        return _SUCCESS


def _function(name: str, body: HostBody) -> HostFunction:
    params: tuple[ValueType, ...] = tuple("i32" if each == "i" else "i64" for each in _TYPES[name])
    return HostFunction.typed(WASI, name, FunctionType(params, (_I32,)), body)


def _no_such_function(state: CallState, memory: GuestMemory, *ignored: int) -> int:
    return _NOSYS


def _of_streams(name: str, state: CallState, memory: GuestMemory, *arguments: int) -> int:
    """What guests of calls get: standard input that is at its end, and output that goes to the log."""
    return _STREAMS[name](state, memory, *arguments) or _SUCCESS


def _pieces(memory: GuestMemory, iovs: int, count: int) -> list[tuple[int, int]]:
    # Further ones are left for the next, as a short read or write says.
    table = memory.read(iovs, 8 * min(count & _MASK, wasi.MAX_IOVS))
    return list(struct.iter_unpack("<II", table))


def _put_filestat(memory: GuestMemory, place: int, kind: int, size: int) -> int:
    memory.write(place, _FILESTAT.pack(1, 1, kind, 1, size, 0, 0, 0))
    return _SUCCESS
