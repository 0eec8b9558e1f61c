"""Which addresses are public."""

from __future__ import annotations

import ipaddress

import anyio
import pytest

from rho_wasm.capabilities.http_addresses import ThreadResolver, is_public, may_reach, unwrapped


@pytest.mark.parametrize(
    "text",
    [
        *("0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "169.254.169.254"),
        *("172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.0.9", "192.0.2.1", "192.88.99.1", "192.168.1.1"),
        *("198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
        "168.63.129.16",
        *("::", "::1", "::7f00:1", "::8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:10::1"),
        *("2001:1ff::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1", "fc00::1", "fd00::1"),
        *("fe80::1", "fe80::1%eth0", "2600::1%eth0", "fec0::1", "ff02::1", "ff0e::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
    ],
)
def test_what_is_not_the_public_internet_is_not_reached(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not is_public(unwrapped(address))
    assert not may_reach(address, [])


@pytest.mark.parametrize("text", ["8.8.8.8", "172.32.0.1", "192.0.1.1", "2600::1", "2001:4860::1", "::ffff:8.8.8.8"])
def test_what_is_public_is_reached(text: str) -> None:
    assert may_reach(ipaddress.ip_address(text), [])


def test_a_grant_opens_the_networks_that_it_names_and_no_others() -> None:
    networks = [ipaddress.ip_network("10.0.0.0/24"), ipaddress.ip_network("fd00::/64")]
    for text in ("10.0.0.7", "::ffff:10.0.0.7", "fd00::7", "8.8.8.8"):
        assert may_reach(ipaddress.ip_address(text), networks)
    for text in ("10.0.1.7", "127.0.0.1", "fd00:0:0:1::7", "fd00::7%eth0"):
        assert not may_reach(ipaddress.ip_address(text), networks)


async def test_the_systems_resolver_answers_addresses_or_that_there_are_none() -> None:
    resolve = ThreadResolver()
    with anyio.fail_after(60):
        assert "127.0.0.1" in await resolve("localhost", 80)
        with pytest.raises(OSError, match="no address"):
            await resolve("a" * 70, 80)
