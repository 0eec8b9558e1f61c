"""What ``from rho_wasm import ...`` promises, and what importing it costs and needs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import rho_wasm
from rho_wasm import errors

ROOT = Path(__file__).parent.parent


def test_all_is_sorted_and_every_name_is_there() -> None:
    assert list(rho_wasm.__all__) == sorted(rho_wasm.__all__, key=lambda name: (not name[0].isupper(), name))
    assert len(set(rho_wasm.__all__)) == len(rho_wasm.__all__)
    for name in rho_wasm.__all__:
        assert getattr(rho_wasm, name) is not None


def test_every_error_is_exported_and_is_a_rho_error() -> None:
    for name in errors.__all__:
        assert name in rho_wasm.__all__, name
        found = getattr(errors, name)
        if isinstance(found, type) and issubclass(found, BaseException):
            assert issubclass(found, rho_wasm.RhoError)


def test_importing_loads_no_optional_dependency_and_enables_nothing() -> None:
    program = (
        "import sys, faulthandler, rho_wasm\n"
        "loaded = {'typer', 'rich', 'ziglang', 'hypothesis', 'pytest', 'trio'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
        "assert not faulthandler.is_enabled()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_package_imports_with_its_core_dependencies_alone(tmp_path: Path) -> None:
    """In an environment with nothing but what pyproject.toml names, the wheel's data included."""
    venv.create(tmp_path / "bare", with_pip=True)
    python = tmp_path / "bare" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", str(ROOT)], check=True, capture_output=True)
    program = (
        "import anyio, importlib.metadata, rho_wasm\n"
        "from rho_wasm.resources import fixture, sdk\n"
        "assert '_data' in str(fixture('echo.wasm')) and '_data' in str(sdk('c/rho.h'))\n"
        "async def main():\n"
        "    async with rho_wasm.Host.open(':memory:') as host:\n"
        "        artifact = rho_wasm.Artifact.from_wasm(fixture('echo.wasm').read_bytes())\n"
        "        await host.source.activate(await host.source.stage(add=[artifact], author='model'))\n"
        "        result = await host.runner.run(rho_wasm.ToolCall(id='1', name='echo', arguments={'text': 'a'}))\n"
        "        assert result.ok, result\n"
        "anyio.run(main)\n"
        "print(sorted(found.name.lower() for found in importlib.metadata.distributions()))\n"
    )
    ended = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(project["dependencies"]) == 5
    assert "typer" not in ended.stdout
    assert "rich" not in ended.stdout
