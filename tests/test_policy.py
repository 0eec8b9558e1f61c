"""The operator's file: what it decides, and what it refuses to start with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import ValidationError

from rho_wasm.errors import PolicyError
from rho_wasm.grants import Bounds, HttpBounds, UncheckedBounds
from rho_wasm.limits import Limits
from rho_wasm.policy import GatePolicy, Policy, SecretPolicy, StrikePolicy

EXAMPLE = """\
[gates]
on = ["examples", "approval"]

[strikes]
limit = 2
kinds = [
    "trapped",
    "out_of_fuel",
]

[guests]
halt = false

[tools."*"]
limits = { fuel = 500_000_000, deadline_ms = 1_000 }

[tools."weather_*"]
limits.fuel = 1_000

[tools.weather_now]
limits = { memory_bytes = 65_536 }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(EXAMPLE)
    return path


def refusal(tmp_path: Path, text: str) -> PolicyError:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(PolicyError) as caught:
        Policy.load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1_000
    return caught.value


def test_an_empty_file_is_the_default_policy(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.touch()
    assert Policy.load(path).model_dump() == Policy().model_dump()


def test_the_defaults_are_those_of_the_design() -> None:
    policy = Policy()
    assert policy.gates.on == ("examples",)
    assert policy.strikes == StrikePolicy(
        limit=3, window_s=600, min_ratio=0.2, sessions=1, kinds=None, artifact_limit=9, on_strikes="revert"
    )
    assert policy.isolation.mode == "thread"
    assert (policy.guests.ask_user, policy.guests.halt, policy.guests.session_ids) == (True, True, False)
    assert policy.tools == {}


def test_a_file_is_read_into_a_frozen_model(file: Path) -> None:
    policy = Policy.load(str(file))
    assert policy.gates.on == ("examples", "approval")
    assert policy.strikes.limit == 2
    assert policy.strikes.kinds == ("trapped", "out_of_fuel")
    assert not policy.guests.halt
    with pytest.raises(ValidationError, match="frozen"):
        policy.gates = GatePolicy()  # type: ignore[misc]
    with pytest.raises(TypeError, match="read-only"):
        policy.tools["x"] = policy.tools["*"]  # type: ignore[index]


def test_the_most_specific_entry_that_says_something_decides(file: Path) -> None:
    policy = Policy.load(file)
    base = Limits()
    assert policy.limits_for("other", base) == base.lowest({"fuel": 500_000_000, "deadline_ms": 1_000})
    assert policy.limits_for("weather_", base).fuel == 1_000
    now = policy.limits_for("weather_now", base)
    assert (now.fuel, now.deadline_ms, now.memory_bytes) == (1_000, 1_000, 65_536)


def test_an_exact_name_wins_over_a_longer_pattern() -> None:
    policy = Policy.model_validate(
        {"tools": {"a": {"limits": {"fuel": 1}}, "a*": {"limits": {"fuel": 2}}, "*": {"limits": {"fuel": 3}}}}
    )
    assert [policy.limits_for(tool, Limits()).fuel for tool in ("a", "ab", "b")] == [1, 2, 3]


def test_a_policy_never_raises_a_limit() -> None:
    policy = Policy.model_validate({"tools": {"*": {"limits": {"fuel": 10**15}}}})
    assert policy.limits_for("a", Limits()) == Limits()


def test_an_empty_list_means_none(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("gates.on = []\nstrikes.kinds = []\n")
    policy = Policy.load(path)
    assert policy.gates.on == ()
    assert policy.strikes.kinds == ()


def test_explain_says_which_line_gave_what(file: Path) -> None:
    assert Policy.load(file).explain("weather_now") == [
        (18, 'tools."weather_*" limits.fuel = 1000'),
        (15, 'tools."*" limits.deadline_ms = 1000'),
        (21, 'tools."weather_now" limits.memory_bytes = 65536'),
        (2, 'gates.on = ["examples", "approval"]'),
        (6, 'strikes.kinds = ["trapped", "out_of_fuel"]'),
        (5, "strikes.limit = 2"),
        (12, "guests.halt = false"),
    ]


def test_explain_without_a_file_has_no_lines() -> None:
    assert Policy().explain("a") == []
    assert Policy(gates=GatePolicy(on=())).explain("a") == [(None, "gates.on = []")]


def test_without_gates_leaves_everything_else(file: Path) -> None:
    policy = Policy.load(file)
    assert policy.without_gates().gates.on == ()
    assert policy.without_gates().tools == policy.tools


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        (
            "[gate]\n",
            "policy_unknown_key",
            "line 1: gate: unknown key (allowed: gates, guests, isolation, recordings, secrets, strikes, tools)",
        ),
        ("[gates]\non = []\nof = 1\n", "policy_unknown_key", "line 3: gates.of: unknown key (allowed: on)"),
        (
            "[tools.a]\n\nlimit = {}\n",
            "policy_unknown_key",
            "line 3: tools.a.limit: unknown key (allowed: grants, limits)",
        ),
        (
            '[tools."a"]\nlimits = { fule = 1 }\n',
            "policy_unknown_key",
            "line 2: tools.a.limits.fule: unknown limit 'fule'; did",
        ),
        ('gates.on = ["all"]', "policy_invalid", "unknown gate 'all' (known: examples, replay, approval)"),
        ('gates.on = ["approval", "approval"]', "policy_invalid", "named twice"),
        ('gates.on = "examples"', "policy_invalid", "line 1: gates.on: should be a list"),
        ("gates.on = [1]", "policy_invalid", "line 1: gates.on"),
        ("[strikes]\nlimit = 0", "policy_invalid", "line 2: strikes.limit"),
        ("[strikes]\nlimit = true", "policy_invalid", "line 2: strikes.limit"),
        ("[strikes]\nmin_ratio = 1.5", "policy_invalid", "line 2: strikes.min_ratio"),
        ("[strikes]\nwindow_s = inf", "policy_invalid", "line 2: strikes.window_s"),
        ('[strikes]\nkinds = ["blocked"]', "policy_invalid", "'blocked' is no crash"),
        ('[strikes]\non_strikes = "ignore"', "policy_invalid", "'revert' or 'suspend'"),
        ('[isolation]\nmode = "process"', "policy_invalid", "line 2: isolation.mode"),
        ("[guests]\nhalt = 1", "policy_invalid", "line 2: guests.halt"),
        ("[tools.a]\nlimits.fuel = -1", "policy_invalid", "line 2: tools.a.limits.fuel: Input should be greater"),
        ("[tools.a]\nlimits.deadline_ms = 60_001", "policy_invalid", "60000"),
        ('[tools."a*b"]', "policy_invalid", "'a*b' is no tool name"),
        ('[tools.""]', "policy_invalid", "is no tool name"),
        (
            '[tools."weather"]\ngrants = { "http.post" = { hosts = ["https://api.example"] } }',
            "policy_unknown_capability",
            "line 2: tools.weather.grants.http.post: unknown capability 'http.post' (known: clock.monotonic, clock.now",
        ),
        (
            '[tools.a]\n\n[tools.a.grants."kv.put"]\nbytes = 1\nbites = 1',
            "policy_unknown_key",
            "line 5: tools.a.grants.kv.put.bites: unknown key (allowed: bytes, key_bytes, keys, value_bytes)",
        ),
        (
            '[tools.a]\ngrants."clock.now".x = 1',
            "policy_unknown_key",
            "line 2: tools.a.grants.clock.now.x: unknown key",
        ),
        ('[tools.a]\ngrants."kv.put" = true', "policy_invalid", "line 2: tools.a.grants.kv.put: should be a table"),
        ('[tools.a]\ngrants = ["kv.put"]', "policy_invalid", "line 2: tools.a.grants: should be a table"),
        (
            '[tools.a]\ngrants."kv.put".keys = -1',
            "policy_invalid",
            "line 2: tools.a.grants.kv.put.keys: Input should be",
        ),
        (
            '[tools.a]\ngrants."kv.put".keys = "9"',
            "policy_invalid",
            "line 2: tools.a.grants.kv.put.keys: Input should be",
        ),
        ('[tools.a]\ngrants."http.fetch".hosts = "x"', "policy_invalid", "grants.http.fetch.hosts: should be a list"),
        (
            '[tools.a.grants."http.fetch"]\nhosts = ["api.example"]',
            "policy_invalid",
            "line 2: tools.a.grants.http.fetch.hosts: 'api.example': a rule is http(s)://HOST[:PORT][/PATH]",
        ),
        (
            '[tools.a.grants."http.fetch"]\nsecrets = ["key"]',
            "policy_invalid",
            "line 2: tools.a.grants.http.fetch.secrets: there is no [secrets.key]",
        ),
        ("[secrets.key]\nenv = 'X'", "policy_invalid", "line 1: secrets.key.origin: Field required"),
        (
            "[secrets.key]\norigin = 'https://a/b'",
            "policy_invalid",
            "line 2: secrets.key.origin: a secret's origin is http(s)://HOST[:PORT]",
        ),
        ("[secrets.'a key']\norigin = 'https://a'", "policy_invalid", "secrets.a key: 'a key' is no name"),
        ("[recordings]\nskip = ['a*b']", "policy_invalid", "line 2: recordings.skip.0: 'a*b' is no tool name"),
        ("[gates", "policy_unreadable", "is not TOML"),
        ("a = 1\na = 2", "policy_unreadable", "is not TOML"),
        ("x = " + "[" * 5_000, "policy_unreadable", "is not TOML"),
        ("#" * 1_048_577, "policy_unreadable", "1048576 bytes"),
        ('"\\u001b[31m" = 1', "policy_unknown_key", r"\x1b[31m"),
    ],
)
def test_a_wrong_file_refuses_to_start_and_says_where(tmp_path: Path, text: str, reason: str, words: str) -> None:
    error = refusal(tmp_path, text)
    assert error.reason == reason
    assert words in str(error)
    assert str(error).isprintable()


