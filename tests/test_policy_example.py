"""The file with everything that a policy can say: it loads, and it is what the models are."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path

from rho_wasm.grants import BOUNDS
from rho_wasm.limits import Limits
from rho_wasm.policy import Policy, SecretPolicy
from rho_wasm.policy_example import policy_example


def test_it_loads_and_says_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text(policy_example())
    policy = Policy.load(path)
    parts = ("gates", "strikes", "isolation", "guests", "recordings")
    assert policy.model_dump(include=set(parts)) == Policy().model_dump(include=set(parts))
    assert policy.limits_for("example_tool", Limits()) == Limits()
    assert policy.grants_for("example_tool").keys() == BOUNDS.keys()
    assert policy.grants_for("other") == {}
    assert policy.elsewhere == ()


def test_every_key_stands_in_it_and_has_words() -> None:
    text = policy_example()
    said = tomllib.loads(text)
    tool, keys = said["tools"]["example_tool"], text.splitlines()
    for name, bounds in BOUNDS.items():
        assert tool["grants"][name].keys() == bounds.model_fields.keys()
    assert tool["limits"].keys() == Limits.model_fields.keys()
    for name in Policy().model_dump(exclude={"secrets", "tools"}):
        assert name in said
    for name in SecretPolicy.model_fields:
        assert f"{name} = " in text
    bare = [line for before, line in itertools.pairwise(keys) if " = " in line and before[:1] != "#"]
    assert [line for line in bare if not line.endswith("= {}")] == []
    assert not any(mark in text for mark in ("``", ":class:", "\t"))
    assert max(map(len, keys)) <= 120


def test_bounds_are_said_in_numbers() -> None:
    text = " ".join(policy_example().replace("\n# ", " ").split())
    assert "One key in UTF-8. Beyond: invalid_arguments. (1 to 4,096) key_bytes = 512" in text
    assert "(more than 0, at most 60,000) deadline_ms = 5000" in text
    assert 'One of "revert", "suspend". on_strikes = "revert"' in text
