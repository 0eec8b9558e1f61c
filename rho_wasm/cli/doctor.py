"""``doctor``: what this machine gives a host, what is installed, and how to get what is not."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import typer

from rho_wasm.capabilities.http import http_capabilities
from rho_wasm.cli.extras import Need, extras, needed
from rho_wasm.cli.options import JsonOption
from rho_wasm.cli.output import FAULT, WORKED, Output
from rho_wasm.errors import RhoError
from rho_wasm.host import Host
from rho_wasm.limits import MIB
from rho_wasm.resources import fixture
from rho_wasm.sandbox import NativeCache, SandboxStatistics
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.sandbox.ways import WAY_VARIABLE, why_not_native
from rho_wasm.toolchains import languages
from rho_wasm.toolchains.engines import EngineShelf, engine_specs

__all__ = ["add_to"]


class _Line(NamedTuple):
    """``problem`` is what makes the exit code 4."""

    name: str
    said: str
    problem: bool = False
    hint: str = ""


def doctor(as_json: JsonOption = False) -> int:
    """Say how guests run on this machine, what is kept where, and what is installed. Exit code 4 if guests cannot."""
    output = Output(as_json=as_json)
    looked = _look()
    output.object(looked)
    for line in _lines(looked):
        style = "red" if line.problem else "yellow" if line.hint else None
        output.say(f"{line.name:<11} ", line.said, style=style)
        if line.hint:
            output.say(f"{'':<11} ", line.hint, style=style)
    return WORKED if looked["guests"]["problem"] is None else FAULT


def _look() -> dict[str, Any]:
    cache, shelf = NativeCache.default(), EngineShelf.default()
    shown = shelf.list()
    return {
        "version": importlib.metadata.version("rho-wasm"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{sys.platform} {platform.machine()}",
        "wasmtime": importlib.metadata.version("wasmtime"),
        "guests": anyio.run(_try_a_guest),
        "not_native": why_not_native(),
        "asked_way": os.environ.get(WAY_VARIABLE),
        "landlock": landlock_version() if sys.platform == "linux" else 0,
        "cache": {"folder": str(cache.folder), **_size(cache.folder, ".native")},
        "shelf": {"folder": str(shelf.folder), **_size(shelf.folder, ".engine")},
        "engines": [
            {
                "name": spec.name,
                "languages": list(spec.languages),
                "installed": any(each.is_of(spec) for each in shown),
            }
            for spec in engine_specs()
        ],
        "languages": [needed(language)._asdict() for language in languages()],
        "http_fetch": bool(http_capabilities()),
        "extras": [extra._asdict() for extra in extras()],
    }


async def _try_a_guest() -> dict[str, Any]:
    """Loads a guest as a host does, and says how it would be called. An error is the finding, not the verb's."""
    found: dict[str, Any] = {"way": None, "ticker": None, "signals": None, "cache": None, "problem": None}
    try:
        async with Host.open(":memory:", core=[]) as host:
            (await host.sandbox.load(fixture("echo.wasm").read_bytes())).close()
            statistics = host.sandbox.statistics()
    except (RhoError, OSError, RuntimeError, ValueError) as error:
        return found | {"problem": str(error)}
    return found | _of_statistics(statistics)


def _of_statistics(statistics: SandboxStatistics) -> dict[str, Any]:
    return {
        "way": statistics.way,
        "ticker": statistics.ticker,
        "signals": statistics.signals_based_traps,
        "cache": statistics.cache.state if statistics.cache is not None else "off",
    }


def _size(folder: Path, suffix: str) -> dict[str, int]:
    """How many files there are and how many bytes they have. A folder that cannot be read has none."""
    sizes = []
    try:
        for path in folder.iterdir():
            if path.name.endswith(suffix):
                sizes.append(path.lstat().st_size)
    except OSError:
        pass  # Not there yet, or going away at this moment: what was seen so far is the answer.
    return {"files": len(sizes), "bytes": sum(sizes)}


def _lines(looked: dict[str, Any]) -> Iterator[_Line]:
    guests = looked["guests"]
    yield _Line("rho-wasm", f"{looked['version']} on {looked['python']}, {looked['platform']}")
    yield _Line("wasmtime", looked["wasmtime"])
    if guests["problem"] is not None:
        yield _Line("guests", f"cannot run here: {guests['problem']}", problem=True)
    else:
        yield _Line("guests", _way(looked), hint=_why_public(looked))
        yield _Line("ticker", _TICKERS[guests["ticker"]])
        yield _Line("faults", _SIGNALS[guests["signals"]])
        off = guests["cache"] if guests["cache"] != "on" else ""
        yield _Line("cache", _kept(looked["cache"], off), hint="every process compiles for itself" if off else "")
    yield _Line("compilers", f"confined (Landlock {looked['landlock']})" if looked["landlock"] else _UNCONFINED)
    sandboxed = next(extra for extra in looked["extras"] if extra["name"] == "tinycc")
    if sandboxed["problem"] is None:
        yield _Line("", f"C that is not yours is built in the sandbox ({', '.join(sandboxed['brings'])})")
    else:
        yield _Line("", f"C that is not yours is built natively: {sandboxed['problem']}", hint=sandboxed["hint"])
    yield _Line("engines", _kept(looked["shelf"]))
    for engine in looked["engines"]:
        hint = "" if engine["installed"] else f"rho-wasm engines install {engine['name']}"
        state = "installed" if engine["installed"] else "not installed"
        yield _Line("", f"{engine['name']} ({', '.join(engine['languages'])}): {state}", hint=hint)
    fetch = "ready, for tools that a policy grants it" if looked["http_fetch"] else "a policy that grants it is refused"
    yield _Line("http.fetch", fetch, hint="" if looked["http_fetch"] else "pip install 'rho-wasm[http]'")
    for each in looked["languages"]:
        yield _language(Need(**each))


_TICKERS = {
    "timer": "a timer of the system: no busy Python thread holds it up",
    "thread": "a thread: busy Python threads make deadlines late",
}
_SIGNALS = {
    True: "bounds are checked by the processor (signals)",
    False: "bounds are checked in code: faulthandler is not on, or somebody's engine was first",
}
_UNCONFINED = "not confined here: only with --trusted, for your own sources"


def _way(looked: dict[str, Any]) -> str:
    way = looked["guests"]["way"]
    how = "a short call on the event loop's own thread" if way == "native" else "each call in a thread of its own"
    return f"{way}: {how}"


def _why_public(looked: dict[str, Any]) -> str:
    if looked["guests"]["way"] == "native":
        return ""
    if looked["not_native"] is not None:
        return f"not native, because {looked['not_native']}"
    return f"because {WAY_VARIABLE}={looked['asked_way']}"


def _kept(folder: dict[str, Any], off: str = "") -> str:
    said = f"{folder['folder']}: {folder['files']} files, {folder['bytes'] / MIB:.1f} MiB"
    return f"{said} ({off})" if off else said


def _language(need: Need) -> _Line:
    brings = f" ({', '.join(need.brings)})" if need.brings and need.problem is None else ""
    said = f"{need.language} ({need.suffix}): {need.problem or 'ready'}{brings}"
    return _Line("language", said, hint=need.hint)


def add_to(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("doctor")(doctor)
