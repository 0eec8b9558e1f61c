"""Descriptor 3: a write is a host call, reads give the reply. Each function is called as wasmtime calls it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.errors import CapabilityError
from rho_wasm.limits import Limits
from rho_wasm.sandbox.asking import Step
from rho_wasm.sandbox.imports import EXTRA_HOST_CALLS
from rho_wasm.sandbox.imports import FUNCTIONS as RHO_FUNCTIONS
from rho_wasm.sandbox.memory import GuestMemory
from rho_wasm.sandbox.state import CallState, Capabilities, Elsewhere, GuestTrap
from rho_wasm.sandbox.wasi import CAPABILITIES, FUNCTIONS, MAX_IOVS
from tests.sandbox.guests import Granting

SUCCESS, EBADF, EINVAL, ESPIPE = 0, 8, 28, 70
PAGE = 65_536
REQUEST, TABLE, COUNT, ROOM = 1_024, 8, 0, 4_096
"""Where things are in the memory of a test."""


ECHO = Granting(lambda capability, arguments: {"asked": capability, **arguments})


class Channel:
    """A call that is in ``rho_call``, with its memory."""

    def __init__(
        self,
        *,
        declared: tuple[str, ...] = ("echo",),
        capabilities: Capabilities | None = ECHO,
        limits: Limits | None = None,
    ) -> None:
        self._buffer = ctypes.create_string_buffer(PAGE)
        self.memory = GuestMemory(ctypes.addressof(self._buffer), PAGE)
        self.state = CallState(limits=limits or Limits(), declared=frozenset(declared), capabilities=capabilities)
        self.state.answering = True

    def __call__(self, name: str, *arguments: int) -> int | None:
        body = next(function for function in FUNCTIONS if function.name == name)
        answered = body.call(self.state, self.memory, *arguments)
        if (asking := self.state.asking) is not None:
            assert asking.go_on(remaining_ms=1_000.0, hurried=False) is Step.REPLIED
            self.state.asking, self.state.reply = None, asking.reply
        return answered

    def write(self, request: bytes, *, cuts: tuple[int, ...] = ()) -> int | None:
        """Writes ``request``, in pieces where ``cuts`` says so."""
        self.memory.write(REQUEST, request)
        edges = (0, *cuts, len(request))
        pieces = [(REQUEST + begin, end - begin) for begin, end in pairwise(edges)]
        self.memory.write(TABLE, b"".join(struct.pack("<II", *piece) for piece in pieces))
        return self("fd_write", CAPABILITIES, TABLE, len(pieces), COUNT)

    def read(self, *lengths: int) -> bytes:
        """What one read into pieces of ``lengths`` gives."""
        table, at = b"", ROOM
        for length in lengths:
            table += struct.pack("<II", at, length)
            at += length
        self.memory.write(TABLE, table)
        assert self("fd_read", CAPABILITIES, TABLE, len(lengths), COUNT) == SUCCESS
        return self.memory.read(ROOM, self.memory.read_u32(COUNT))

    def parts(self, size: int) -> Iterator[bytes]:
        while part := self.read(size):
            yield part

    def ask(self, capability: str = "echo", **arguments: Any) -> Any:
        request = plain.encode({"capability": capability, "arguments": arguments})
        assert self.write(request) == SUCCESS
        assert self.memory.read_u32(COUNT) == len(request)
        return plain.decode(b"".join(self.parts(4_096)))


def kind(reply: Any) -> str:
    return str(reply["error"]["kind"])


def test_a_request_that_is_written_is_answered_to_reads() -> None:
    assert Channel().ask(n=1) == {"ok": {"asked": "echo", "n": 1}}


def test_a_request_may_come_in_pieces_of_one_write() -> None:
    channel = Channel()
    request = plain.encode({"capability": "echo", "arguments": {"text": "abc"}})
    assert channel.write(request, cuts=(1, 1, 7)) == SUCCESS
    assert channel.memory.read_u32(COUNT) == len(request)
    assert plain.decode(b"".join(channel.parts(1_000))) == {"ok": {"asked": "echo", "text": "abc"}}


def test_a_reply_is_read_part_by_part_and_then_ends() -> None:
    channel = Channel()
    channel.write(plain.encode({"capability": "echo", "arguments": {}}))
    whole = plain.encode({"ok": {"asked": "echo"}})
    assert channel.read(3) == whole[:3]
    assert channel.read(2, 0, 4) == whole[3:9]
    assert channel.read(100, 100) == whole[9:]
    assert channel.read(100) == b""
    assert channel.read(100) == b""


def test_without_a_request_there_is_nothing_to_read() -> None:
    assert Channel().read(100) == b""


def test_a_new_request_drops_the_reply_that_waits() -> None:
    channel = Channel()
    channel.write(plain.encode({"capability": "echo", "arguments": {"n": 1}}))
    channel.read(2)
    assert channel.ask(n=2) == {"ok": {"asked": "echo", "n": 2}}


def test_the_same_reply_is_there_for_host_take() -> None:
    channel = Channel()
    channel.write(plain.encode({"capability": "echo", "arguments": {}}))
    assert channel.state.reply == plain.encode({"ok": {"asked": "echo"}})


def test_without_declared_capabilities_there_is_no_such_descriptor() -> None:
    channel = Channel(declared=())
    channel.memory.write(TABLE, struct.pack("<II", REQUEST, 4))
    for name in ("fd_write", "fd_read"):
        assert channel(name, CAPABILITIES, TABLE, 1, COUNT) == EBADF
    assert channel("fd_close", CAPABILITIES) == EBADF
    for name in ("fd_fdstat_set_flags", "fd_fdstat_get", "fd_filestat_get", "fd_seek", "fd_tell"):
        assert channel(name, CAPABILITIES, ROOM) == EBADF, name
    assert channel.state.host_calls == 0


def test_it_is_a_stream_like_the_others() -> None:
    channel = Channel()
    assert channel("fd_fdstat_get", CAPABILITIES, ROOM) == SUCCESS
    assert channel.memory.read(ROOM, 24) == struct.pack("<BxHxxxxQQ", 2, 0, 1 << 1 | 1 << 6, 0)
    assert channel("fd_filestat_get", CAPABILITIES, ROOM) == SUCCESS
    assert channel("fd_close", CAPABILITIES) == SUCCESS
    assert channel("fd_seek", CAPABILITIES, 0, 0, ROOM) == ESPIPE
    assert channel("fd_tell", CAPABILITIES, ROOM) == ESPIPE
    for name in ("fd_prestat_get", "fd_prestat_dir_name"):
        assert channel(name, CAPABILITIES, ROOM, 4) == EBADF


@pytest.mark.parametrize("kind_of_poll", [1, 2])
def test_a_poll_finds_it_ready(kind_of_poll: int) -> None:
    for declared, errno in ((("echo",), SUCCESS), ((), EBADF)):
        channel = Channel(declared=declared)
        channel.memory.write(REQUEST, struct.pack("<QBxxxxxxxI28x", 7, kind_of_poll, CAPABILITIES))
        assert channel("poll_oneoff", REQUEST, ROOM, 1, COUNT) == SUCCESS
        assert channel.memory.read(ROOM, 12) == struct.pack("<QHBx", 7, errno, kind_of_poll)


@pytest.mark.parametrize(
    ("channel", "request_bytes", "expected"),
    [
        (Channel(capabilities=None), plain.encode({"capability": "echo", "arguments": {}}), "denied"),
        (Channel(), plain.encode({"capability": "other", "arguments": {}}), "undeclared"),
        (Channel(), plain.encode({"capability": "echo"}), "invalid_arguments"),
        (Channel(), b"", "invalid_arguments"),
        (Channel(), b"\xff\xff", "invalid_arguments"),
        (Channel(limits=Limits(request_bytes=8)), b"\xa1" * 9, "invalid_arguments"),
    ],
)
def test_what_is_not_granted_or_not_well_said_is_an_error_of_the_reply(
    channel: Channel, request_bytes: bytes, expected: str
) -> None:
    assert channel.write(request_bytes) == SUCCESS
    assert channel.memory.read_u32(COUNT) == len(request_bytes)
    assert kind(plain.decode(b"".join(channel.parts(64)))) == expected


def test_a_request_of_too_many_items_is_told_which_bound_it_met() -> None:
    channel = Channel(limits=Limits(items=20))
    channel.write(plain.encode({"capability": "echo", "arguments": {"a": [0] * 20}}))
    told = plain.decode(b"".join(channel.parts(64)))["error"]["message"]
    assert told == "the arguments have more than 20 items (Limits.items): give less at once"


def test_a_capability_may_say_no() -> None:
    def refuse(capability: str, arguments: Mapping[str, Any]) -> Any:
        raise CapabilityError("unavailable", "not today")

    assert kind(Channel(capabilities=Granting(refuse)).ask()) == "unavailable"


def test_outside_of_a_call_it_denies() -> None:
    channel = Channel()
    channel.state.answering = False
    assert kind(channel.ask()) == "denied"


def test_host_calls_are_counted_as_those_of_the_rho_module() -> None:
    channel = Channel(limits=Limits(host_calls=2))
    replies = [channel.ask() for _ in range(3)]
    assert ["ok" in reply for reply in replies] == [True, True, False]
    assert kind(replies[2]) == "quota"
    for _ in range(EXTRA_HOST_CALLS - 1):
        assert kind(channel.ask()) == "quota"
    with pytest.raises(GuestTrap) as caught:
        channel.ask()
    assert caught.value.reason == "too_many_host_calls"


def test_a_long_request_is_not_refused_on_the_event_loops_thread() -> None:
    channel = Channel(capabilities=None)
    channel.state.hurried = True
    assert kind(channel.ask()) == "denied"
    with pytest.raises(Elsewhere):
        channel.ask(text="x" * 300)


def test_what_is_copied_is_counted() -> None:
    channel = Channel()
    channel.ask(text="x" * 1_000)
    assert channel.memory.touched > 2_000


def test_a_request_too_long_to_be_allowed_is_not_read() -> None:
    channel = Channel(limits=Limits(request_bytes=100))
    before = channel.memory.touched
    channel.memory.write(TABLE, struct.pack("<II", 0, PAGE))
    assert channel("fd_write", CAPABILITIES, TABLE, 1, COUNT) == SUCCESS
    assert channel.memory.touched - before < 100
    assert channel.state.reply is not None


@pytest.mark.parametrize("count", [-1, MAX_IOVS + 1, 2**31 - 1])
def test_a_request_in_too_many_pieces_is_refused(count: int) -> None:
    channel = Channel()
    assert channel("fd_write", CAPABILITIES, TABLE, count, COUNT) == EINVAL
    assert channel.state.host_calls == 0


@pytest.mark.parametrize("count", [MAX_IOVS + 1, 2**31 - 1, -1])
def test_a_read_fills_no_more_pieces_than_that(count: int) -> None:
    channel = Channel()
    channel.write(plain.encode({"capability": "echo", "arguments": {"text": "x" * 200}}))
    channel.memory.write(TABLE, b"".join(struct.pack("<II", ROOM + n, 1) for n in range(MAX_IOVS)))
    assert channel("fd_read", CAPABILITIES, TABLE, count, COUNT) == SUCCESS
    assert channel.memory.read_u32(COUNT) == MAX_IOVS


@pytest.mark.parametrize(
    "piece", [(PAGE - 1, 2), (PAGE + 1, 0), (0, PAGE + 1), (0xFFFF_FFFF, 0xFFFF_FFFF), (16, 2**31)]
)
@pytest.mark.parametrize("name", ["fd_write", "fd_read"])
def test_a_piece_outside_the_memory_traps(name: str, piece: tuple[int, int]) -> None:
    channel = Channel()
    channel.ask()
    channel.memory.write(TABLE, struct.pack("<II", *piece))
    with pytest.raises(GuestTrap) as caught:
        channel(name, CAPABILITIES, TABLE, 1, COUNT)
    assert caught.value.reason == "trapped"


@pytest.mark.parametrize("pointer", [PAGE - 3, PAGE, 2**31 - 1, -(2**31), -1])
@pytest.mark.parametrize("name", ["fd_write", "fd_read"])
def test_a_table_or_a_count_outside_the_memory_traps(name: str, pointer: int) -> None:
    channel = Channel()
    channel.memory.write(TABLE, struct.pack("<II", ROOM, 4))
    for iovs, count in ((pointer, COUNT), (TABLE, pointer)):
        with pytest.raises(GuestTrap) as caught:
            channel(name, CAPABILITIES, iovs, 1, count)
        assert caught.value.reason == "trapped"


def test_more_bytes_than_can_be_counted_are_refused() -> None:
    channel = Channel()
    channel.memory.write(TABLE, struct.pack("<IIII", 0, 2**31, 0, 2**31))
    assert channel("fd_write", CAPABILITIES, TABLE, 2, COUNT) == EINVAL


def test_what_is_left_of_a_reply_is_not_copied_by_a_read() -> None:
    """20,000 reads of a byte out of a megabyte copied 20 GB."""
    channel = Channel()
    channel.write(plain.encode({"capability": "echo", "arguments": {"text": "a" * 40_000}}))
    whole = channel.state.reply
    assert whole is not None
    assert channel.read(1, 2) == whole[:3]
    assert channel.state.reply is whole
    assert channel.read(2) == whole[3:5]
    assert channel.state.reply is whole
    assert b"".join(channel.parts(30_000)) == whole[5:]
    assert channel.read(8) == b""


def test_a_reply_that_was_read_in_part_is_taken_from_there_and_the_next_one_from_its_beginning() -> None:
    channel = Channel()
    take = next(each for each in RHO_FUNCTIONS if each.name == "host_take")
    request = plain.encode({"capability": "echo", "arguments": {"n": 1}})
    channel.write(request)
    whole = channel.state.reply
    assert whole is not None
    assert channel.read(4) == whole[:4]
    assert take.call(channel.state, channel.memory, ROOM, 1_000) == len(whole) - 4
    assert channel.memory.read(ROOM, len(whole) - 4) == whole[4:]
    assert channel.read(4) == b""
    channel.write(request)
    assert channel.read(4) == whole[:4]
    channel.write(request)
    assert channel.read(1_000) == whole
