"""What all toolchains have in common."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from rho_wasm.errors import BuildError
from rho_wasm.toolchains.assemblyscript import compile_assemblyscript
from rho_wasm.toolchains.c import compile_c
from rho_wasm.toolchains.cpp import compile_cpp
from rho_wasm.toolchains.go import compile_go
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.tinycc import compile_tinycc
from rho_wasm.toolchains.toolchain import Toolchain, refuse_names

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """One: nothing is waited for."""
    return "asyncio"


def project(*names: str) -> Project:
    return Project(main=names[0], files=MappingProxyType(dict.fromkeys(names, "")), name=names[0])


@pytest.mark.parametrize(
    ("toolchain", "main", "inside"),
    [
        (compile_c, "main.c", "rho.h/x.c"),
        (compile_c, "main.c", "main.wasm/deep/x.h"),
        (compile_tinycc, "main.c", "out.wasm/x.c"),
        (compile_cpp, "main.cpp", "rho.h/x.cpp"),
        (compile_cpp, "main.cpp", "rho.hpp/x.cpp"),
        (compile_cpp, "main.cpp", "main.wasm/x.cpp"),
        (compile_go, "main.go", "rho_start.go/x.go"),
        (compile_go, "main.go", "go.mod/x.go"),
        (compile_assemblyscript, "main.as.ts", "rho_start.ts/x.ts"),
    ],
)
async def test_a_folder_in_the_place_of_a_file_of_the_build_is_refused_by_its_name(
    toolchain: Toolchain, main: str, inside: str
) -> None:
    with pytest.raises(BuildError) as caught:
        await toolchain(project(main, inside), limits=BuildLimits(), trusted=True)
    assert caught.value.reason == "build_failed"
    [found] = caught.value.diagnostics
    assert found.file == inside.partition("/")[0]
    assert found.message == "the build writes a file of this name itself: call the folder otherwise"


def test_a_name_that_the_build_needs_may_be_used_deeper_and_a_header_of_the_sdk_replaced() -> None:
    refuse_names("c", project("main.c", "rho.h", "own/rho.h/x.c"), folders=("rho.h",))
    with pytest.raises(BuildError, match="call it otherwise"):
        refuse_names("go", project("main.go", "rho_start.go"), files=("rho_start.go",))
