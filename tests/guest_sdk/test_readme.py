"""The guest that the SDK's README ends in is built as printed, and answers as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rho_wasm import resources
from rho_wasm.toolchains import build
from tests.guest_sdk.raw import RawGuest

README = resources.sdk("c/README.md")


@pytest.mark.anyio
async def test_the_guest_of_the_readme_works_as_printed(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    for language, file in (("c", "greet.c"), ("json", "greet.manifest.json")):
        block = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
        assert block is not None
        (tmp_path / file).write_text(block[1], encoding="utf-8")
    artifact = await build(tmp_path / "greet.c")
    assert artifact.log == ""
    guest = RawGuest(artifact.wasm)
    [example] = artifact.manifest.tools[0].examples
    assert guest.call("greet", example.arguments) == example.answer
    assert guest.call("greet", {"name": "Ada", "times": 2}) == {"ok": {"name": "Ada", "greetings": ["hello", "hello"]}}
    assert list(guest.call("greet", {"name": "Ada", "times": 11})) == ["error"]


def test_every_name_that_the_readme_tells_is_in_the_header() -> None:
    header = resources.sdk("c/rho.h").read_text(encoding="utf-8")
    named = set(re.findall(r"\brho_[a-z_]*[a-z]\b", README.read_text(encoding="utf-8"))) - {"rho_wasm"}
    made_by_macros = {name for name in named if re.match(r"rho_(get_[a-z]+|[a-z]+_or|set_[a-z]+)$", name)}
    assert {name for name in named - made_by_macros if name not in header and name != "rho_put"} == set()
