"""The table of capabilities in guest_sdk/ABI.md says what their models take, and its examples fit them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rho_wasm.capabilities.capability import Capability
from rho_wasm.capabilities.clock import clock_capabilities
from rho_wasm.capabilities.files import files_capabilities
from rho_wasm.capabilities.http import http_capabilities
from rho_wasm.capabilities.kv import kv_capabilities
from rho_wasm.capabilities.log import log_capabilities
from rho_wasm.capabilities.progress import progress_capabilities
from rho_wasm.capabilities.random import random_capabilities
from rho_wasm.capabilities.tools import tool_capabilities
from rho_wasm.grants import BOUNDS
from tests.guest_sdk.test_abi_page import SECTIONS

SECTION = SECTIONS["Capabilities"]
TABLE = dict(re.findall(r"^\| `([a-z.]+)` \| `\{ (.*?)\}` \|", SECTION, re.MULTILINE))
[EXAMPLES] = re.findall(r"```jsonl\n(.*?)```", SECTION, re.DOTALL)


def built_in() -> dict[str, Capability]:
    """What they would be made of is not asked for: only their models are looked at."""
    nothing: Any = None
    made = (
        *log_capabilities(None), *progress_capabilities(None), *clock_capabilities(), *random_capabilities(),
        *kv_capabilities(nothing), *http_capabilities(), *files_capabilities(), *tool_capabilities(nothing),
    )  # fmt: skip
    return {each.name: each for each in made}


def test_the_table_has_all_that_ship() -> None:
    assert TABLE.keys() == BOUNDS.keys() == built_in().keys()


@pytest.mark.parametrize("name", TABLE)
def test_arguments_are_those_of_the_model(name: str) -> None:
    told = {key: mark == "" for mark, key in re.findall(r"(?:^|, )(\? )?\"(\w+)\":", TABLE[name])}
    fields = built_in()[name].arguments.model_fields
    assert told == {field.alias or key: field.is_required() for key, field in fields.items()}


@pytest.mark.parametrize("line", EXAMPLES.splitlines())
def test_an_example_fits_its_model(line: str) -> None:
    asked = json.loads(line)
    assert asked.keys() == {"capability", "arguments"}
    built_in()[asked["capability"]].arguments.model_validate(asked["arguments"])
