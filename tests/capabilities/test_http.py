"""``http.fetch`` within its grant, against real servers on loopback."""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

import anyio
import anyio.abc
import pytest

from rho_wasm.capabilities import Capability
from rho_wasm.capabilities.http import FetchArguments, http_capabilities
from rho_wasm.capabilities.http_headers import HeaderRefused, checked
from rho_wasm.grants import HttpBounds
from tests.capabilities.http_server import Asked, context_of, fetch, granted, ok, redirect, refusal, serving


async def test_a_reply_has_status_url_headers_and_body() -> None:
    async with serving(ok(b'{"t": 21}', "Content-Type: application/json", "X-A: 1", "x-a: 2", "Set-Cookie: a=b")) as at:
        reply = await fetch({"url": f"{at.url}/oslo town?d=1#now"}, granted(at.url))
    assert reply == {
        "status": 200,
        "url": f"{at.url}/oslo%20town?d=1",
        "headers": {"content-length": "9", "content-type": "application/json", "x-a": "1, 2"},
        "body": '{"t": 21}',
    }
    asked = at.asked[0]
    assert asked.line == "GET /oslo%20town?d=1 HTTP/1.1"
    assert asked.headers == {
        "host": f"127.0.0.1:{at.port}",
        "accept": "*/*",
        "user-agent": "rho-wasm",
        "accept-encoding": "gzip, deflate",
        "connection": "close",
    }


async def test_an_error_status_is_an_answer() -> None:
    async with serving(ok(b"\x89PNG", "Content-Type: image/png", status="404 Not Found")) as at:
        reply = await fetch({"url": at.url}, granted(at.url))
    assert (reply["status"], reply["body"]) == (404, b"\x89PNG")


async def test_a_body_is_text_bytes_or_json() -> None:
    bodies: list[tuple[dict[str, Any], bytes, str | None]] = [
        ({"json": {"a": [1, None]}}, b'{"a":[1,null]}', "application/json"),
        ({"json": None}, b"null", "application/json"),
        ({"body": "é"}, "é".encode(), "text/plain; charset=utf-8"),
        ({"body": b"\0\1", "headers": {"Content-Type": "application/x"}}, b"\0\1", "application/x"),
        ({}, b"", None),
    ]
    async with serving(ok()) as at:
        for body, sent, content_type in bodies:
            await fetch({"url": at.url, "method": "post", **body}, granted(at.url, methods=["POST"]))
            asked = at.asked[-1]
            assert (asked.line, asked.body) == ("POST / HTTP/1.1", sent)
            assert asked.headers.get("content-type") == content_type
            assert asked.headers["content-length"] == str(len(sent))


async def test_other_methods_are_asked_where_they_are_granted() -> None:
    for method in ("HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"):
        async with serving(ok(b"" if method == "HEAD" else b"x")) as at:
            reply = await fetch({"url": at.url, "method": method}, granted(at.url, methods=[method]))
            assert (await refusal({"url": at.url}, granted(at.url, methods=[method]))).kind == "denied"
        assert reply["status"] == 200
        assert [asked.line for asked in at.asked] == [f"{method} / HTTP/1.1"]


async def test_a_response_without_a_length_ends_with_the_connection() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\n\r\nto the end") as at:
        assert (await fetch({"url": at.url}, granted(at.url)))["body"] == "to the end"


async def test_a_response_in_chunks_is_one_body() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n") as at:
        assert (await fetch({"url": at.url}, granted(at.url)))["body"] == "abcde"