MANY = """\
[gates]
on = ["replai"]

[tools.reader]
limits = { fule = 1, memory_bytes = 0 }

[tools.reader.grants]
"kv.get" = true
"kv.put" = { keys = "many", bites = 1 }
"kv.gett" = {}
kv.list = {}

[recording]
"""


def test_everything_that_is_wrong_is_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    error = refusal(tmp_path, MANY)
    found = [(each.line, each.reason, each.key, each.message) for each in error.problems]
    assert [(line, reason, key) for line, reason, key, _ in found] == [
        (2, "policy_invalid", "gates.on"),
        (5, "policy_unknown_key", "tools.reader.limits.fule"),
        (5, "policy_invalid", "tools.reader.limits.memory_bytes"),
        (8, "policy_invalid", "tools.reader.grants.kv.get"),
        (9, "policy_invalid", "tools.reader.grants.kv.put.keys"),
        (9, "policy_unknown_key", "tools.reader.grants.kv.put.bites"),
        (10, "policy_unknown_capability", "tools.reader.grants.kv.gett"),
        (11, "policy_unknown_capability", "tools.reader.grants.kv"),
        (13, "policy_unknown_key", "recording"),
    ]
    words = [message for *_, message in found]
    for number, meant in ((0, "replay"), (1, "fuel"), (5, "bytes"), (6, "kv.get"), (8, "recordings")):
        assert words[number].endswith(f"; did you mean {meant!r}?"), words[number]
    assert words[7] == "unknown capability 'kv': a name with a dot is quoted: \"kv.list\""
    assert (error.reason, error.detail, error.more) == (found[0][1], f"gates.on: {words[0]}", 0)
    assert "\nline 10: tools.reader.grants.kv.gett: unknown capability" in str(error)
    assert error.as_json()["problems"][3]["line"] == 8


