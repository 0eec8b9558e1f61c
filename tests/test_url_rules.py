"""Which URLs an operator's rule means, and what is no rule."""

from __future__ import annotations

import pytest

from rho_wasm.url_rules import UrlRule


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("https://api.example", "https://api.example"),
        ("https://API.Example:443/", "https://api.example"),
        ("http://a.example:8080/v1", "http://a.example:8080/v1"),
        ("https://*.example.com/v1/", "https://*.example.com/v1/"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://[0:0::1]:81", "http://[::1]:81"),
        ("http://localhost", "http://localhost"),
    ],
)
def test_a_rule_has_one_form(text: str, same: str) -> None:
    rule = UrlRule.parse(text)
    assert str(rule) == same
    assert UrlRule.parse(same) == rule


@pytest.mark.parametrize(
    "text",
    [
        "https://ban\u212a.example",
        "",
        "api.example",
        "ftp://api.example",
        "HTTPS://api.example",
        "https://",
        "https://*",
        "https://*.",
        "https://a.*.example",
        "https://user@api.example",
        "https://user:pw@api.example",
        "https://api.example:0",
        "https://api.example:65536",
        "https://api.example:",
        "https://api.example.",
        "https://-a.example",
        "https://b\u00fccher.example",
        "https://api.example/a b",
        "https://api.example/%2e%2e",
        "https://api.example/a/../b",
        "https://api.example/./a",
        "https://api.example//a",
        "https://api.example/a?b=c",
        "https://api.example#a",
        "https://api.example\\@evil.example",
        "https://2130706433",
        "https://0x7f000001",
        "https://0177.0.0.1",
        "https://127.1",
        "https://[fe80::1%25eth0]",
        "https://[::1",
        "https://*.127.0.0.1",
        "https://*.[::1]",
        "https://a.example\n",
        "https://" + "a" * 2_000,
    ],
)
def test_what_is_no_rule_is_refused_in_few_words(text: str) -> None:
    words = r"a rule is|a port is|a path has|a host is|host is no|no subdomains"
    with pytest.raises(ValueError, match=words) as caught:
        UrlRule.parse(text)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_a_path_is_a_prefix_of_whole_parts() -> None:
    rule = UrlRule.parse("https://api.example/v1")
    assert rule.covers("https", "api.example", 443, "/v1")
    assert rule.covers("https", "api.example", 443, "/v1/x")
    assert not rule.covers("https", "api.example", 443, "/v10")
    assert not rule.covers("https", "api.example", 443, "/")
    folder = UrlRule.parse("https://api.example/v1/")
    assert folder.covers("https", "api.example", 443, "/v1/x")
    assert not folder.covers("https", "api.example", 443, "/v1")


def test_scheme_host_and_port_are_those_of_the_rule() -> None:
    rule = UrlRule.parse("https://api.example")
    assert rule.covers("https", "api.example", 443, "/any")
    assert not rule.covers("http", "api.example", 443, "/")
    assert not rule.covers("https", "api.example", 8443, "/")
    assert not rule.covers("https", "xapi.example", 443, "/")
    assert not rule.covers("https", "a.api.example", 443, "/")


def test_subdomains_are_below_the_name_and_never_the_name_itself() -> None:
    rule = UrlRule.parse("https://*.example.com")
    assert rule.covers("https", "a.example.com", 443, "/")
    assert rule.covers("https", "a.b.example.com", 443, "/")
    assert not rule.covers("https", "example.com", 443, "/")
    assert not rule.covers("https", "badexample.com", 443, "/")


@pytest.mark.parametrize(
    ("one", "other", "met"),
    [
        ("https://a.example", "https://a.example/v1", "https://a.example/v1"),
        ("https://a.example/v1", "https://a.example/v10", None),
        ("https://a.example", "http://a.example", None),
        ("https://a.example", "https://a.example:444", None),
        ("https://*.example.com", "https://a.example.com", "https://a.example.com"),
        ("https://*.example.com", "https://*.b.example.com/x", "https://*.b.example.com/x"),
        ("https://*.example.com/x", "https://a.example.com", "https://a.example.com/x"),
        ("https://*.example.com", "https://*.example.com", "https://*.example.com"),
        ("https://*.example.com", "https://example.com", None),
        ("https://*.example.com", "https://*.other.com", None),
    ],
)
def test_two_rules_meet_in_what_both_mean(one: str, other: str, met: str | None) -> None:
    for a, b in ((one, other), (other, one)):
        found = UrlRule.parse(a).meet(UrlRule.parse(b))
        assert (None if found is None else str(found)) == met
