"""Every async test runs on asyncio and on trio. In CI hypothesis tries the same examples each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def made_engines(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a user who installed the engines of Python and JavaScript. Only for tests marked ``slow``."""
    folder = tmp_path_factory.mktemp("engines")
    variables = {
        "RHO_WASM_ENGINES": str(folder / "engines"),
        "RHO_WASM_CACHE": str(folder / "native"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    command = [sys.executable, "-m", "rho_wasm.cli", "engines", "install", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})
    installed = {each["name"] for each in json.loads(ended.stdout).get("installed", ())}
    if installed != {"cpython", "quickjs"}:
        pytest.skip(f"the extras python and javascript are needed: {ended.stdout}")
    return variables
