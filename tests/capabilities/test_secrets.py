"""Values of secrets: where they come from, that none is empty, and that they are found again in what comes back."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rho_wasm.capabilities.secrets import Secret, Secrets
from rho_wasm.errors import PolicyError
from rho_wasm.secret_policy import SecretPolicy

VALUE = 'k3y/with+"odd" <signs>&\\more'


def policy(**fields: Any) -> SecretPolicy:
    return SecretPolicy.model_validate({"origin": "https://api.example", **fields})


def test_values_come_from_the_host_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("value-of-file\n")
    policies = {"a": policy(env="KEY_A"), "b": policy(file=str(file)), "c": policy(), "d": policy(env="KEY_D")}
    secrets = Secrets.load(
        policies,
        given={"c": "value-of-host", "d": "stronger-than-env"},
        environ={"KEY_A": " value-of-env ", "KEY_D": "value-of-env"},
    )
    values = {name: secrets.named(name) for name in policies}
    assert {name: secret and secret.value for name, secret in values.items()} == {
        "a": "value-of-env",
        "b": "value-of-file",
        "c": "value-of-host",
        "d": "stronger-than-env",
    }
    assert secrets.named("e") is None


@pytest.mark.parametrize(
    ("fields", "environ", "reason", "words"),
    [
        ({"env": "KEY"}, {}, "secret_missing", "KEY is not set or empty"),
        ({"env": "KEY"}, {"KEY": "  "}, "secret_missing", "KEY is not set or empty"),
        ({"file": "/nowhere/at/all"}, {}, "secret_missing", "cannot be read"),
        ({}, {}, "secret_missing", "Host.open"),
        ({"env": "KEY"}, {"KEY": "short"}, "secret_invalid", "8 to 8,192"),
        ({"env": "KEY"}, {"KEY": "two\r\nInjected: lines"}, "secret_invalid", "visible ASCII"),
        ({"env": "KEY"}, {"KEY": "pässwörter"}, "secret_invalid", "visible ASCII"),
        ({"env": "KEY"}, {"KEY": "x" * 9_000}, "secret_invalid", "8 to 8,192"),
    ],
)
def test_a_secret_without_a_usable_value_refuses_to_start(
    fields: dict[str, str], environ: dict[str, str], reason: str, words: str
) -> None:
    with pytest.raises(PolicyError, match=words) as refused:
        Secrets.load({"weather": policy(**fields)}, environ=environ)
    assert refused.value.reason == reason
    for value in environ.values():
        assert not value.strip() or value.strip() not in str(refused.value)


def test_an_empty_file_refuses_to_start(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    with pytest.raises(PolicyError, match="is empty"):
        Secrets.load({"weather": policy(file=str(tmp_path / "key"))}, environ={})


def test_a_secret_that_no_grant_names_may_be_missing() -> None:
    secrets = Secrets.load({"weather": policy(env="KEY")}, needed=[], environ={})
    assert secrets.named("weather") is None


def test_a_value_that_no_policy_describes_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"no \[secrets\]"):
        Secrets.load({}, given={"weather": "value-of-host"})


def test_no_representation_shows_a_value() -> None:
    secrets = Secrets.load({"weather": policy()}, given={"weather": VALUE})
    secret = secrets.named("weather")
    assert isinstance(secret, Secret)
    for text in (repr(secrets), str(secrets), repr(secret), str(secret), f"{secret}"):
        assert VALUE not in text
        assert "weather" in text


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        f"Bearer {VALUE}",
        quote(VALUE, safe=""),
        quote(VALUE, safe="").lower(),
        json.dumps({"echo": VALUE}),
        json.dumps({"echo": VALUE}).replace("/", "\\/"),
        VALUE.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;"),
        base64.b64encode(VALUE.encode()).decode(),
        base64.urlsafe_b64encode(VALUE.encode()).decode(),
        base64.b64encode(f"a:{VALUE}".encode()).decode(),
        base64.b64encode(f"bc:{VALUE}:d".encode()).decode(),
        base64.b64encode(f"user:{VALUE}".encode()).decode().rstrip("="),
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
    ],
)
def test_a_value_is_found_in_the_forms_in_which_servers_show_it(form: str) -> None:
    secrets = Secrets.load({"weather": policy()}, given={"weather": VALUE})
    text = f"before {form} after"
    scrubbed = secrets.scrubbed_text(text)
    assert secrets.scrubbed(text.encode()) == scrubbed.encode()
    assert scrubbed.startswith("before ")
    assert scrubbed.endswith(" after")
    assert "[secret]" in scrubbed
    assert len(scrubbed) <= len(text)
    left = scrubbed[7:-6].replace("[secret]", "")
    assert len(left) < 20, "at most what surrounds the value is left"


@pytest.mark.parametrize("form", [VALUE, quote(VALUE, safe=""), VALUE.encode().hex()])
def test_no_cut_in_two_shows_a_whole_value(form: str) -> None:
    secrets = Secrets.load({"weather": policy()}, given={"weather": VALUE})
    sent = secrets.named("weather")
    assert sent is not None
    whole = f"you sent: {form}, bye".encode()
    for cut in range(10, 10 + len(form) + 1):
        first, second = whole[:cut], whole[cut:]
        shown = [secrets.scrubbed_reply(part, sent) for part in (first, second)]
        assert b"[secret]" in b"".join(shown), cut
        assert shown[0] in (first, b"you sent: [secret]")
        assert shown[1] in (second, b"[secret], bye")
    middle = form[2:-2].encode()
    assert secrets.scrubbed_reply(middle, sent) == b"[secret]"
    assert secrets.scrubbed(middle) == middle


def test_less_than_half_of_a_value_cannot_be_tried_out() -> None:
    secrets = Secrets.load({"weather": policy()}, given={"weather": VALUE})
    sent = secrets.named("weather")
    assert sent is not None
    for data in [VALUE[: len(VALUE) // 2 - 1], VALUE[-(len(VALUE) // 2 - 1) :], "", "k", "[secret]"]:
        assert secrets.scrubbed_reply(data.encode(), sent) == data.encode()


def test_what_holds_no_value_stays_as_it_is() -> None:
    secrets = Secrets.load({"weather": policy()}, given={"weather": VALUE})
    data = bytes(range(256)) * 4
    assert secrets.scrubbed(data) == data
    assert Secrets().scrubbed(data) == data
