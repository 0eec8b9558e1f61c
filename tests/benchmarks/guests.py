"""The guests that do the jobs, built when they are first needed and kept by the hash of what made them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import wasmtime

from rho_wasm import Artifact, BuildError, Manifest, build
from rho_wasm.manifest import embed
from rho_wasm.resources import fixture, sdk
from rho_wasm.toolchains import BuildLimits
from rho_wasm.toolchains.c import compile_c
from rho_wasm.toolchains.project import Project
from tests.benchmarks.jobs import Job

__all__ = ["Absent", "echo_with_tools", "extism_guest", "rho_guest", "text_guest", "unbuilt"]

_SOURCES = Path(__file__).parent / "guests"


class Absent(Exception):
    """Something cannot take part; the text says why."""


async def rho_guest(job: Job) -> Artifact:
    """``job`` behind the guest ABI. Raises :class:`Absent` without a C compiler."""
    if job.source is None:
        return Artifact.from_wasm(fixture("echo.wasm").read_bytes())
    source = f'#include "rho.h"\n#define JOB "{job.tool}"\n' + _read("number.c", job.source, "rho_entry.c")
    manifest = _manifest([job.tool])
    kept = _kept(source, json.dumps(manifest), sdk("c/rho.h").read_text())
    if not kept.exists():
        try:
            _keep(kept, (await build(source, language="c", manifest=manifest, trusted=True)).wasm)
        except BuildError as error:
            raise unbuilt(error) from None
    return Artifact.from_wasm(kept.read_bytes())


async def extism_guest(job: Job) -> bytes:
    """``job`` behind Extism's ABI: the same C with the same flags, another entry. Raises :class:`Absent` likewise."""
    if job.source is None:
        return bytes(wasmtime.wat2wasm(_read("extism_echo.wat")))
    head = "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n"
    source = head + _read("number.c", job.source, "extism_entry.c")
    kept = _kept(source)
    if not kept.exists():
        try:
            _keep(
                kept,
                (await compile_c(Project.of_text(source, name=job.source), limits=BuildLimits(), trusted=True)).wasm,
            )
        except BuildError as error:
            raise unbuilt(error) from None
    return kept.read_bytes()


def text_guest(name: str) -> Artifact:
    """``guests/NAME.wat``, with one tool of that name."""
    code = bytes(wasmtime.wat2wasm(_read(f"{name}.wat")))
    return Artifact.from_wasm(embed(code, Manifest.from_json(_manifest([name]))))


def echo_with_tools(names: Sequence[str]) -> Artifact:
    """The echo guest under ``names``: modules that differ in what they declare are compiled and kept apart."""
    code = bytes(wasmtime.wat2wasm(fixture("echo.wat").read_text()))
    return Artifact.from_wasm(embed(code, Manifest.from_json(_manifest(names))))


def _manifest(names: Sequence[str]) -> Mapping[str, Any]:
    schema = {"type": "object"}
    return {"tools": [{"name": name, "description": "A benchmark.", "input_schema": schema} for name in names]}


def _read(*names: str) -> str:
    return "\n".join((_SOURCES / name).read_text() for name in names)


def _kept(*parts: str) -> Path:
    try:
        compiler = version("ziglang")
    except PackageNotFoundError:
        compiler = "none"
    digest = hashlib.sha256("\0".join((compiler, *parts)).encode()).hexdigest()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "rho_wasm" / "benchmarks" / f"{digest}.wasm"


def _keep(path: Path, wasm: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(wasm)
    part.replace(path)


def unbuilt(error: BuildError) -> Absent:
    """What a contender is whose guest does not build here."""
    return Absent(f"its guest was not built: {error.diagnostics[0]}{f' ({error.hint})' if error.hint else ''}")