def test_ten_things_are_told_and_the_others_counted(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("".join(f"key_{number} = 1\n" for number in range(25)))
    with pytest.raises(PolicyError, match=r"\(and 15 more\)\Z") as caught:
        Policy.load(path)
    assert (len(caught.value.problems), caught.value.more) == (10, 15)


def test_a_file_that_is_not_utf8_refuses_to_start(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="UTF-8"):
        Policy.load(path)


def test_a_file_that_cannot_be_opened_refuses_to_start(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(PolicyError, match="cannot be read") as caught:
            Policy.load(path)
        assert caught.value.reason == "policy_unreadable"
        assert caught.value.source == str(path)


GRANTS = """\
[tools."*"]
grants = { "log.write" = {}, "kv.get" = { key_bytes = 10 } }

[tools."weather_*"]
limits.fuel = 1_000

[tools.weather_now.grants]
"http.fetch" = { hosts = ["https://API.example:443"], secrets = ["key"] }
"tool.call" = { tools = ["no_*"] }

[tools.weather_none]
grants = {}

[secrets.key]
env = "KEY"
origin = "https://api.example"

[recordings]
on = true
skip = ["weather_none"]
"""


def granting(tmp_path: Path) -> Policy:
    path = tmp_path / "grants.toml"
    path.write_text(GRANTS)
    return Policy.load(path)


def test_the_file_of_the_design_loads_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "design.toml"
    path.write_text(
        """\
[gates]      on = ["examples", "replay", "approval"]
[strikes]    limit = 3
[isolation]  mode = "thread"
[tools."*"]          limits = { fuel = 500_000_000 }
[tools."weather"]    grants = { "http.fetch" = { hosts = ["https://api.example"], methods = ["GET"] } }
""".replace("]    ", "]\n")
        .replace("]  ", "]\n")
        .replace("\n  ", "\n")
    )
    policy = Policy.load(path)
    fetch = policy.grants_for("weather")["http.fetch"]
    assert fetch == HttpBounds(hosts=("https://api.example",), methods=("GET",))
    assert policy.grants_for("other") == {}


def test_the_grants_of_the_most_specific_entry_that_has_any_are_all(tmp_path: Path) -> None:
    policy = granting(tmp_path)
    assert sorted(policy.grants_for("other")) == ["kv.get", "log.write"]
    assert sorted(policy.grants_for("weather_then")) == ["kv.get", "log.write"]
    assert sorted(policy.grants_for("weather_now")) == ["http.fetch", "tool.call"]
    assert policy.grants_for("weather_none") == {}


def test_explain_says_which_line_grants_what(tmp_path: Path) -> None:
    policy = granting(tmp_path)
    assert policy.explain("weather_now")[:3] == [
        (5, 'tools."weather_*" limits.fuel = 1000'),
        (8, 'tools."weather_now" grants."http.fetch" = { hosts = ["https://api.example"], secrets = ["key"] }'),
        (9, 'tools."weather_now" grants."tool.call" = { tools = ["no_*"] }'),
    ]
    assert (12, 'tools."weather_none" grants = {}') in policy.explain("weather_none")


def test_rules_that_mean_no_tool_are_told(tmp_path: Path) -> None:
    policy = granting(tmp_path)
    assert policy.unmatched(["weather_now"]) == [
        (11, "tools.weather_none: no tool matches 'weather_none'"),
        (20, "recordings.skip: no tool matches 'weather_none'"),
        (
            9,
            "tools.weather_now.grants.tool.call.tools: no tool of the store and no core tool here matches 'no_*'; "
            "a program may have more",
        ),
    ]
    assert policy.unmatched(["weather_now", "weather_none", "no_thing"]) == []


def test_recordings_are_off_until_they_are_on_and_skip_what_is_named(tmp_path: Path) -> None:
    policy = granting(tmp_path)
    assert not Policy().recordings.records("a")
    assert (policy.recordings.records("a"), policy.recordings.records("weather_none")) == (True, False)


class Invoices(Bounds):
    prefixes: tuple[str, ...] = ()


class Known(NamedTuple):
    name: str
    bounds: type[Bounds]


def test_capabilities_of_a_host_are_known_where_they_are_named(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[tools.a]\ngrants."invoice.lookup" = { prefixes = ["A"] }\n')
    policy = Policy.load(path, capabilities=[Known("invoice.lookup", Invoices)])
    assert policy.grants_for("a") == {"invoice.lookup": Invoices(prefixes=("A",))}
    with pytest.raises(PolicyError, match=r"line 2: .*unknown capability 'invoice.lookup'"):
        Policy.load(path)
    wrong = {"tools": {"a": {"grants": {"invoice.lookup": {"prefixes": [7]}}}}}
    with pytest.raises(ValidationError, match="prefixes"):
        Policy.parse(wrong, capabilities=[Known("invoice.lookup", Invoices)])


def test_what_only_another_program_has_is_kept_as_it_was_said_and_grants_nothing(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[tools.a.grants]\n"invoice.lookup" = { prefixes = ["A"], most = 3 }\n"kv.get" = {}\n')
    policy = Policy.load(path, elsewhere=True)
    assert policy.elsewhere == (("a", "invoice.lookup"),)
    bounds = policy.grants_for("a")["invoice.lookup"]
    assert bounds.model_dump(mode="json") == {"prefixes": ["A"], "most": 3}
    assert policy.explain("a")[0] == (2, 'tools."a" grants."invoice.lookup" = { prefixes = ["A"], most = 3 }')
    assert bounds.meet(UncheckedBounds.model_validate({"most": 1, "of": "x"})).model_dump() == {
        "prefixes": ["A"],
        "most": 1,
        "of": "x",
    }
    with pytest.raises(ValueError, match="most: the two have nothing in common"):
        bounds.meet(UncheckedBounds.model_validate({"most": "x"}))
    path.write_text("[tools.a.grants]\n'invoice.lookup'.since = 2026-01-01\n")
    with pytest.raises(PolicyError, match="plain data"):
        Policy.load(path, elsewhere=True)


@pytest.mark.parametrize("name", ["htp.fetch", "kv.gett", "kv.own", "lookup", "Invoice.lookup", "randmo.bytes"])
def test_what_is_like_a_capability_that_ships_is_no_other_programs(name: str) -> None:
    with pytest.raises(ValidationError, match="unknown capability"):
        Policy.parse({"tools": {"a": {"grants": {name: {}}}}}, elsewhere=True)
    own = [Known(name, Invoices)]
    assert Policy.parse({"tools": {"a": {"grants": {name: {}}}}}, capabilities=own).elsewhere == ()


def test_a_secret_stands_in_one_place_and_in_a_header_that_is_not_the_connections() -> None:
    rule = SecretPolicy(env="A", origin="https://Api.example", path="/v1").rule
    assert rule.covers("https", "api.example", 443, "/v1/x")
    assert not rule.covers("https", "api.example", 443, "/v10")
    for wrong in (
        {"env": "A", "file": "/a"},
        {"header": "Host"},
        {"prefix": "a\r\nb: "},
        {"path": "/../x"},
        {"path": "x"},
    ):
        with pytest.raises(ValidationError):
            SecretPolicy.model_validate({"origin": "https://api.example", **wrong})
