"""Which addresses a request may go to, and how names become addresses.

Only what is public: an allow-list of names says nothing about where a name points today. ``ipaddress`` calls several
networks global that lead elsewhere (translations to IPv4, tunnels) and has changed its mind between patch releases, so
the networks are written down here, after IANA's registries of special-purpose addresses.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from rho_wasm.host_threads import HostThreads, NoThread

__all__ = ["Address", "Network", "Resolver", "ThreadResolver", "is_public", "may_reach", "unwrapped"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host name and port -> addresses as text; raises OSError where there are none. Zone ids may follow a ``%``."""

_PRIVATE_4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",
            "100.64.0.0/10",  # behind a carrier's NAT; one cloud's metadata
            "127.0.0.0/8",
            "168.63.129.16/32",  # a cloud's own services, in an address that looks public
            "169.254.0.0/16",  # link-local; most clouds' metadata
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_GLOBAL_6: Final = ipaddress.IPv6Network("2000::/3")
"""All that is handed out. Outside it: ::/96, 64:ff9b::/96, 64:ff9b:1::/48, fc00::/7, fe80::/10, fec0::/10, ff00::/8."""
_PRIVATE_6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo and others
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: an IPv4 address within
            "3fff::/20",  # documentation
        ),
    )
)


def unwrapped(address: Address) -> Address:
    """The IPv4 address in ``::ffff:a.b.c.d``, which is where such a packet goes; any other address as it is."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_public(address: Address) -> bool:
    """Whether ``address`` (unwrapped) is one host of the public Internet."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not any(address in network for network in _PRIVATE_4)
    if address.scope_id is not None or address not in _GLOBAL_6:
        return False
    return address.is_global and not any(address in network for network in _PRIVATE_6)


def may_reach(address: Address, networks: Iterable[Network]) -> bool:
    """Whether ``address`` is public, or in one of the ``networks`` that a grant opens. Never one with a zone id."""
    address = unwrapped(address)
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        return False
    return is_public(address) or any(address in network for network in networks)


class ThreadResolver:
    """The system's resolver, in a daemon thread that is left behind when the caller is cancelled.

    Python can stop no ``getaddrinfo``. At most 16 of them, 4 by one guest, run on; then names are not resolved until
    one ends (OSError).
    """

    def __init__(self) -> None:
        self._threads = HostThreads()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        try:
            outcome = await self._threads.run(_addresses_of, host, port)
        except NoThread as error:
            raise OSError("too many look-ups hang") from error
        if outcome.error is not None:
            raise OSError("the name has no address") from outcome.error
        return [str(address) for address in outcome.value]


def _addresses_of(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
