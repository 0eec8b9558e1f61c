"""What ``write_tool`` was asked for, read as it was meant and within the workshop's bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rho_wasm.capability_names import misnamed, misspelt
from rho_wasm.frozen import thaw
from rho_wasm.grants import BOUNDS
from rho_wasm.manifest import ToolDeclaration
from rho_wasm.plain import json_text
from rho_wasm.results import Failed
from rho_wasm.untrusted import inert
from rho_wasm.workshop.bench import Bench
from rho_wasm.workshop.building import Asked
from rho_wasm.workshop.trying import Case

__all__ = ["asked_for", "check_schemas", "no_capability"]

_LANGUAGES = MappingProxyType(
    {
        "py": "python",
        "python3": "python",
        "js": "javascript",
        "node": "javascript",
        "ts": "typescript",
        "wasm": "wat",
        "webassembly": "wat",
    }
)
_MEANT = MappingProxyType(
    dict.fromkeys(("network", "net", "internet", "web", "http", "https", "fetch", "requests"), "http.fetch")
    | dict.fromkeys(("storage", "store", "database", "memory", "kv"), "kv.get and kv.put")
    | dict.fromkeys(("files", "file", "filesystem", "fs", "disk"), "files.read")
    | dict.fromkeys(("time", "clock", "date"), "clock.now")
    | {"random": "random.bytes", "log": "log.write", "progress": "progress.report", "tools": "tool.call"}
)
"""Words for what a tool wants, each with the capability that is meant."""
_SCHEMA_WORDS = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("required", "dependentRequired", "dependentSchemas", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"),
        *("$ref", "$defs", "definitions"),
    }
)
_VALUES = frozenset({"const", "default"})
"""Words of a schema under which a map is a value, and no schema."""
_SHOWN_CHARS = 500


def asked_for(arguments: Mapping[str, Any], bench: Bench) -> Asked:
    """What was asked for, within the workshop's bounds. Raises :class:`Failed`."""
    limits, source = bench.limits, arguments["source"]
    language = _language(arguments["language"], bench.languages)
    if len(source) > limits.source_chars:
        raise Failed(
            f"the source has {len(source)} characters, of {limits.source_chars} that it may have: write less",
            details={"reason": "source_too_large", "limit": limits.source_chars},
        )
    examples = arguments.get("examples", ())
    if len(examples) > limits.examples:
        raise Failed(
            f"{len(examples)} examples, of {limits.examples} that may be: keep those that tell most",
            details={"reason": "too_many_examples", "limit": limits.examples},
        )
    return Asked(
        language=language,
        source=source,
        name=arguments["name"],
        description=arguments.get("description"),
        schema=_schema(thaw(arguments["schema"])) if "schema" in arguments else None,
        examples=[_example(each) for each in examples],
        capabilities=_capabilities(arguments.get("capabilities", ())),
    )


def _example(given: Mapping[str, Any]) -> dict[str, Any]:
    """An example as a manifest has it."""
    case = Case.of({"arguments": given["arguments"], "expect": given["answer"]})
    example: dict[str, Any] = {"arguments": thaw(case.arguments), "answer": thaw(case.expect)}
    if given.get("host"):
        example["host"] = [_pair(each) for each in thaw(given["host"])]
    return example


def _pair(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    reply = given["reply"]
    whole = type(reply) is dict and len(reply) == 1 and reply.keys() <= {"ok", "error"}
    request = {"capability": given["capability"], "arguments": given.get("arguments", {})}
    return [request, reply if whole else {"ok": reply}]


def _language(given: str, languages: Sequence[str]) -> str:
    """The language that is meant. Raises :class:`Failed` for one that is not built here."""
    word = given.strip().lower()
    meant = _LANGUAGES.get(word, word)
    if meant in languages:
        return meant
    raise Failed(
        f"nothing is written in {inert(given, limit=64)!r} here: say one of {', '.join(languages)}",
        details={"reason": "language_unknown"},
    )


def _schema(given: dict[str, Any]) -> dict[str, Any]:
    if (why := _without_properties(given)) is not None:
        raise Failed(f"schema: {why}", details={"reason": "schema_without_properties"})
    return given


def check_schemas(tools: Iterable[ToolDeclaration]) -> None:
    """Raises :class:`Failed` for a tool whose source says the same wrong."""
    for tool in tools:
        if (why := _without_properties(thaw(tool.input_schema))) is not None:
            shown = inert(tool.name, limit=64)
            raise Failed(f"the schema of {shown} in the source: {why}", details={"reason": "schema_without_properties"})


def _without_properties(schema: dict[str, Any]) -> str | None:
    """Why what looks like the properties of a schema is no schema: it would let anything through. Else None."""
    properties = {name: value for name, value in schema.items() if isinstance(value, dict) and name not in _VALUES}
    if not properties or not _SCHEMA_WORDS.isdisjoint(schema):
        return None
    meant, _ = json_text({"type": "object", "properties": properties, "required": list(properties)})
    return (
        f"properties is missing, so it would let any arguments through: write it as "
        f"{inert(meant, limit=_SHOWN_CHARS)}, where required names those that may not be left out"
    )


def _capabilities(given: Sequence[str]) -> list[str]:
    """Raises :class:`Failed` for a name that is surely none."""
    for name in given:
        if (why := no_capability(name)) is not None:
            raise Failed(f"capabilities: {why}", details={"reason": "capability_unknown"})
    return list(given)


def no_capability(name: str) -> str | None:
    """Why ``name`` is surely no capability, with those that there are; None for what may be one."""
    if not misspelt(name):
        return None
    meant = _MEANT.get(name.strip().lower())
    why = misnamed(name) if meant is None else f"'{inert(name, limit=80)}' is no capability: say {meant}"
    return f"{why}; there are {', '.join(BOUNDS)}"
