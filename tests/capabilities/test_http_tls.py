"""TLS: certificates are verified for the name in the URL, and a redirect never leaves it."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.capabilities.http_server import fetch, granted, ok, redirect, refusal, serving


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of 127.0.0.1 alone, its key in the same file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "-", "-out", "-"]
    made = subprocess.run(command, capture_output=True, check=True)
    file.write_bytes(made.stdout)
    return file


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


async def test_a_host_says_whom_it_trusts(server_tls: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    async with serving(ok(b"over tls"), tls=server_tls) as at:
        reply = await fetch({"url": at.url}, granted(at.url), ssl_context=trusting)
        assert (reply["url"], reply["body"]) == (f"{at.url}/", "over tls")
        refused = await refusal({"url": at.url}, granted(at.url))
        assert refused.kind == "unavailable"
    assert len(at.asked) == 1


async def test_a_certificate_is_of_the_name_that_was_asked(
    server_tls: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with serving(ok(), tls=server_tls) as at:
        url = f"https://api.example:{at.port}"
        refused = await refusal({"url": url}, granted(url), ssl_context=trusting, resolve=resolve)
    assert refused.kind == "unavailable"
    assert at.asked == []


async def test_a_redirect_from_https_to_http_is_not_followed(
    server_tls: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    async with serving(ok()) as plain, serving(redirect(plain.url), tls=server_tls) as at:
        refused = await refusal({"url": at.url}, granted(at.url, plain.url), ssl_context=trusting)
    assert refused.kind == "denied"
    assert "https to http" in refused.message
    assert plain.asked == []
