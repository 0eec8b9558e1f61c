from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from rho_wasm.capabilities import Capability
from rho_wasm.capabilities.kv import kv_capabilities
from rho_wasm.capabilities.kv_backend import KvRoom
from rho_wasm.dynamic.kv import StoreKv
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import CapabilityError
from tests.capabilities.asking import Asking


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as store:
        yield store


@pytest.fixture
def capabilities(store: Store) -> tuple[Capability, ...]:
    return kv_capabilities(StoreKv(store.kv))


@pytest.fixture
def call(capabilities: tuple[Capability, ...]) -> Asking:
    return Asking(capabilities)


async def refused(call: Asking, capability: str, /, **arguments: Any) -> tuple[str, str]:
    with pytest.raises(CapabilityError) as caught:
        await call.later(capability, **arguments)
    return caught.value.kind, caught.value.message


async def test_a_null_is_told_apart_from_nothing(call: Asking) -> None:
    assert await call.later("kv.get", key="a") == {}
    assert await call.later("kv.put", key="a", value=None) == {"stored": True}
    assert await call.later("kv.get", key="a") == {"value": None}
    assert [await call.later("kv.delete", key="a") for _ in range(2)] == [{"deleted": True}, {"deleted": False}]
    assert await call.later("kv.get", key="a") == {}


@pytest.mark.parametrize(
    "value", [True, -(2**64), 2**64 - 1, 1.1, -0.0, math.inf, "grüße\0", b"\0\xff", [], {"": None, "a": [{"b": b""}]}]
)
async def test_any_plain_value_comes_back_as_it_was(call: Asking, value: Any) -> None:
    await call.later("kv.put", key="a", value=value)
    told = (await call.later("kv.get", key="a"))["value"]
    assert (type(told), told, repr(told)) == (type(value), value, repr(value))


async def test_a_tool_finds_in_its_next_call_what_it_kept_and_no_other_tool_does(
    capabilities: tuple[Capability, ...],
) -> None:
    await Asking(capabilities, tool="a").later("kv.put", key="k", value=1)
    assert await Asking(capabilities, tool="a").later("kv.get", key="k") == {"value": 1}
    other = Asking(capabilities, tool="b")
    for key in ("k", "../a/k", "a/k", "a:k", "a'k", "/a/k", "./../a/k", "A", "a\N{FULLWIDTH FULL STOP}k"):
        assert await other.later("kv.get", key=key) == {}
        assert await other.later("kv.delete", key=key) == {"deleted": False}
        assert await other.later("kv.put", key=key, value=2) == {"stored": True}
    assert (await other.later("kv.list", prefix="../"))["keys"] == ["../a/k"]
    assert await Asking(capabilities, tool="a").later("kv.get", key="k") == {"value": 1}
    assert await Asking(capabilities, tool="a").later("kv.list") == {"keys": ["k"], "more": False}


async def test_a_counter_loses_nothing_where_many_calls_count(capabilities: tuple[Capability, ...]) -> None:
    async def count() -> None:
        call = Asking(capabilities)
        while True:
            now = await call.later("kv.get", key="n")
            condition = {"expected": now["value"]} if now else {"if_absent": True}
            if (await call.later("kv.put", key="n", value=now.get("value", 0) + 1, **condition))["stored"]:
                return

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(count)
    assert await Asking(capabilities).later("kv.get", key="n") == {"value": 8}


async def test_two_values_are_the_same_if_their_encodings_are(call: Asking) -> None:
    async def swapped(expected: Any, value: Any) -> bool:
        return bool((await call.later("kv.put", key="a", expected=expected, value=value))["stored"])

    assert not await swapped(None, 1)  # there is nothing, which is not null
    await call.later("kv.put", key="a", value=None)
    assert await swapped(None, 1)
    assert not await swapped(1.0, 2)
    assert not await swapped(True, 2)
    assert await swapped(1, {"x": 1, "y": math.nan})
    assert await swapped({"y": math.nan, "x": 1}, "end")
    assert await call.later("kv.put", key="a", value=0, if_absent=True) == {"stored": False}
    assert await call.later("kv.put", key="b", value=0, if_absent=True) == {"stored": True}
    told = await refused(call, "kv.put", key="b", value=0, if_absent=True, expected=None)
    assert told == ("invalid_arguments", "arguments: either 'expected' or 'if_absent'")


async def test_the_room_of_a_tool_is_what_its_grant_says(store: Store, capabilities: tuple[Capability, ...]) -> None:
    call = Asking(capabilities, keys=2, bytes=20, value_bytes=10, key_bytes=4)
    assert await refused(call, "kv.put", key="a", value="v" * 10) == ("quota", "a value has at most 10 bytes")
    assert await refused(call, "kv.put", key="a", value="v", expected="v" * 10) == (
        "quota",
        "a value has at most 10 bytes",
    )
    long = ("invalid_arguments", "a key has at most 4 bytes")
    assert await refused(call, "kv.put", key="äää", value=1) == long
    assert await refused(call, "kv.get", key="12345") == long
    assert await refused(call, "kv.delete", key="12345") == long
    await call.later("kv.put", key="ää", value="v" * 9)  # 4 bytes and 10
    assert (await refused(call, "kv.put", key="b", value="v" * 9))[0] == "quota"  # 11 more: 25
    await call.later("kv.put", key="b", value="v" * 4)  # 6 more: exactly all
    assert (await refused(call, "kv.put", key="b", value="v" * 5))[0] == "quota"
    assert (await refused(call, "kv.put", key="c", value=1))[0] == "quota"
    await call.later("kv.delete", key="b")
    await call.later("kv.put", key="c", value=1)
    assert store.kv.sizes() == {"t": KvRoom(2, 16)}