async def test_a_prefix_of_the_path_is_kept() -> None:
    async with serving(ok()) as at:
        for rule, path in [("", "/"), ("/v1", "/v1"), ("/v1", "/v1/x?a=.."), ("/v1", "/%761/x"), ("/v1/", "/v1/")]:
            assert (await fetch({"url": at.url + path}, granted(at.url + rule)))["status"] == 200
        allowed = len(at.asked)
        for path in ("/v10", "/V1", "/", "//v1", "/v1/../x", "/v1/%2e%2e/x", "/v1%2f..%2fx", "/v1%2fx", "/?/v1/"):
            assert (await refusal({"url": at.url + path}, granted(at.url + "/v1"))).kind == "denied", path
        assert (await refusal({"url": at.url + "/v1"}, granted(at.url + "/v1/"))).kind == "denied"
    assert len(at.asked) == allowed


async def test_nothing_is_asked_without_a_rule_for_it() -> None:
    async with serving(ok()) as at:
        other = f"http://localhost:{at.port}"
        for url, bounds in [
            (at.url, granted()),
            (at.url, granted(other)),
            (at.url, granted(f"https://127.0.0.1:{at.port}")),
            (at.url, granted("http://127.0.0.1")),
            (at.url, granted("http://*.example.com")),
            (at.url, granted(at.url, methods=[])),
        ]:
            refused = await refusal({"url": url}, bounds)
            assert refused.kind == "denied"
            assert "is not granted" in refused.message
    assert at.asked == []


async def test_no_way_of_writing_loopback_gets_round_the_rules() -> None:
    hosts = ["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost"]
    hosts += ["api.example@127.0.0.1", "127.0.0.1%2f@api.example", "[::1]", "[::1%25lo]", "127.0.0.1"]
    async with serving(ok()) as at:
        bounds = granted("http://api.example", f"http://api.example:{at.port}", networks=[])
        for host in hosts:
            assert (await refusal({"url": f"http://{host}:{at.port}/"}, bounds)).kind == "denied", host
    assert at.asked == []


async def test_a_rule_for_an_address_does_not_open_its_network() -> None:
    async with serving(ok()) as at:
        for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "localhost"):
            url = f"http://{host}:{at.port}"
            refused = await refusal({"url": url}, granted(url, networks=["10.0.0.0/8"]))
            assert refused.kind == "denied"
            assert "does not reach" in refused.message
        mapped = f"http://[::ffff:127.0.0.1]:{at.port}"
        assert (await refusal({"url": mapped}, granted(mapped, networks=["::ffff:0:0/96"]))).kind == "denied"
    assert at.asked == []


async def test_arguments_that_are_no_request_are_invalid() -> None:
    wrong: list[dict[str, str]] = [
        {"a b": "c"},
        {"X-A": "one\r\nHost: evil"},
        {"X-A": "one\nX-B: two"},
        {"X-A": "nul\0"},
        {"X-A": " padded"},
        {"X-A": "é"},
        {"X-A\r\nX-B": "c"},
        {"X-A": "1", "x-a": "2"},
        {"X-A": "1", "X_A": "2"},
        {"": "1"},
        {"x-a": "1" * 40_000},
    ]
    requests: list[dict[str, Any]] = [{"url": "x"}, {"url": "https://a.example/\r\nX: y"}]
    requests += [{"url": "https://a.example", "headers": headers} for headers in wrong]
    for arguments in requests:
        refused = await refusal(arguments, granted("https://a.example"))
        assert refused.kind == "invalid_arguments", arguments
        assert len(refused.message) < 300


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"url": 1},
        {"url": "x", "extra": 1},
        {"url": "x", "timeout_ms": 0},
        {"url": "x", "body": "a", "json": None},
        {"url": "x", "headers": {f"x-{number}": "1" for number in range(65)}},
    ],
)
def test_what_is_not_of_the_model_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="FetchArguments"):
        FetchArguments.model_validate(arguments)


