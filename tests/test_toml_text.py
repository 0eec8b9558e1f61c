"""Values as TOML says them."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from rho_wasm.toml_text import toml_text


@pytest.mark.parametrize(
    "value",
    [True, 0, -1.5, "", 'a "quoted"\\path\n\x1b', "ü\u202e", [], [1, "a"], {}, {"a": [{"b c": False}], "kv.get": {}}],
)
def test_what_is_said_is_read_again(value: Any) -> None:
    assert tomllib.loads(f"a = {toml_text(value)}") == {"a": value}
