"""Every redirect is held to the rules like a first request."""

from __future__ import annotations

from tests.capabilities.http_server import context_of, fetch, granted, ok, redirect, refusal, serving


async def test_a_redirect_is_followed_within_the_grant() -> None:
    async with serving([redirect("next?a=1#part"), ok()]) as at:
        reply = await fetch({"url": f"{at.url}/v1/first"}, granted(at.url + "/v1"))
    assert (reply["status"], reply["url"]) == (200, f"{at.url}/v1/next?a=1")
    assert [asked.line for asked in at.asked] == ["GET /v1/first HTTP/1.1", "GET /v1/next?a=1 HTTP/1.1"]


async def test_a_redirect_out_of_the_grant_is_not_followed() -> None:
    locations = ["/v2", "/", "../v2", "/v1/%2e%2e%2fv2", "http://169.254.169.254/v1/latest/meta-data", "http://"]
    locations += ["http://[::ffff:127.0.0.1]/v1", "http://2130706433/v1", "//evil.example/v1", "file:///etc/passwd"]
    locations += ["http://user:password@127.0.0.1/v1", "gopher://127.0.0.1/v1", "/\\evil.example/v1"]
    async with serving(list(map(redirect, locations))) as at:
        for location in locations:
            refused = await refusal({"url": at.url + "/v1"}, granted(at.url + "/v1"))
            assert refused.kind == "denied", location
            assert "redirect" in refused.message
    assert {asked.line for asked in at.asked} == {"GET /v1 HTTP/1.1"}
    assert len(at.asked) == len(locations)


async def test_a_redirect_to_a_private_address_is_not_followed_even_where_its_name_is_granted() -> None:
    addresses = {"public.example": ["127.0.0.1"], "inside.example": ["10.0.0.1"]}

    async def resolve(host: str, port: int) -> list[str]:
        return addresses[host]

    async with serving(redirect("http://inside.example/x")) as at:
        first = f"http://public.example:{at.port}"
        bounds = granted(first, "http://*.example", networks=["127.0.0.1/32"])
        refused = await refusal({"url": first}, bounds, resolve=resolve)
    assert refused.kind == "denied"
    assert refused.message == "inside.example is at an address that this grant does not reach"


async def test_redirects_are_counted() -> None:
    async with serving(redirect("/again")) as at:
        refused = await refusal({"url": at.url}, granted(at.url, redirects=3))
        assert (refused.kind, refused.message) == ("quota", "at most 3 redirects")
        assert len(at.asked) == 4
        context = context_of(granted(at.url, redirects=20, requests=5))
        refused = await refusal({"url": at.url}, context.bounds, context=context)
        assert refused.kind == "quota"
        assert "5 requests" in refused.message
        assert len(at.asked) == 9


async def test_a_redirect_to_nowhere_is_an_answer() -> None:
    async with serving(ok(b"choose", status="302 Found")) as at:
        assert (await fetch({"url": at.url}, granted(at.url)))["status"] == 302


async def test_the_method_of_a_redirect_is_that_of_rfc_9110() -> None:
    for status, method, then, body in [
        (301, "POST", "GET", False),
        (302, "POST", "GET", False),
        (303, "POST", "GET", False),
        (303, "PUT", "GET", False),
        (303, "HEAD", "HEAD", False),
        (302, "PUT", "PUT", True),
        (307, "POST", "POST", True),
        (308, "POST", "POST", True),
    ]:
        async with serving([redirect("/then", status), ok(b"" if method == "HEAD" else b"x")]) as at:
            arguments = {"url": at.url, "method": method, "headers": {"X-Mine": "1"}}
            if method != "HEAD":
                arguments["body"] = "content"
            await fetch(arguments, granted(at.url, methods=["GET", "HEAD", "POST", "PUT"]))
        asked = at.asked[1]
        assert asked.line == f"{then} /then HTTP/1.1", status
        assert asked.body == (b"content" if body else b"")
        assert ("content-type" in asked.headers) == body
        assert asked.headers["x-mine"] == "1"


async def test_a_redirect_to_a_method_that_is_not_granted_is_not_followed() -> None:
    async with serving(redirect("/then", 303)) as at:
        refused = await refusal({"url": at.url, "method": "POST"}, granted(at.url, methods=["POST"]))
    assert refused.kind == "denied"
    assert len(at.asked) == 1


async def test_another_origin_gets_none_of_the_guests_own_fields() -> None:
    async with serving(ok()) as other, serving(redirect(f"{other.url}/then", 307)) as at:
        headers = {"X-Api-Key": "guests-own", "Accept": "text/x"}
        arguments = {"url": at.url, "method": "POST", "headers": headers, "body": "content"}
        reply = await fetch(arguments, granted(at.url, other.url, methods=["POST"]))
    assert reply["url"] == f"{other.url}/then"
    assert other.asked[0].headers.keys() & {"x-api-key", "accept", "content-type"} == {"accept", "content-type"}
    assert other.asked[0].body == b"content"


async def test_a_message_shows_what_a_server_said_bounded_and_inert() -> None:
    async with serving(redirect("http://evil.example/" + "a" * 5_000 + "\x1b[31m")) as at:
        refused = await refusal({"url": at.url}, granted(at.url))
    assert refused.kind in ("denied", "unavailable")
    assert len(refused.message) < 400
    assert refused.message.isprintable()
