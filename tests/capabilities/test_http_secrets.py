"""A guest says a secret's name; the value goes where the operator said, and never to the guest."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import anyio.abc
import pytest

from rho_wasm.capabilities.secrets import Secrets
from rho_wasm.secret_policy import SecretPolicy
from tests.capabilities.http_server import Asked, fetch, granted, ok, redirect, refusal, serving

VALUE = "s3cret/value+of=weather"


def secrets_for(origin: str, **fields: Any) -> Secrets:
    policy = SecretPolicy.model_validate({"origin": origin, **fields})
    return Secrets.load({"weather": policy, "other": policy}, given={"weather": VALUE, "other": "value-of-other"})


async def test_a_secret_is_sent_by_its_name() -> None:
    async with serving(ok()) as at:
        arguments = {"url": at.url, "secret": "weather"}
        await fetch(arguments, granted(at.url, secrets=["weather"]), secrets=secrets_for(at.url))
        keyed = secrets_for(at.url, header="X-Api-Key", prefix="")
        await fetch(arguments, granted(at.url, secrets=["weather"]), secrets=keyed)
        await fetch({"url": at.url}, granted(at.url, secrets=["weather"]), secrets=keyed)
    assert at.asked[0].headers["authorization"] == f"Bearer {VALUE}"
    assert at.asked[1].headers["x-api-key"] == VALUE
    assert at.asked[2].headers.keys().isdisjoint({"authorization", "x-api-key"})


async def test_guessing_names_tells_nothing() -> None:
    async with serving(ok()) as at:
        bounds = granted(at.url, secrets=["weather"])
        refusals = {
            (refused.kind, str(refused))
            for name in ("other", "nobody", "WEATHER", "weather ", "", "../weather", "*")
            for refused in [await refusal({"url": at.url, "secret": name}, bounds, secrets=secrets_for(at.url))]
        }
        # Granted, and the host has none of that name: the same answer.
        bounds = granted(at.url, secrets=["gone"])
        refused = await refusal({"url": at.url, "secret": "gone"}, bounds, secrets=secrets_for(at.url))
    assert {(refused.kind, str(refused))} == refusals
    assert len(refusals) == 1
    assert at.asked == []


async def test_a_secret_goes_to_its_own_origin_path_and_method_alone() -> None:
    async with serving(ok()) as at:
        bindings: list[tuple[str, dict[str, Any]]] = [
            ("/", {"path": "/v1"}),
            ("/v10", {"path": "/v1"}),
            ("/v1/%2e%2e/x", {"path": "/v1"}),
            ("/", {"methods": ["POST"]}),
            ("/", {"origin": f"https://127.0.0.1:{at.port}"}),
            ("/", {"origin": "http://127.0.0.1"}),
            ("/", {"origin": f"http://localhost:{at.port}"}),
        ]
        for path, fields in bindings:
            refused = await refusal(
                {"url": at.url + path, "secret": "weather"},
                granted(at.url, methods=["GET", "POST"], secrets=["weather"]),
                secrets=secrets_for(**{"origin": at.url, **fields}),
            )
            assert refused.kind == "denied", path
    assert at.asked == []


@pytest.mark.parametrize("name", ["x-api-key", "X_Api_Key", "x.api-key"])
async def test_the_guest_cannot_set_the_field_of_a_secret_beside_it(name: str) -> None:
    for header in ("X-Api-Key", "X_API_KEY"):
        refused = await refusal(
            {"url": "http://a.example", "secret": "weather", "headers": {name: "mine"}},
            granted("http://a.example", secrets=["weather"]),
            secrets=secrets_for("http://a.example", header=header),
        )
        assert refused.kind == "denied"
        assert "is the secret's" in refused.message


@pytest.mark.parametrize("name", ["Range", "If-Range", "if_range", "Request-Range", "A-IM"])
async def test_no_part_of_a_content_is_asked_for_with_a_secret(name: str) -> None:
    refused = await refusal(
        {"url": "http://a.example", "secret": "weather", "headers": {name: "bytes=0-9"}},
        granted("http://a.example", secrets=["weather"]),
        secrets=secrets_for("http://a.example"),
    )
    assert refused.kind == "denied"
    assert name.lower() in refused.message


async def test_a_part_of_a_content_is_no_answer_to_a_request_with_a_secret() -> None:
    async with serving(ok(VALUE[:9].encode(), status="206 Partial Content")) as at:
        bounds = granted(at.url, secrets=["weather"])
        refused = await refusal({"url": at.url, "secret": "weather"}, bounds, secrets=secrets_for(at.url))
        assert refused.kind == "denied"
        reply = await fetch({"url": at.url, "headers": {"Range": "bytes=0-8"}}, bounds, secrets=secrets_for(at.url))
    assert (reply["status"], reply["body"]) == (206, VALUE[:9])


async def test_a_content_that_was_cut_within_a_value_does_not_show_where() -> None:
    async with serving(ok(f"you sent: Bearer {VALUE[:-3]}".encode())) as at:
        bounds = granted(at.url, secrets=["weather"])
        reply = await fetch({"url": at.url, "secret": "weather"}, bounds, secrets=secrets_for(at.url))
    assert reply["body"] == "you sent: Bearer [secret]"


@pytest.mark.parametrize("form", [VALUE, quote(VALUE, safe=""), "s3%63ret" + VALUE[6:]])
async def test_a_redirect_whose_url_has_a_value_is_not_followed(form: str) -> None:
    async with serving(ok()) as other, serving(redirect(f"{other.url}/collect?t={form}")) as at:
        bounds = granted(at.url, other.url, secrets=["weather"])
        refused = await refusal({"url": at.url, "secret": "weather"}, bounds, secrets=secrets_for(at.url))
    assert refused.kind == "denied"
    assert "a secret's value stands in its URL" in refused.message
    assert other.asked == []


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_a_redirect_carries_no_secret(elsewhere: bool) -> None:
    async with serving(ok()) as other, serving([redirect(other.url if elsewhere else "/next"), ok()]) as at:
        await fetch(
            {"url": at.url, "secret": "weather"},
            granted(at.url, other.url, secrets=["weather"]),
            secrets=secrets_for(at.url),
        )
    assert "authorization" in at.asked[0].headers
    assert "authorization" not in (other.asked[0] if elsewhere else at.asked[1]).headers


async def test_an_endpoint_that_echoes_shows_no_value() -> None:
    async def echo(asked: Asked, stream: anyio.abc.ByteStream) -> None:
        sent = asked.headers["authorization"]
        body = {
            "headers": asked.headers,
            "base64": base64.b64encode(sent.encode()).decode(),
            "url": quote(sent, safe=""),
        }
        await stream.send(ok(json.dumps(body).encode(), f"X-Echo: {sent}", f"X-{VALUE.translate({47: 45, 61: 45})}: 1"))

    async with serving(echo) as at:
        reply = await fetch(
            {"url": f"{at.url}/?q={VALUE}", "secret": "weather"},
            granted(at.url, secrets=["weather"]),
            secrets=secrets_for(at.url),
        )
    shown = json.dumps(reply)
    for form in (VALUE, quote(VALUE, safe=""), base64.b64encode(VALUE.encode()).decode()[:-2]):
        assert form not in shown
    assert reply["headers"]["x-echo"] == "Bearer [secret]"
    assert json.loads(reply["body"])["headers"]["authorization"] == "Bearer [secret]"
    assert reply["url"] == f"{at.url}/?q=[secret]"


async def test_an_error_that_shows_what_a_server_said_shows_no_value() -> None:
    async with serving(redirect(f"http://evil.example/{VALUE}")) as at:
        refused = await refusal(
            {"url": at.url, "secret": "weather"}, granted(at.url, secrets=["weather"]), secrets=secrets_for(at.url)
        )
    assert refused.kind == "denied"
    assert "s3cret" not in str(refused)
