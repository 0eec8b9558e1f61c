"""From what a model wrote to an artifact: built as it is, and where it declares no tool, with a declaration put in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.plain import encode, jsonable
from rho_wasm.toolchains.declared import DECLARE
from rho_wasm.toolchains.image_builder import INTERPRETED, ImageBuilder
from rho_wasm.toolchains.pipeline import build

__all__ = ["DECLARES_NOTHING", "Asked", "Built", "built"]

DECLARES_NOTHING = ("declares no tool", "exports no function", "has no description")
"""How the engines say that a source has functions, but no tool."""
_CAPABILITIES = {
    "python": '@tool(capabilities=["NAME"])',
    "javascript": 'export const capabilities = ["NAME"];',
    "typescript": 'export const capabilities = ["NAME"];',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What ``write_tool`` was given. ``examples`` are as in a manifest."""

    language: str
    source: str = field(repr=False)
    name: str
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    examples: Sequence[Mapping[str, Any]] = ()
    capabilities: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """``notes`` say what of the call does not hold, because the source says something else."""

    artifact: Artifact
    notes: tuple[str, ...] = ()
    added: str | None = None
    """What was put after the source, to declare its tool."""


async def built(asked: Asked, images: ImageBuilder, *, host_limits: HostLimits, tinycc: bool) -> Built:
    """Raises :class:`BuildError` and :class:`ModuleRejected`. ``tinycc``: C is built by it, and by nothing native."""
    if asked.language in INTERPRETED:
        return await _interpreted(asked, images)
    return await _compiled(asked, host_limits=host_limits, compiler="tinycc" if tinycc else None)


async def _interpreted(asked: Asked, images: ImageBuilder) -> Built:
    """The source as it is, with the examples of the call beside those of its own. Where it declares no tool, it is
    declared in lines after its last: they are a part of the source from then on, so a person reads them too, and no
    line of it moves."""
    fillable = asked.description is not None and asked.name.isidentifier()
    try:
        artifact = await images.build(asked.source, language=asked.language)
    except BuildError as error:
        if not fillable or not _declares_nothing(error):
            raise
        ways = _declared(asked)
    else:
        declaration = artifact.manifest.tool(asked.name)
        if not fillable or declaration is None or declaration.description.strip() or asked.language != "python":
            return _keeping(_compared(artifact, asked), asked)
        ways = (f"{asked.name}.__doc__ = {_python(asked.description)}\n",)
    refused: BuildError | None = None
    for added in ways:
        end = "\n" if asked.source.endswith("\n") else "\n\n"
        try:
            artifact = await images.build(asked.source + end + added, language=asked.language)
        except BuildError as error:
            refused = refused or error
            if not _declares_nothing(error):
                raise
        else:
            return _keeping(replace(_compared(artifact, asked), added=added.strip()), asked)
    assert refused is not None, "each language has a way to declare a tool"
    raise refused


def _keeping(made: Built, asked: Asked) -> Built:
    """The same with the examples of the call in its manifest too, after those that the source declares: so they are
    asked at every switch. They are the bytes that the source is built to with that manifest beside it.

    Raises :class:`ModuleRejected` for an example that no manifest can have.
    """
    given = made.artifact.manifest
    declaration = given.tool(asked.name)
    assert declaration is not None, "it was compared"
    known = [_same_form(each.as_plain()) for each in declaration.examples]
    if not (more := [each for each in asked.examples if _same_form(each) not in known]):
        return made
    plain = given.as_plain()
    for tool in plain["tools"]:
        if tool["name"] == asked.name:
            tool["examples"] = [*tool.get("examples", ()), *(jsonable(each) for each in more)]
    wasm = embed(made.artifact.wasm, Manifest.decode(encode(plain)))
    return replace(made, artifact=replace(made.artifact, wasm=wasm))


def _same_form(example: Mapping[str, Any]) -> dict[str, Any]:
    """An example without what may be left out."""
    return {key: value for key, value in example.items() if key != "host" or value}


