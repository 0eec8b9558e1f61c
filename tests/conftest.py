"""Every async test runs on asyncio and on trio. In CI hypothesis tries the same examples each time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, settings

from rho_wasm.cli.extras import extras
from rho_wasm.dynamic import judge

# Else each of the many processes that tests start, and each worker of pytest-xdist, would compile all it imports anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes, and how long it takes to make one, is the machine's affair.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# The end of a call waits for the disk for a moment only, and a test looks at what was written, told and switched then.
judge._STRIKE_WAIT_S = judge._QUARANTINE_WAIT_S = 60.0


_MAKES_ENGINES = {"made_engines", "cpython_shelf", "quickjs_wasm", "quickjs_shelf"}
"""Fixtures that take a minute, or several on a busy machine: of the time of whichever test asks first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None and not _MAKES_ENGINES.isdisjoint(
            getattr(item, "fixturenames", ())
        ):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def slow_on_trio(request: pytest.FixtureRequest) -> str:
    """``anyio_backend`` where a test takes long, and what takes long knows of no event loop: trio's turn is the slow
    suite's."""
    return str(request.param)


@pytest.fixture(scope="session")
def made_engines(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a user who installed the engines of Python and JavaScript. Only for tests marked ``slow``."""
    if missing := [extra for extra in extras() if extra.name != "c" and extra.problem is not None]:
        pytest.skip(f"{missing[0].problem}: {missing[0].hint}")
    folder = tmp_path_factory.mktemp("engines")
    variables = {
        "RHO_WASM_ENGINES": str(folder / "engines"),
        "RHO_WASM_CACHE": str(folder / "native"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    command = [sys.executable, "-m", "rho_wasm.cli", "engines", "install"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})
    assert ended.returncode == 0, ended.stderr
    return variables