async def test_a_value_that_a_reading_grant_is_too_narrow_for_is_not_read(
    capabilities: tuple[Capability, ...],
) -> None:
    await Asking(capabilities).later("kv.put", key="a", value="v" * 100)
    assert (await refused(Asking(capabilities, value_bytes=50), "kv.get", key="a"))[0] == "quota"


async def test_a_room_of_nothing_takes_nothing(capabilities: tuple[Capability, ...]) -> None:
    for call in (Asking(capabilities, keys=0), Asking(capabilities, bytes=0), Asking(capabilities, value_bytes=0)):
        assert (await refused(call, "kv.put", key="a", value=None))[0] == "quota"


async def test_many_puts_at_once_store_exactly_what_there_is_room_for(
    store: Store, capabilities: tuple[Capability, ...]
) -> None:
    stored = []

    async def put(number: int) -> None:
        try:
            await Asking(capabilities, keys=7).later("kv.put", key=f"{number}", value=number)
        except CapabilityError as error:
            assert error.kind == "quota"  # noqa: PT017
        else:
            stored.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(put, number)
    assert len(stored) == store.kv.sizes()["t"].keys == 7


async def test_a_list_is_read_page_by_page(call: Asking) -> None:
    keys = sorted(f"{prefix}/{number:02}" for prefix in "abc" for number in range(5))
    for key in reversed(keys):
        await call.later("kv.put", key=key, value=None)
    read: list[str] = []
    after = ""
    while True:
        page = await call.later("kv.list", after=after, limit=4)
        read += page["keys"]
        after = read[-1]
        if not page["more"]:
            break
    assert read == keys
    assert await call.later("kv.list", prefix="b/", after="b/02") == {"keys": ["b/03", "b/04"], "more": False}
    assert await call.later("kv.list", prefix="d") == {"keys": [], "more": False}
    assert await call.later("kv.list", prefix="b/", limit=5) == {"keys": keys[5:10], "more": False}


async def test_a_page_of_long_keys_ends_before_a_reply_is_too_long(capabilities: tuple[Capability, ...]) -> None:
    call = Asking(capabilities, key_bytes=4_096, bytes=10_000_000)
    for number in range(70):
        await call.later("kv.put", key=f"{number:04096}", value=None)
    page = await call.later("kv.list", limit=1_000)
    assert (len(page["keys"]), page["more"]) == (64, True)
    rest = await call.later("kv.list", limit=1_000, after=page["keys"][-1])
    assert (len(rest["keys"]), rest["more"]) == (6, False)


@pytest.mark.parametrize("key", ["", "a\0b", "a\nb", "\x1b[2J", "\x7f", "\x85", "x" * 5_000])
async def test_a_key_is_text_that_can_be_shown(call: Asking, key: str) -> None:
    for capability, more in (("kv.get", {}), ("kv.put", {"value": 1}), ("kv.delete", {})):
        kind, message = await refused(call, capability, key=key, **more)
        assert kind == "invalid_arguments"
        assert message.isprintable()
        assert len(message) < 200


@pytest.mark.parametrize(
    ("capability", "arguments"),
    [
        ("kv.get", {}),
        ("kv.get", {"key": b"a"}),
        ("kv.get", {"key": "a", "tool": "b"}),
        ("kv.put", {"key": "a"}),
        ("kv.put", {"key": "a", "value": 1, "if_absent": 1}),
        ("kv.list", {"limit": 0}),
        ("kv.list", {"limit": 1_001}),
        ("kv.list", {"limit": True}),
        ("kv.list", {"prefix": "\n"}),
    ],
)
async def test_what_is_not_asked_rightly_is_refused(call: Asking, capability: str, arguments: dict[str, Any]) -> None:
    assert (await refused(call, capability, **arguments))[0] == "invalid_arguments"


async def test_a_damaged_value_is_the_hosts_fault(store: Store, call: Asking) -> None:
    store.kv.put("t", "a", b"\xff", room=KvRoom(9, 99), all_bytes=99)
    assert (await refused(call, "kv.get", key="a"))[0] == "unavailable"
    await call.later("kv.put", key="a", value=1)
    assert await call.later("kv.get", key="a") == {"value": 1}


async def test_a_closed_store_is_unavailable(store: Store, call: Asking) -> None:
    store.close()
    assert await refused(call, "kv.get", key="a") == ("unavailable", "the store is closed")
