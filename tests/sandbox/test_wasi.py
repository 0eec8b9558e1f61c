"""The WASI subset, called by a real guest: what each function answers, and what it refuses."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator

import pytest

from rho_wasm.calls import CallMeter
from rho_wasm.errors import ToolError
from rho_wasm.results import LogLine
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.abi import WASI, WASI_IMPORTS
from rho_wasm.sandbox.virtual import START_NS
from rho_wasm.sandbox.wasi import CLOCK_NOTE, FUNCTIONS, MAX_RANDOM_BYTES, RANDOM_NOTE
from tests.sandbox.wasi_probe import WINDOW, Probe, probe_wasm

pytestmark = pytest.mark.anyio

SUCCESS, EBADF, EINVAL, ESPIPE = 0, 8, 28, 70
OUT = WINDOW + 1024
"""Where functions are told to write, in what the probe shows."""
PAGE = 65_536
BAD_POINTERS = [PAGE - 3, PAGE, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, -1]


@pytest.fixture
async def probe(sandbox: Sandbox) -> AsyncIterator[Probe]:
    with await sandbox.load(probe_wasm()) as module:
        yield Probe(sandbox, module)


def iovs(*pieces: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("<II", *piece) for piece in pieces)


def clock_subscription(userdata: int, timeout: int, *, clock: int = 1, absolute: bool = False) -> bytes:
    return struct.pack("<QBxxxxxxxIxxxxQQHxxxxxx", userdata, 0, clock, timeout, 0, absolute)


def fd_subscription(userdata: int, kind: int, descriptor: int) -> bytes:
    return struct.pack("<QBxxxxxxxI28x", userdata, kind, descriptor)


async def trapped(probe: Probe, name: str, *arguments: int, memory: bytes = b"") -> ToolError:
    with pytest.raises(ToolError) as caught:
        await probe(name, *arguments, memory=memory)
    return caught.value


def test_the_functions_are_those_of_the_table_with_its_types() -> None:
    assert {function.name: (function.params, function.results) for function in FUNCTIONS} == {
        name: tuple(signature) for name, signature in WASI_IMPORTS.items()
    }
    assert {function.module for function in FUNCTIONS} == {WASI}
    assert len(FUNCTIONS) == 20


async def test_there_are_no_arguments_and_no_environment(probe: Probe) -> None:
    for name in ("args_sizes_get", "environ_sizes_get"):
        filled = b"\xff" * 16
        probed = await probe(name, WINDOW, WINDOW + 8, memory=filled)
        assert (probed.errno, probed.u32(WINDOW), probed.u32(WINDOW + 8)) == (SUCCESS, 0, 0)
    for name in ("args_get", "environ_get"):
        probed = await probe(name, WINDOW, WINDOW + 8, memory=b"\xff" * 16)
        assert (probed.errno, probed.at(WINDOW, 16)) == (SUCCESS, b"\xff" * 16)


async def test_the_clock_is_virtual_and_every_call_sees_the_same_time(probe: Probe) -> None:
    for clock in range(4):
        probed = await probe("clock_time_get", clock, 0, OUT)
        assert (probed.errno, probed.u64(OUT)) == (SUCCESS, START_NS + 1_000)
        assert (await probe("clock_res_get", clock, OUT)).u64(OUT) == 1_000


async def test_a_date_that_is_not_todays_is_noted_once_and_a_stop_watch_is_not(probe: Probe) -> None:
    note = LogLine(30, CLOCK_NOTE)
    assert [line for line in (await probe("clock_time_get", 0, 0, OUT)).log if line.text == CLOCK_NOTE] == [note]
    assert note not in (await probe("clock_time_get", 1, 0, OUT)).log


@pytest.mark.parametrize("clock", [4, -1, 0x7FFF_FFFF])
async def test_an_unknown_clock_is_refused(probe: Probe, clock: int) -> None:
    assert (await probe("clock_time_get", clock, 0, OUT)).errno == EINVAL
    assert (await probe("clock_res_get", clock, OUT)).errno == EINVAL


async def test_the_three_streams_are_character_devices_and_stay_open(probe: Probe) -> None:
    for descriptor, rights in ((0, 1 << 1), (1, 1 << 6), (2, 1 << 6)):
        stat = await probe("fd_fdstat_get", descriptor, OUT)
        assert (stat.errno, stat.at(OUT, 24)) == (SUCCESS, struct.pack("<BxHxxxxQQ", 2, 0, rights, 0))
        file = await probe("fd_filestat_get", descriptor, OUT)
        assert (file.errno, file.at(OUT, 64)) == (SUCCESS, bytes(16) + b"\x02" + bytes(7) + b"\x01" + bytes(39))
        assert (await probe("fd_fdstat_set_flags", descriptor, 4)).errno == SUCCESS
        assert (await probe("fd_close", descriptor)).errno == SUCCESS
        assert (await probe("fd_seek", descriptor, 0, 0, OUT)).errno == ESPIPE
        assert (await probe("fd_tell", descriptor, OUT)).errno == ESPIPE


@pytest.mark.parametrize("descriptor", [3, 4, 99, 0x7FFF_FFFF, -1])
async def test_any_other_descriptor_is_bad(probe: Probe, descriptor: int) -> None:
    for name in WASI_IMPORTS:
        if name.startswith("fd_"):
            assert (await probe(name, descriptor, OUT, 1, OUT)).errno == EBADF, name


async def test_there_are_no_directories_behind_the_streams_either(probe: Probe) -> None:
    for descriptor in range(5):
        assert (await probe("fd_prestat_get", descriptor, OUT)).errno == EBADF
        assert (await probe("fd_prestat_dir_name", descriptor, OUT, 10)).errno == EBADF


async def test_standard_input_is_at_its_end(probe: Probe) -> None:
    probed = await probe("fd_read", 0, WINDOW, 1, OUT, memory=iovs((OUT + 8, 100)))
    assert (probed.errno, probed.u32(OUT)) == (SUCCESS, 0)
    assert (await probe("fd_read", 1, WINDOW, 1, OUT, memory=iovs((OUT + 8, 100)))).errno == EBADF


async def test_output_and_errors_go_to_the_log_by_lines(probe: Probe) -> None:
    text = b"one\ntwo\nthree"
    memory = iovs((WINDOW + 64, 5), (WINDOW + 69, len(text) - 5)).ljust(64, b"\0") + text
    for descriptor, level in ((1, 20), (2, 30)):
        probed = await probe("fd_write", descriptor, WINDOW, 2, OUT, memory=memory)
        assert (probed.errno, probed.u32(OUT)) == (SUCCESS, len(text))
        assert list(probed.log) == [LogLine(level, "one"), LogLine(level, "two"), LogLine(level, "three")]


async def test_standard_input_cannot_be_written(probe: Probe) -> None:
    assert (await probe("fd_write", 0, WINDOW, 1, OUT, memory=iovs((WINDOW, 1)))).errno == EBADF


async def test_a_write_reads_no_more_than_the_log_has_room_for_and_counts_the_rest(probe: Probe) -> None:
    probed = await probe("fd_write", 1, WINDOW, 2, OUT, memory=iovs((0, 60_000), (0, 65_536)), log_bytes=100)
    assert (probed.errno, probed.u32(OUT)) == (SUCCESS, 125_536)
    assert probed.log.dropped_bytes == 125_436


async def test_a_write_takes_64_pieces_and_says_how_much_that_was(probe: Probe) -> None:
    # The window holds 64; the further ones that are claimed lie in memory too, and are not looked at.
    probed = await probe("fd_write", 1, WINDOW, 5_000, OUT, memory=iovs(*[(WINDOW, 2)] * 64))
    assert (probed.errno, probed.u32(OUT)) == (SUCCESS, 128)
    probed = await probe("fd_write", 1, WINDOW, 0xFFFF_FFFF, OUT, memory=iovs(*[(WINDOW, 2)] * 64))
    assert (probed.errno, probed.u32(OUT)) == (SUCCESS, 128)


async def test_a_write_of_nothing_is_fine(probe: Probe) -> None:
    for memory, count in ((b"", 0), (iovs((PAGE, 0)), 1)):
        probed = await probe("fd_write", 1, WINDOW, count, OUT, memory=memory)
        assert (probed.errno, probed.u32(OUT), len(probed.log)) == (SUCCESS, 0, 0)


@pytest.mark.parametrize(
    "piece", [(PAGE - 1, 2), (PAGE + 1, 0), (0, PAGE + 1), (0xFFFF_FFFF, 0xFFFF_FFFF), (16, 2**31)]
)
async def test_a_write_from_outside_the_memory_traps(probe: Probe, piece: tuple[int, int]) -> None:
    assert (await trapped(probe, "fd_write", 1, WINDOW, 1, OUT, memory=iovs(piece))).reason == "trapped"


async def test_more_bytes_than_can_be_counted_are_refused(probe: Probe) -> None:
    memory = iovs((0, 2**31), (0, 2**31))
    assert (await probe("fd_write", 1, WINDOW, 2, OUT, memory=memory)).errno == EINVAL


@pytest.mark.parametrize("pointer", BAD_POINTERS)
async def test_a_pointer_outside_the_memory_traps_in_every_function(probe: Probe, pointer: int) -> None:
    calls = {
        "args_sizes_get": (pointer, WINDOW),
        "environ_sizes_get": (WINDOW, pointer),
        "clock_res_get": (0, pointer),
        "clock_time_get": (0, 0, pointer),
        "fd_fdstat_get": (1, pointer),
        "fd_filestat_get": (1, pointer),
        "fd_read": (0, WINDOW, 0, pointer),
        "fd_write": (1, WINDOW, 0, pointer),
        "poll_oneoff": (pointer, WINDOW, 1, WINDOW),
        "random_get": (pointer, 4),
    }
    for name, arguments in calls.items():
        assert (await trapped(probe, name, *arguments)).reason == "trapped", name
    assert (await trapped(probe, "fd_write", 1, pointer, 1, OUT)).reason == "trapped"
    subscription = clock_subscription(1, 1)
    assert (await trapped(probe, "poll_oneoff", WINDOW, pointer, 1, OUT, memory=subscription)).reason == "trapped"
    assert (await trapped(probe, "poll_oneoff", WINDOW, OUT, 1, pointer, memory=subscription)).reason == "trapped"


async def test_a_sleep_returns_at_once_and_time_has_passed(probe: Probe) -> None:
    hour = 3_600_000_000_000
    memory = clock_subscription(7, hour) + clock_subscription(8, 2 * hour)
    probed = await probe("poll_oneoff", WINDOW, OUT, 2, WINDOW, memory=memory)
    # The first timeout fires; the later one has not passed yet.
    assert (probed.errno, probed.u32(WINDOW)) == (SUCCESS, 1)
    assert probed.at(OUT, 32) == struct.pack("<QHBxxxxxQHxxxxxx", 7, SUCCESS, 0, 0, 0)


async def test_an_absolute_timeout_in_the_past_fires_with_whatever_is_ready(probe: Probe) -> None:
    memory = clock_subscription(1, START_NS, absolute=True) + fd_subscription(2, 2, 1) + clock_subscription(3, 1)
    probed = await probe("poll_oneoff", WINDOW, OUT, 3, WINDOW, memory=memory)
    fired = [probed.u64(OUT + 32 * n) for n in range(probed.u32(WINDOW))]
    assert sorted(fired) == [1, 2]


async def test_a_timeout_beyond_all_time_is_no_trouble(probe: Probe) -> None:
    for absolute in (False, True):
        memory = clock_subscription(1, 2**64 - 1, absolute=absolute)
        assert (await probe("poll_oneoff", WINDOW, OUT, 1, WINDOW, memory=memory)).u32(WINDOW) == 1


@pytest.mark.parametrize(
    ("kind", "descriptor", "errno", "flags"),
    [(1, 0, SUCCESS, 1), (2, 1, SUCCESS, 0), (2, 2, SUCCESS, 0), (1, 1, EBADF, 0), (2, 0, EBADF, 0), (1, 3, EBADF, 0)],
)
async def test_streams_are_ready_and_other_descriptors_bad(
    probe: Probe, kind: int, descriptor: int, errno: int, flags: int
) -> None:
    probed = await probe("poll_oneoff", WINDOW, OUT, 1, WINDOW, memory=fd_subscription(5, kind, descriptor))
    assert probed.at(OUT, 32) == struct.pack("<QHBxxxxxQHxxxxxx", 5, errno, kind, 0, flags)


async def test_polls_of_unknown_kinds_clocks_or_numbers_are_refused(probe: Probe) -> None:
    assert (await probe("poll_oneoff", WINDOW, OUT, 1, OUT, memory=fd_subscription(1, 3, 0))).errno == EINVAL
    assert (await probe("poll_oneoff", WINDOW, OUT, 0, OUT)).errno == EINVAL
    assert (await probe("poll_oneoff", WINDOW, OUT, 65, OUT)).errno == EINVAL
    assert (await probe("poll_oneoff", WINDOW, OUT, -1, OUT)).errno == EINVAL
    probed = await probe("poll_oneoff", WINDOW, OUT, 1, WINDOW, memory=clock_subscription(1, 1, clock=9))
    assert struct.unpack_from("<H", probed.at(OUT + 8, 2)) == (EINVAL,)


async def test_randomness_follows_from_the_request_and_says_so_once(probe: Probe) -> None:
    first = await probe("random_get", OUT, 32)
    assert first.errno == SUCCESS
    assert first.at(OUT, 32) != bytes(32)
    assert [line for line in first.log if line.text == RANDOM_NOTE] == [LogLine(30, RANDOM_NOTE)]
    assert (await probe("random_get", OUT, 32)).window == first.window
    other = await probe("random_get", OUT, 32, memory=b"another request")
    assert other.at(OUT, 32) != first.at(OUT, 32)


async def test_randomness_is_bounded(probe: Probe) -> None:
    assert (await probe("random_get", OUT, 0)).errno == SUCCESS
    assert (await probe("random_get", 0, MAX_RANDOM_BYTES + 1)).errno == EINVAL
    assert (await probe("random_get", 0, -1)).errno == EINVAL
    assert (await trapped(probe, "random_get", PAGE - 8, 9)).reason == "trapped"


@pytest.mark.parametrize("code", [0, 3, -1])
async def test_exit_ends_the_call_with_its_code(probe: Probe, code: int) -> None:
    error = await trapped(probe, "proc_exit", code)
    assert error.reason == "handler_exit"
    assert str(code & 0xFFFF_FFFF) in error.detail


async def test_yielding_is_allowed(probe: Probe) -> None:
    assert (await probe("sched_yield")).errno == SUCCESS


async def test_what_a_write_copies_is_charged_as_fuel(probe: Probe) -> None:
    used: list[int] = []

    def note(meter: CallMeter) -> None:
        assert meter.fuel_used is not None
        used.append(meter.fuel_used)

    for size in (1, 60_000):
        await probe("fd_write", 1, WINDOW, 1, OUT, memory=iovs((0, size)), meter=note)
    assert used[1] - used[0] > 10_000
