"""One reading of a URL: canonical parts, and refusals of what other readers would read otherwise."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm.capabilities.http_urls import HttpUrl, UrlRefused
from rho_wasm.url_rules import UrlRule


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("https://api.example", "https://api.example/"),
        ("HTTPS://API.Example.:443/a", "https://api.example/a"),
        ("http://api.example:8080?q=1#part", "http://api.example:8080/?q=1"),
        ("http://127.0.0.1:80/", "http://127.0.0.1/"),
        ("http://[0:0::1]:8080/", "http://[::1]:8080/"),
        ("https://a.example/New York/é?q=a b", "https://a.example/New%20York/%C3%A9?q=a%20b"),
        ("https://a.example/%7euser/%2fx%c3%a9", "https://a.example/~user/%2Fx%C3%A9"),
        ("https://a.example/a//b/", "https://a.example/a//b/"),
        ("https://a.example/?", "https://a.example/?"),
        ("https://a.example/?u=https://b.example/../@", "https://a.example/?u=https://b.example/../@"),
        ("https://a.example/.../..a/b..", "https://a.example/.../..a/b.."),
        ("https://a.example/what%3F/no%231/\u2026", "https://a.example/what%3F/no%231/%E2%80%A6"),
    ],
)
def test_a_url_has_one_form(text: str, canonical: str) -> None:
    url = HttpUrl.parse(text)
    assert str(url) == canonical
    assert HttpUrl.parse(canonical) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example/x",
        "ftp://api.example/",
        "file:///etc/passwd",
        "https:/api.example/",
        "https://",
        "https:///x",
        "https://:443/",
        "https://./",
        " https://api.example/",
        "https://api.example:/",
        "https://api.example:0/",
        "https://api.example:65536/",
        "https://api.example:٤٤٣/",
        "https://api.example:80:80/",
        "https://api.example/100%",
        "https://api.example/%zz",
        "https://api.example/\r\nHost: evil",
        "https://api.example/\0",
        "https://api.example\\@evil.example/",
        "https://api.example/a\\..\\b",
        "https://api.example/\ud800",
        "https://[::1",
        "https://[::1]x/",
        "https://api.example/" + "a" * 9_000,
    ],
)
def test_what_is_no_url_is_malformed(text: str) -> None:
    with pytest.raises(UrlRefused) as refused:
        HttpUrl.parse(text)
    assert refused.value.malformed


@pytest.mark.parametrize(
    "host",
    [
        "user@api.example",
        "user:password@api.example",
        "api.example@evil.example",
        "api.example%40evil.example",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "127.0.0.01",
        "256.0.0.1",
        "1.2.3.4.5",
        "a.0x",
        "api..example",
        ".api.example",
        "api.example..",
        "-api.example",
        "api%2eexample",
        "api.example%00.evil.example",
        "bücher.example",
        "１２７.0.0.1",  # fullwidth digits, which some resolvers fold
        "api。example",
        "\u212aelvin.example",
        "[fe80::1%25eth0]",
        "[fe80::1%eth0]",
        "[::ffff:127.0.0.999]",
        "[v1.x]",
        "[]",
        "a b",
        "a" * 64 + ".example",
        ".".join(["a" * 60] * 5),
    ],
)
def test_a_host_that_others_may_read_otherwise_is_refused(host: str) -> None:
    with pytest.raises(UrlRefused) as refused:
        HttpUrl.parse(f"http://{host}/")
    assert not refused.value.malformed


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../admin",
        "/v1/..",
        "/v1/.",
        "/v1/%2e%2e/admin",
        "/v1/.%2E/admin",
        "/v1/..%2fadmin",
        "/v1/%2e%2e%2fadmin",
        "/v1/%252e%252e%252fadmin",
        "/v1/%25252e%25252e/admin",
        "/v1/..%5cadmin",
        "/v1/..;x=1/admin",
        "/v1/%2e%2e;/admin",
        "/v1/..%20/admin",
        "/v1/..%3F/admin",
        "/v1/..%253Fx",
        "/v1/..%23",
        "/v1/%E2%80%A5/admin",
        "/v1/%EF%BC%8E%EF%BC%8E/admin",
        "/v1/\uff0e\uff0e/admin",
        "/v1/..%EF%BC%8Fadmin",
        "/v1/%EF%BC%852e%EF%BC%852e/admin",
        "/v1/x%00",
        "/v1/x%0d%0aHost:%20evil",
        "/v1/%250a",
        "/v1/%c0%ae%c0%ae/admin",
        "/v1/%ff",
        "/%" + "25" * 20 + "2e",
    ],
)
def test_a_path_that_some_server_reads_as_another_is_refused(path: str) -> None:
    with pytest.raises(UrlRefused):
        HttpUrl.parse("https://api.example" + path)


@pytest.mark.parametrize(
    ("location", "meant"),
    [
        ("/x", "https://a.example/x"),
        ("x", "https://a.example/v1/x"),
        ("?r=2", "https://a.example/v1/here?r=2"),
        ("#top", "https://a.example/v1/here?q=1"),
        ("", "https://a.example/v1/here?q=1"),
        ("//b.example/x", "https://b.example/x"),
        ("HTTP://b.example", "http://b.example/"),
        ("../x", "https://a.example/x"),
        ("../../../x", "https://a.example/x"),
        ("./x/%2E%2e/y/..", "https://a.example/v1/"),
        ("/a:b", "https://a.example/a:b"),
    ],
)
def test_a_redirect_means_what_rfc_3986_says(location: str, meant: str) -> None:
    assert str(HttpUrl.parse("https://a.example/v1/here?q=1").joined(location)) == meant


@pytest.mark.parametrize(
    "location", ["/\\evil.example", "//user@b.example", "javascript:1", "http:x", "/..%2fx", "/\n"]
)
def test_a_redirect_that_is_no_url_of_http_is_refused(location: str) -> None:
    with pytest.raises(UrlRefused):
        HttpUrl.parse("https://a.example/").joined(location)


_RULE = UrlRule.parse("https://a.example/v1")
_PIECES = ["https://", "http://", "a.example", "evil", "@", ":", "443", "/", "v1", ".", "..", "%2e", "%2F", "%5c", "\\"]
_PIECES += ["?", "#", ";", "[", "]", "%", "%25", " ", "é", "\t", "//"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=10).map("".join))
def test_what_a_rule_allows_is_what_is_asked(tail: str) -> None:
    """Whoever reads the canonical text anew, however laxly, comes to the host and the path that the rule was asked
    of."""
    try:
        url = HttpUrl.parse("https://a.example" + tail)
    except UrlRefused:
        return
    assert HttpUrl.parse(str(url)) == url
    if _RULE.covers(url.scheme, url.host, url.port, url.path):
        other = urlsplit(str(url))
        assert (other.scheme, other.hostname, other.port, other.username) == ("https", "a.example", None, None)
        depth = 0
        for part in unquote(unquote(other.path)).replace("\\", "/").split("/")[1:]:
            depth += {"..": -1, ".": 0}.get(part.partition(";")[0], 1)
            assert depth >= 1
        assert (other.path + "/").startswith("/v1/")
