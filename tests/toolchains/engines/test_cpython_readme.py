"""What the Python SDK's README and stub say is so."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from rho_wasm import resources
from rho_wasm.results import Failed
from rho_wasm.toolchains.engines.cpython import SPEC
from rho_wasm.toolchains.engines.python import rho
from tests.toolchains.engines.cpython_host import Python

README = resources.sdk("python/README.md").read_text(encoding="utf-8")
STUB = resources.sdk("python/rho.pyi").read_text(encoding="utf-8")
[SOURCE] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def test_the_readme_fits_a_screen() -> None:
    assert README.count("\n") <= 65


def test_the_readme_says_where_the_engine_comes_from() -> None:
    told = " ".join(README.split())
    for part in (SPEC.sha256, SPEC.distribution, SPEC.version, "PSF-2.0", "python/3.12.0+20231211-040d5a6"):
        assert part in told
    assert f"rho-wasm[cli,{SPEC.extra}]" in told


def test_the_stub_has_what_the_module_has() -> None:
    names = set(re.findall(r"^(?:class|def) (\w+)|^(\w+): ", STUB, re.MULTILINE))
    assert {one or other for one, other in names if not (one or other).startswith("_")} == set(rho.__all__)


def test_the_stub_has_every_option_of_the_decorator() -> None:
    _, told = typing.get_overloads(rho.tool)
    options = inspect.signature(told).parameters.keys() - {"self"}
    with pytest.raises(rho.DeclarationError) as caught:
        rho.tool(**{"no such": 1})  # type: ignore[call-overload]
    assert options == set(str(caught.value).partition("it has ")[2].split(", "))
    assert options == set(re.findall(r"^    (\w+): .* = ", STUB.rpartition("@overload")[2], re.MULTILINE))
    for option in options:
        assert f"{option}=" in README


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(900)
async def test_the_tool_of_the_readme_works_as_printed(python: Python) -> None:
    artifact = await python.build(SOURCE)
    [declared] = artifact.manifest.tools
    assert declared.description == "Totals a table of sales by region, the largest first."
    assert list(declared.input_schema["required"]) == ["csv"]
    module = await python.sandbox.load(artifact.wasm)
    table = "region,amount\nnorth,3\nsouth,5\nnorth,4"
    assert await python.call(module, "totals", {"csv": table}) == [["north", 7.0], ["south", 5.0]]
    assert await python.call(module, "totals", {"csv": "a,b\nc,d"}) == Failed("line 2 has no amount: c,d")
    [example] = declared.examples
    assert await python.call(module, "totals", example.arguments) == example.answer["ok"]


@pytest.mark.slow
def test_the_tool_of_the_readme_is_typed(tmp_path: Path) -> None:
    source = tmp_path / "sales.py"
    source.write_text(SOURCE, encoding="utf-8")
    environment = os.environ | {"MYPYPATH": str(resources.sdk("python"))}
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-version=3.12", f"--cache-dir={tmp_path}", str(source)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
