"""Names, addresses and connections: what was checked is what is connected to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import anyio
import anyio.abc
import httpcore2

from rho_wasm.capabilities.http_addresses import Resolver
from tests.capabilities.http_server import fetch, granted, ok, refusal, serving


class Answers:
    """A name server that gives these answers in turn, the last one from then on."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Recorded(httpcore2.AnyIOBackend):
    """The network, with a list of what was connected to; ``elsewhere`` leads every connection there."""

    def __init__(self, elsewhere: int | None = None) -> None:
        self.connected: list[tuple[str, int]] = []
        self._elsewhere = elsewhere

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.connected.append((host, port))
        host, port = (host, port) if self._elsewhere is None else ("127.0.0.1", self._elsewhere)
        return await super().connect_tcp(host, port, timeout, local_address, socket_options)


async def test_a_name_is_resolved_once_and_connected_to_by_its_address() -> None:
    async with serving(ok()) as at:
        url = f"http://api.example:{at.port}"
        resolve, network = Answers(["127.0.0.1"], ["127.0.0.2"]), Recorded()
        bounds = granted(url, networks=["127.0.0.1/32"])
        assert (await fetch({"url": url}, bounds, resolve=resolve, network=network))["status"] == 200
        assert resolve.asked == ["api.example"]
        assert network.connected == [("127.0.0.1", at.port)]
        assert at.asked[0].headers["host"] == f"api.example:{at.port}"
        # What the name server says next is an address that nobody opened.
        refused = await refusal({"url": url}, bounds, resolve=resolve, network=network)
    assert refused.kind == "denied"
    assert "127" not in refused.message
    assert len(network.connected) == len(at.asked) == 1


async def test_a_name_with_any_address_that_is_not_public_is_refused() -> None:
    for addresses in (
        ["127.0.0.1"],
        ["93.184.216.34", "10.0.0.1"],
        ["10.0.0.1", "93.184.216.34"],
        ["::ffff:169.254.169.254"],
        ["fe80::1%2"],
        ["2606:2800:220:1::1", "::1"],
        ["64:ff9b::7f00:1"],
    ):
        network = Recorded()
        refused = await refusal(
            {"url": "http://api.example/"},
            granted("http://api.example", networks=[]),
            resolve=Answers(addresses),
            network=network,
        )
        assert refused.kind == "denied"
        assert refused.message == "api.example is at an address that this grant does not reach"
        assert network.connected == []


async def test_a_name_without_an_address_is_unavailable() -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError(f"{host} has the address 10.0.0.1")

    async def silent(host: str, port: int) -> Sequence[str]:
        await anyio.sleep_forever()
        return []

    resolvers: list[Resolver] = [unknown, Answers([]), Answers(["no address"]), silent]
    for resolve in resolvers:
        refused = await refusal(
            {"url": "http://api.example/"}, granted("http://api.example", timeout_ms=50), resolve=resolve
        )
        assert refused.kind == "unavailable"
        assert "10." not in refused.message


async def test_the_next_address_is_tried_where_nobody_answers() -> None:
    async with serving(ok()) as at:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as closed:
            nobody = closed.extra(anyio.abc.SocketAttribute.local_port)
        assert nobody != at.port
        url = f"http://api.example:{at.port}"
        network = Recorded()
        # On loopback only one address has the server.
        reply = await fetch({"url": url}, granted(url), resolve=Answers(["::1", "127.0.0.1"]), network=network)
    assert reply["status"] == 200
    assert [host for host, _ in network.connected] == ["::1", "127.0.0.1"]


async def test_a_connection_to_somebody_else_carries_no_request() -> None:
    async with serving(ok()) as at, serving(ok()) as other:
        for elsewhere, address in ((other.port, "127.0.0.1"), (at.port, "127.0.0.9")):
            url = f"http://api.example:{at.port}"
            refused = await refusal({"url": url}, granted(url), resolve=Answers([address]), network=Recorded(elsewhere))
            assert refused.kind == "denied"
    assert at.asked == other.asked == []


async def test_tls_is_asked_of_the_name_and_not_of_the_address() -> None:
    hello = bytearray()

    async def listen(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            hello.extend(await stream.receive())
            await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, listen)
        url = f"https://api.example:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        refused = await refusal({"url": url}, granted(url), resolve=Answers(["127.0.0.1"]))
        tasks.cancel_scope.cancel()
    assert refused.kind == "unavailable"
    assert b"api.example" in hello
    assert b"GET" not in hello