async def test_what_is_the_hosts_to_say_the_guest_may_not() -> None:
    names = ["Host", "Authorization", "Cookie", "Proxy-Authorization", "Proxy-Connection", "Connection", "Keep-Alive"]
    names += ["TE", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Expect", "Accept-Encoding"]
    names += ["X-HTTP-Method-Override", "X-Original-URL", "Transfer_Encoding", "sec-fetch-site", "Coo\u212aie"]
    for name in names:
        refused = await refusal({"url": "https://a.example", "headers": {name: "x"}}, granted("https://a.example"))
        assert refused.kind == "denied"
        assert name.lower() in refused.message


@pytest.mark.parametrize(
    "name",
    [
        *("X-Forwarded-For", "X_Forwarded_For", "X.Forwarded.Host", "X-Forwarded-User", "X-Forwarded-Uri", "X-Real-IP"),
        *("True-Client-IP", "X-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP", "Client-IP", "X-Remote-User"),
        *(
            "Remote-User",
            "Remote_User",
            "X-Original-URI",
            "X-Original-Host",
            "X-Rewrite-URL",
            "X-Host",
            "X-Http-Method",
        ),
        *("X-Method-Override", "X-Accel-Redirect", "X-Envoy-Original-Path", "X-WebAuth-User", "Client-Cert"),
    ],
)
def test_what_a_proxy_says_to_a_server_the_guest_may_not(name: str) -> None:
    with pytest.raises(HeaderRefused, match="the host's to set") as refused:
        checked({name: "x"}, most_bytes=1_000)
    assert not refused.value.malformed


def test_what_services_ask_of_their_clients_the_guest_may_say() -> None:
    names = ["x-api-key", "api_key", "x-auth-token", "x-amz-date", "x-goog-api-key", "x-client-id", "x-client-version"]
    names += ["x-request-id", "x-csrf-token", "x-requested-with", "x-user-agent", "x-csrf.token2", "range", "origin"]
    names += ["if-none-match", "idempotency-key", "openai-organization", "anthropic-version", "x-github-api-version"]
    fields = dict.fromkeys(names, "x")
    assert checked(fields, most_bytes=10_000) == fields


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth > 1 else []


async def test_sizes_and_counts_have_bounds() -> None:
    async with serving(ok(b"x" * 1_000, "X-A: " + "y" * 1_000)) as at:

        async def quota(message: str, arguments: dict[str, Any] | None = None, **bounds: Any) -> None:
            refused = await refusal(
                {"url": at.url, **(arguments or {})}, granted(at.url, methods=["GET", "POST"], **bounds)
            )
            assert refused.kind == "quota"
            assert message in refused.message

        assert len((await fetch({"url": at.url}, granted(at.url, response_bytes=1_000)))["body"]) == 1_000
        await quota("999 bytes", response_bytes=999)
        await quota("header", header_bytes=1_000)
        await quota("request's body", {"method": "POST", "body": "x" * 11}, request_bytes=10)
        await quota("json is more", {"method": "POST", "json": [0] * 100_000}, request_bytes=1_000_000)
        await quota("json is more", {"method": "POST", "json": nested(65)})
        await quota("0 requests", requests=0)
        context = context_of(granted(at.url, requests=2))
        await fetch({"url": at.url}, context.bounds, context=context)
        await fetch({"url": at.url}, context.bounds, context=context)
        assert (await refusal({"url": at.url}, context.bounds, context=context)).kind == "quota"


async def test_a_request_that_takes_too_long_is_given_up() -> None:
    async def trickle(asked: Asked, stream: anyio.abc.ByteStream) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            await stream.send(b"y")
            await anyio.sleep(0.01)

    async with serving(trickle) as at:
        lowered = await refusal({"url": at.url, "timeout_ms": 60}, granted(at.url))
        assert (lowered.kind, lowered.fault) == ("quota", False), "what the guest chose itself is its own to bear"
        assert "60 ms" in lowered.message
        refused = await refusal({"url": at.url, "timeout_ms": 50_000}, granted(at.url, timeout_ms=50))
        assert (refused.kind, refused.fault) == ("unavailable", False)
        assert "50 ms" in refused.message


async def test_whoever_cancels_the_call_cancels_the_request() -> None:
    reached = anyio.Event()

    async def silent(asked: Asked, stream: anyio.abc.ByteStream) -> None:
        reached.set()
        await anyio.sleep_forever()

    async with serving(silent) as at, anyio.create_task_group() as tasks:
        tasks.start_soon(fetch, {"url": at.url}, granted(at.url))
        await reached.wait()
        tasks.cancel_scope.cancel()
    assert tasks.cancel_scope.cancelled_caught


async def test_a_server_that_is_none_is_unavailable() -> None:
    for answer in (
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        ok(b"not gzip", "Content-Encoding: gzip"),
        ok(b"?", "Content-Encoding: br"),
    ):
        async with serving(answer) as at:
            assert (await refusal({"url": at.url}, granted(at.url))).kind == "unavailable", answer
    refused = await refusal({"url": at.url}, granted(at.url))
    assert refused.kind == "unavailable"
    assert f"127.0.0.1:{at.port}" in refused.message


async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(ok(b"proxy")) as proxy, serving(ok(b"server")) as at:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert (await fetch({"url": at.url}, granted(at.url)))["body"] == "server"
    assert proxy.asked == []


async def test_an_endless_response_is_stopped_at_the_bound() -> None:
    async def endless(asked: Asked, stream: anyio.abc.ByteStream) -> None:
        head, piece = {
            "/body": (b"\r\n\r\n", b"x" * 1_000),
            "/chunks": (b"\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 100),
            "/extensions": (b"\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;" + b"e" * 1_000 + b"\r\nx\r\n"),
            "/header": (b"\r\nX: ", b"y" * 1_000),
            "/headers": (b"\r\n", b"X: y\r\n" * 100),
            "/informational": (b"\r\n", b"\r\nHTTP/1.1 103 Early Hints\r\n" * 100),
        }[asked.line.split()[1]]
        status = b"103 Early Hints" if "info" in asked.line else b"200 OK"
        await stream.send(b"HTTP/1.1 " + status + head)
        while True:
            await stream.send(piece)

    async with serving(endless) as at:
        for path in ("/body", "/chunks", "/extensions", "/header", "/headers", "/informational"):
            bounds = granted(at.url, response_bytes=1_000, header_bytes=1_000, timeout_ms=20_000)
            refused = await refusal({"url": at.url + path}, bounds)
            assert (refused.kind, path) == ("quota", path)


async def test_a_compressed_response_is_counted_after_decompression() -> None:
    async with serving(ok(gzip.compress(bytes(100_000)), "Content-Encoding: gzip", "Content-Type: a/b")) as at:
        assert (await fetch({"url": at.url}, granted(at.url)))["body"] == bytes(100_000)
        refused = await refusal({"url": at.url}, granted(at.url, response_bytes=99_999))
    assert (refused.kind, refused.message) == ("quota", "a response's body has at most 99,999 bytes")


async def test_a_json_reply_is_plain_data() -> None:
    async with serving(ok(json.dumps({"a": 1}).encode(), "Content-Type: application/json")) as at:
        reply = await fetch({"url": at.url}, granted(at.url))
    assert type(reply) is dict
    assert {type(value) for value in reply.values()} == {int, str, dict}
    assert json.loads(reply["body"]) == {"a": 1}


def test_a_host_gets_one_capability() -> None:
    (capability,) = http_capabilities()
    assert isinstance(capability, Capability)
    assert (capability.name, capability.arguments, capability.bounds) == ("http.fetch", FetchArguments, HttpBounds)


def test_a_host_without_the_extra_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    assert http_capabilities() == ()


async def test_an_ipv6_address_is_asked_with_its_brackets() -> None:
    try:
        async with serving(redirect("/there"), host="::1") as at:
            url = f"http://[::1]:{at.port}"
            assert (await refusal({"url": url}, granted(url, redirects=0))).kind == "quota"
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    assert at.asked[0].headers["host"] == f"[::1]:{at.port}"
