"""The guests that the READMEs of the C and C++ SDKs end in are built as printed, and answer as they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rho_wasm import resources
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.toolchains import build
from tests.guest_sdk.raw import RawGuest


def blocks(language: str, readme: str) -> list[str]:
    """The code of ``guest_sdk/README`` in that language."""
    text = resources.sdk(readme).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


async def built(folder: Path, language: str, compiler: str | None = None) -> Artifact:
    [source] = blocks(language, f"{language}/README.md")
    path = folder / f"greet.{language}"
    path.write_text(source, encoding="utf-8")
    return await build(path, compiler=compiler)


def greets(artifact: Artifact) -> None:
    assert artifact.log == ""
    guest = RawGuest(artifact.wasm)
    [tool] = artifact.manifest.tools
    [example] = tool.examples
    assert (tool.name, tool.read_only) == ("greet", True)
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Whom to greet.", "minLength": 1},
            "times": {"type": "integer", "description": "How often.", "minimum": 1, "maximum": 10},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert guest.call("greet", example.arguments) == example.answer
    assert guest.call("greet", {"name": "Ada", "times": 2}) == {"ok": {"name": "Ada", "greetings": ["hello", "hello"]}}
    assert list(guest.call("greet", {"name": "nobody"})) == ["error"]
    assert (20, "greeting") in guest.log


@pytest.mark.anyio
@pytest.mark.parametrize("compiler", ["clang", "tinycc"])
async def test_the_guest_of_cs_readme_works_as_printed(tmp_path: Path, compiler: str) -> None:
    greets(await built(tmp_path, "c", compiler))


@pytest.mark.anyio
@pytest.mark.slow
async def test_the_guest_of_cpps_readme_works_as_printed(tmp_path: Path) -> None:
    greets(await built(tmp_path, "cpp"))


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_the_commands_of_the_readme_are_of_the_program(language: str) -> None:
    [commands] = blocks("sh", f"{language}/README.md")
    assert commands.splitlines() == [
        "pip install 'rho-wasm[cli,c]'",
        f"rho-wasm build greet.{language} -o greet.wasm",
        """rho-wasm call greet.wasm greet --arguments '{"name": "Ada", "times": 2}'""",
    ]


def test_every_name_that_cs_readme_tells_is_in_the_header() -> None:
    header = resources.sdk("c/rho.h").read_text(encoding="utf-8")
    told = resources.sdk("c/README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:rho_[a-z_]*[a-z]|RHO_[A-Z_]*[A-Z])\b", told)) - {"rho_wasm"}
    made_by_macros = {name for name in named if re.match(r"rho_(get_[a-z]+|[a-z]+_or|set_[a-z]+)$", name)}
    assert {name for name in named - made_by_macros if name not in header and name != "rho_put"} == set()


def test_every_name_that_cpps_readme_tells_is_in_the_header() -> None:
    header = resources.sdk("cpp/rho.hpp").read_text(encoding="utf-8")
    told = resources.sdk("cpp/README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"rho::([A-Za-z_]+)", told)) | set(re.findall(r"`\.([a-z_]+)\(", told))
    assert {name for name in named if not re.search(rf"\b{name}\b", header)} == set()
