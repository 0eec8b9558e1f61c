"""The clauses of the guest ABI: what can be looked at of a module, each with the section that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

__all__ = ["CLAUSES", "Clause", "Level"]

Level: TypeAlias = Literal["must", "should"]
"""As in RFC 2119. A host takes a module that does not do what it should, and its author had better know."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One thing that guest_sdk/ABI.md asks for. ``section`` is the heading there."""

    id: str
    section: str
    text: str
    level: Level = "must"


def _table(*clauses: Clause) -> Mapping[str, Clause]:
    return MappingProxyType({clause.id: clause for clause in clauses})


CLAUSES: Mapping[str, Clause] = _table(
    Clause("wasm.binary", "WebAssembly", "the file is a valid core module"),
    Clause("wasm.features", "WebAssembly", "it uses no feature that is off"),
    Clause("wasm.start", "WebAssembly", "it has no start section"),
    Clause("wasm.bounds", "WebAssembly", "its parts are within the bounds of a host"),
    Clause("memory.one", "Exports", "it has one memory of its own, 32-bit and unshared"),
    Clause("exports.memory", "Exports", "it exports its memory"),
    Clause("exports.rho_alloc", "Exports", "it exports rho_alloc with its type"),
    Clause("exports.rho_call", "Exports", "it exports rho_call with its type"),
    Clause("exports.initialize", "Exports", "_initialize, if it is exported, has its type"),
    Clause("exports.names", "Exports", "names of exports occur once, lead somewhere and are not the host's"),
    Clause("imports.known", "Imports", "it imports functions of the table only"),
    Clause("imports.types", "Imports", "each import has its type"),
    Clause("log.text", "Imports", "what is logged is UTF-8", "should"),
    Clause("host_call.request", "Host calls", "a host-request is plain CBOR of its shape"),
    Clause("host_call.declared", "Host calls", "only capabilities of the manifest are asked for", "should"),
    Clause("host_call.take", "Host calls", "host_take is called only while a reply waits"),
    Clause("host_call.denied", "Host calls", "a host call that is denied does not end the guest"),
    Clause("host_call.count", "Host calls", "a guest stops asking when it is told quota"),
    Clause("calls.begin", "Calls", "instantiation and _initialize end without a fault"),
    Clause("alloc.room", "Calls", "rho_alloc has room for a small request"),
    Clause("alloc.bounds", "Calls", "the room that rho_alloc answers is inside the memory"),
    Clause("alloc.large", "Calls", "rho_alloc has room for the largest request, or answers 0", "should"),
    Clause("alloc.zero", "Calls", "rho_alloc answers 0 or traps where memory.grow is refused"),
    Clause("calls.answered", "Calls", "arguments that the schema takes end in an answer"),
    Clause("calls.succeed", "Calls", "each tool answers some call that fits its schema, and does not raise", "should"),
    Clause("calls.repeatable", "Calls", "the same request has the same answer, byte by byte"),
    Clause("answer.bounds", "Calls", "the answer is inside the memory"),
    Clause("answer.empty", "Envelopes", "the answer has at least one byte"),
    Clause("answer.shape", "Envelopes", "the answer has exactly one shape and its keys"),
    Clause("answer.images", "Envelopes", "images are png, jpeg, webp or gif, and what they say they are"),
    Clause("answer.output_schema", "Envelopes", "what a tool answers fits the output_schema that it declares"),
    Clause("request.unknown_keys", "Envelopes", "unknown keys of a request and its context are ignored"),
    Clause("answer.plain", "Plain CBOR", "the answer is one item of plain CBOR"),
    Clause("plain.floats", "Plain CBOR", "a number is read in half, single and double precision"),
    Clause("plain.texts", "Plain CBOR", "text of every plane of Unicode, with NUL inside, ends in an answer"),
    Clause("plain.depth", "Plain CBOR", "arguments at the limit of depth end in an answer"),
    Clause("plain.items", "Plain CBOR", "arguments of very many items end in an answer, or meet a limit"),
    Clause("plain.large", "Plain CBOR", "a request at the limit of bytes ends in an answer, or meets a limit"),
    Clause("manifest.section", "Manifest", "it has one section rho.manifest, within its bound"),
    Clause("manifest.plain", "Manifest", "the manifest is one map of plain CBOR"),
    Clause("manifest.abi", "Manifest", "it names an ABI version that the host knows"),
    Clause("manifest.requires", "Manifest", "it requires nothing that the host does not know"),
    Clause("manifest.shape", "Manifest", "it has the shape of the CDDL and no other keys"),
    Clause("manifest.tools", "Manifest", "names, descriptions and hints of tools are as they must be"),
    Clause("manifest.schemas", "Manifest", "schemas of tools are JSON Schemas that a host can use"),
    Clause("manifest.examples", "Manifest", "examples have the shapes of requests, answers and host calls"),
    Clause("examples.answered", "Manifest", "each example answers as it says"),
    Clause("image.shape", "Images", "an image is one import, data and a manifest"),
    Clause("image.memory", "Images", "an image imports its engine's memory, and no more of it than there is"),
    Clause("image.segments", "Images", "its segments are few, ascend and stay inside the memory"),
    Clause("image.engine", "Images", "an image names its engine, and nothing else does"),
    Clause("memory.start", "Limits", "the memory that it starts with is within a call's"),
    Clause("answer.limits", "Limits", "the answer is within the bounds of answers"),
    Clause("memory.exhausted", "Limits", "where memory.grow is refused, no other answer comes of it"),
    Clause("limits.fuel", "Limits", "the least call of each tool ends within the fuel of a call"),
    Clause("limits.deadline", "Limits", "the least call of each tool ends within the deadline of a call"),
    Clause("request.unknown_tool", "Errors", "a tool that the module does not have is never ok", "should"),
    Clause("request.abi", "Errors", "a request of another ABI is never ok", "should"),
    Clause("request.malformed", "Errors", "a request that is not plain CBOR is never ok", "should"),
)
"""In the order of the page. Ids are kept: scripts rely on them."""
