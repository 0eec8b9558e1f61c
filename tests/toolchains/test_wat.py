"""WebAssembly text is read in a child process; its faults come back with line and column."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.toolchains import BuildLimits, build
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.wat import compile_wat
from tests.toolchains.conftest import MINIMAL_WAT


@pytest.mark.anyio
async def test_text_becomes_a_module() -> None:
    built = await compile_wat(Project.of_text(MINIMAL_WAT, name="tool.wat"), limits=BuildLimits())
    assert built.wasm.startswith(b"\0asm\x01\0\0\0")


@pytest.mark.anyio
async def test_a_fault_has_line_and_column(manifest: dict[str, Any]) -> None:
    source = "(module\n  (func $f\n    local.get $missing))\n"
    with pytest.raises(BuildError) as caught:
        await build(source, language="wat", manifest=manifest)
    assert caught.value.reason == "build_failed"
    [diagnostic] = caught.value.diagnostics
    assert (diagnostic.file, diagnostic.line, diagnostic.column) == ("source.wat", 3, 15)
    assert "unknown local" in diagnostic.message


@pytest.mark.anyio
@pytest.mark.parametrize("source", ["", "x" * 100_000, "(module" * 100_000, "(; never closed"])
async def test_what_is_no_module_is_refused_in_few_words(source: str) -> None:
    with pytest.raises(BuildError) as caught:
        await compile_wat(Project.of_text(source, name="tool.wat"), limits=BuildLimits())
    assert len(str(caught.value)) < 1000


@pytest.mark.anyio
async def test_text_of_the_author_comes_back_inert() -> None:
    with pytest.raises(BuildError) as caught:
        await compile_wat(
            Project.of_text('(module (export "\u202e\x1b[31m" (func $\u202e)))', name="\x1b]0;x.wat"),
            limits=BuildLimits(),
        )
    assert not set(str(caught.value)) & {"\u202e", "\x1b"}


@pytest.mark.anyio
async def test_a_module_larger_than_may_be_written_is_refused() -> None:
    source = f'(module (memory 1) (data (i32.const 0) "{"a" * 5000}"))'
    with pytest.raises(BuildError) as caught:
        await compile_wat(Project.of_text(source, name="tool.wat"), limits=BuildLimits(file_bytes=1000))
    assert caught.value.reason == "build_too_large"


@pytest.mark.anyio
async def test_too_little_time_is_its_own_reason() -> None:
    with pytest.raises(BuildError) as caught:
        await compile_wat(Project.of_text(MINIMAL_WAT, name="tool.wat"), limits=BuildLimits(cpu_seconds=0.001))
    assert caught.value.diagnostics == (Diagnostic("the build was stopped after 0.001 s of CPU time", file="tool.wat"),)
    assert caught.value.reason == "build_timeout"


@pytest.mark.anyio
async def test_a_build_can_be_cancelled() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await compile_wat(Project.of_text(MINIMAL_WAT, name="tool.wat"), limits=BuildLimits())
    assert scope.cancelled_caught