def _declared(asked: Asked) -> tuple[str, ...]:
    """Declarations to put after the source: for each way in which the function may be there."""
    more: dict[str, Any] = {"examples": list(asked.examples)} if asked.examples else {}
    if asked.language == "python":
        more |= {} if asked.schema is None else {"input_schema": asked.schema}
        more |= {"capabilities": list(asked.capabilities)} if asked.capabilities else {}
        options = "".join(f", {key}={_python(value)}" for key, value in more.items())
        told = f"description={_python(asked.description)}{options}"
        return (f"import rho as _rho\n{asked.name} = _rho.tool({told})({asked.name})\n",)
    more |= {"description": asked.description} | ({} if asked.schema is None else {"input": asked.schema})
    text = f'import {{ tool as _rho_tool }} from "rho";\n_rho_tool({_javascript(more)}, {asked.name});\n'
    if asked.capabilities:
        text += f"export const capabilities = {_javascript(asked.capabilities)};\n"
    return text, f"{text}export {{ {asked.name} }};\n"


def _python(value: Any) -> str:
    """A literal of ASCII alone: what is quoted stays inside its quotes."""
    return ascii(jsonable(value))


def _javascript(value: Any) -> str:
    """The same for JavaScript, where one key of JSON sets something else: ``{"__proto__": ...}``."""
    return _literal(jsonable(value))


def _literal(value: Any) -> str:
    if type(value) is dict:
        return f"{{{', '.join(f'{_key(key)}: {_literal(item)}' for key, item in value.items())}}}"
    if type(value) is list:
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=True)


def _key(key: str) -> str:
    text = json.dumps(key, ensure_ascii=True)
    return f"[{text}]" if key == "__proto__" else text


def _declares_nothing(error: BuildError) -> bool:
    return error.reason == "build_failed" and any(
        said in each.message for each in error.diagnostics for said in DECLARES_NOTHING
    )


async def _compiled(asked: Asked, *, host_limits: HostLimits, compiler: str | None) -> Built:
    """What the module declares of itself; else what the call says."""

    async def with_manifest(manifest: Mapping[str, Any] | None) -> Artifact:
        return await build(
            asked.source,
            language=asked.language,
            manifest=manifest,
            compiler=compiler if asked.language == "c" else None,
            host_limits=host_limits,
        )

    # Assembling text takes a process of its own, and what declares itself there has a function of this name.
    if asked.language != "wat" or DECLARE in asked.source or asked.description is None:
        try:
            return _keeping(_compared(await with_manifest(None), asked), asked)
        except BuildError as error:
            if error.reason != "manifest_missing" or asked.description is None:
                raise
    declaration = {
        "name": asked.name,
        "description": asked.description,
        "input_schema": {"type": "object"} if asked.schema is None else dict(asked.schema),
        "examples": [dict(each) for each in asked.examples],
    }
    notes = () if asked.schema is not None else ("no schema was given, so it takes any arguments",)
    manifest = {"tools": [declaration], "capabilities": list(asked.capabilities)}
    return Built(await with_manifest(jsonable(manifest)), notes)


def _compared(artifact: Artifact, asked: Asked) -> Built:
    """Raises :class:`BuildError` where the source does not declare what it is to be called."""
    declaration = artifact.manifest.tool(asked.name)
    if declaration is None:
        names = ", ".join(artifact.tools[:8])
        raise BuildError(
            asked.language,
            [Diagnostic(f"the source declares {names}, but not {asked.name}")],
            hint="say that name, or call the function so: a tool's name is its function's",
        )
    notes = []
    if asked.description is not None and asked.description.strip() != declaration.description.strip():
        notes.append("the source has a description of its own, and that holds")
    if asked.schema is not None and jsonable(asked.schema) != jsonable(declaration.as_plain()["input_schema"]):
        notes.append("the source declares its arguments itself, and those hold")
    if missing := sorted(set(asked.capabilities) - set(artifact.manifest.capabilities)):
        how = _CAPABILITIES.get(asked.language, "in what the source declares of itself").replace("NAME", missing[0])
        notes.append(
            f"the source does not declare these capabilities, so it cannot ask for them: {', '.join(missing)}; "
            f"declare them there: {how}"
        )
    return Built(artifact, tuple(notes))
