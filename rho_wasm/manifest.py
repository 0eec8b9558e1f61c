"""The manifest: what a module says of its tools, in one custom section, read without running it (guest_sdk/ABI.md).

The models hold the shapes of the CDDL exactly; what depends on a host's limits is checked by :meth:`Manifest.decode`
and :meth:`Manifest.from_json`. Whoever wrote it is not trusted: a model reads every text in here.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictBytes,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from rho_wasm import plain, wasm
from rho_wasm.envelope import BadAnswer, Raised, read_answer
from rho_wasm.errors import ModuleRejected, PlainError, SchemaInvalid
from rho_wasm.frozen import FrozenMap, frozen_map, thaw
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.sandbox.abi import ABI_VERSION, MANIFEST_SECTION
from rho_wasm.schema_cache import PatternBudget, compiled_schema
from rho_wasm.tools import TOOL_NAME
from rho_wasm.untrusted import inert, unsafe_characters

__all__ = ["KNOWN_REQUIREMENTS", "Example", "Manifest", "ToolDeclaration", "embed"]

KNOWN_REQUIREMENTS: frozenset[str] = frozenset()
"""What a manifest may ask for in ``requires``. Version 1 has nothing there yet, so any name is refused."""

_MAX_NAME_CHARS = 128
_DESCRIBING_KEYS = ("description", "title", "$comment")


def _safe_text(text: str) -> str:
    if (found := unsafe_characters(text)) is not None:
        raise ValueError(f"has {found}, which a reader would not see")
    return text


def _safe_name(name: str) -> str:
    if not 0 < len(name) <= _MAX_NAME_CHARS:
        raise ValueError(f"must have 1 to {_MAX_NAME_CHARS} characters")
    if not name.isprintable():
        raise ValueError("must be one line of characters that a reader sees")
    return _safe_text(name)


def _tool_name(name: str) -> str:
    if TOOL_NAME.fullmatch(name) is None:
        raise ValueError("a tool's name is 1 to 64 of A-Z a-z 0-9 _ -")
    if "__" in name:
        raise ValueError("a tool's name has no '__', clients use it as a prefix: write '_'")
    return name


def _any_schema(value: object, info: ValidationInfo) -> FrozenMap:
    return _schema(value, info, of_arguments=False)


def _schema(value: object, info: ValidationInfo, *, of_arguments: bool = True) -> FrozenMap:
    schema = frozen_map(value)
    for path, text in _texts(schema):
        if (found := unsafe_characters(text)) is not None:
            raise ValueError(f"{path}: has {found}, which a reader would not see")
    try:
        compiled = compiled_schema(schema, of_arguments=of_arguments)
        if isinstance(info.context, PatternBudget):
            info.context.take(compiled)
    except SchemaInvalid as error:
        raise ValueError(str(error)) from None
    return schema


PlainMap = Annotated[Mapping[str, Any], PlainValidator(frozen_map)]
InputSchema = Annotated[Mapping[str, Any], PlainValidator(_schema)]
OutputSchema = Annotated[Mapping[str, Any], PlainValidator(_any_schema)]
SafeName = Annotated[StrictStr, AfterValidator(_safe_name)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def as_plain(self) -> dict[str, Any]:
        """This as plain data, without what was not said."""
        return {name: _plain_field(value) for name, value in self if value not in (None, ())}


def _plain_field(value: Any) -> Any:
    if isinstance(value, _Frozen):
        return value.as_plain()
    return [_plain_field(item) for item in value] if isinstance(value, tuple) else thaw(value)


class Example(_Frozen):
    """One call of a tool and what it must answer. ``host`` are the host calls it makes, each with its reply."""

    arguments: PlainMap
    answer: PlainMap
    host: tuple[tuple[PlainMap, PlainMap], ...] = ()

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        try:
            read_answer(thaw(self.answer), limits=Limits())
        except BadAnswer as error:
            raise ValueError(f"answer: {error.detail}") from None
        except Raised:
            pass
        for number, (request, reply) in enumerate(self.host):
            if set(request) != {"capability", "arguments"} or not isinstance(request["capability"], str):
                raise ValueError(f"host[{number}]: a request is capability (text) and arguments (a map)")
            if not isinstance(request["arguments"], Mapping):
                raise ValueError(f"host[{number}]: arguments is not a map")
            if not _is_reply(reply):
                raise ValueError(f"host[{number}]: a reply is ok, or error with kind and message")
        return self


def _is_reply(reply: Mapping[str, Any]) -> bool:
    if set(reply) == {"ok"}:
        return True
    error = reply.get("error")
    return (
        set(reply) == {"error"}
        and isinstance(error, Mapping)
        and set(error) == {"kind", "message"}
        and all(isinstance(text, str) for text in error.values())
    )


class ToolDeclaration(_Frozen):
    """One tool of a module: what a model is shown, and what the host may assume of it."""

    name: Annotated[StrictStr, AfterValidator(_tool_name)]
    description: Annotated[StrictStr, AfterValidator(_safe_text)]
    input_schema: InputSchema
    output_schema: OutputSchema | None = None
    timeout_ms: Annotated[int, Field(strict=True, gt=0, lt=2**63)] | None = None
    read_only: StrictBool | None = None
    destructive: StrictBool | None = None
    idempotent: StrictBool | None = None
    metadata: PlainMap | None = None
    examples: tuple[Example, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _never_manual(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "manual" in given:
            raise ValueError("a guest's tool cannot be manual: only the host's own tools are; remove the key")
        return given


class Manifest(_Frozen):
    """Everything that a module declares. ``capabilities`` is a ceiling: what is not named here is never granted.

    ``engine`` is the SHA-256 of the engine that an image was made for; a guest of its own has none. ``extensions`` is
    kept and ignored, an unknown name in ``requires`` is refused.
    """

    abi: Annotated[int, Field(strict=True)] = ABI_VERSION
    tools: Annotated[tuple[ToolDeclaration, ...], Field(min_length=1)]
    language: SafeName | None = None
    capabilities: tuple[SafeName, ...] = ()
    engine: Annotated[StrictBytes, Field(min_length=32, max_length=32)] | None = None
    requires: tuple[StrictStr, ...] = ()
    extensions: PlainMap | None = None

    @property
    def is_image(self) -> bool:
        """Whether its module is an image over an engine, as no module with code may say."""
        return self.engine is not None

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        names: set[str] = set()
        for tool in self.tools:
            if tool.name in names:
                raise ValueError(f"two tools are named {tool.name}")
            names.add(tool.name)
        return self

    def tool(self, name: str) -> ToolDeclaration | None:
        """The tool of that name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)

    @classmethod
    def decode(cls, data: bytes, *, limits: HostLimits | None = None) -> Self:
        """Reads the bytes of the custom section.

        Raises :class:`ModuleRejected`: ``manifest_too_large``, ``manifest_malformed`` (no plain CBOR), ``abi_version``
        (names both), ``manifest_requires`` (names what is unknown) and ``manifest_invalid`` (names field and fault).
        """
        limits = limits or HostLimits()
        if len(data) > limits.manifest_bytes:
            raise ModuleRejected(
                "manifest_too_large",
                "the manifest is too large",
                limit=limits.manifest_bytes,
                value=len(data),
                hint="shorten descriptions, schemas and examples",
            )
        try:
            given = plain.decode(data, max_bytes=limits.manifest_bytes)
        except PlainError as error:
            raise ModuleRejected("manifest_malformed", f"the manifest is {error}") from None
        return cls._checked(given, limits)

    @classmethod
    def from_json(cls, source: str | Mapping[str, Any], *, limits: HostLimits | None = None) -> Self:
        """Reads ``STEM.manifest.json``, as text or already parsed. ``abi`` may be left out and is then this version.

        JSON has no bytes. The one place where a manifest's author needs them, ``data`` of an image in an example's
        answer, is base64url without padding there; ``engine`` is written by the builder of images only and is refused.
        Raises :class:`ModuleRejected` as :meth:`decode` does.
        """
        limits = limits or HostLimits()
        given = _parse_json(source, limits) if isinstance(source, str) else source
        try:
            # The one pass over all of it: bounds the depth, and refuses what plain data cannot hold.
            written = thaw(frozen_map(given))
            plain.encode(written, max_bytes=16 * limits.manifest_bytes)
        except (ValueError, PlainError) as error:
            raise ModuleRejected("manifest_malformed", inert(f"the manifest is no map: {error}", limit=300)) from None
        if "engine" in written:
            raise ModuleRejected(
                "manifest_invalid", "engine: is written by the builder of images", hint="remove the key"
            )
        manifest = cls._checked({"abi": ABI_VERSION} | _with_image_bytes(written), limits)
        if (size := len(manifest.encode())) > limits.manifest_bytes:
            raise ModuleRejected(
                "manifest_too_large", "the manifest is too large", limit=limits.manifest_bytes, value=size
            )
        return manifest

    def encode(self) -> bytes:
        """Deterministic plain CBOR: the same manifest is always the same bytes. Raises ``TooLarge`` over 1 MiB."""
        return plain.encode(self.as_plain())

    @classmethod
    def _checked(cls, given: Any, limits: HostLimits) -> Self:
        if type(given) is not dict:
            raise ModuleRejected("manifest_malformed", "the manifest is not a map")
        _check_version(given.get("abi"))
        _check_requirements(given.get("requires", []))
        try:
            manifest = cls.model_validate(given, context=PatternBudget())
        except ValidationError as error:
            raise ModuleRejected("manifest_invalid", _first_problem(error)) from None
        _check_descriptions(manifest.tools, limits.description_bytes)
        return manifest


def embed(module: bytes, manifest: Manifest) -> bytes:
    """``module`` with ``manifest`` as its only manifest section. Raises :class:`ModuleRejected` if it is no module."""
    return wasm.with_custom(module, MANIFEST_SECTION, manifest.encode())


def _check_version(version: Any) -> None:
    if type(version) is not int:
        raise ModuleRejected("manifest_invalid", "abi: must be an integer")
    if version != ABI_VERSION:
        raise ModuleRejected(
            "abi_version",
            f"the module has ABI version {_number(version)}, this host knows {ABI_VERSION}",
            limit=ABI_VERSION,
            value=_number(version),
            hint=f"build it for version {ABI_VERSION}, or use a newer rho_wasm",
        )


def _number(value: int) -> int | str:
    return value if abs(value) < 2**63 else "beyond 64 bits"


def _check_requirements(requires: Any) -> None:
    if type(requires) is not list:
        raise ModuleRejected("manifest_invalid", "requires: must be a list of text")
    for name in requires:
        if type(name) is not str:
            raise ModuleRejected("manifest_invalid", "requires: must be a list of text")
        if name not in KNOWN_REQUIREMENTS:
            shown = inert(name, limit=_MAX_NAME_CHARS)
            raise ModuleRejected(
                "manifest_requires",
                f"the module requires {shown}, which this host does not know",
                name=shown,
                hint="use a newer rho_wasm",
            )


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "is no key of a manifest here"
    return inert(f"{where}: {message}" if where else message, limit=500)


def _check_descriptions(tools: Sequence[ToolDeclaration], limit: int) -> None:
    for tool in tools:
        texts = [("description", tool.description)]
        for schema in (tool.input_schema, tool.output_schema or {}):
            texts += [(path, text) for path, text in _texts(schema) if path.endswith(_DESCRIBING_KEYS)]
        for path, text in texts:
            if (size := len(text.encode())) > limit:
                raise ModuleRejected(
                    "description_too_large",
                    f"{inert(path, limit=_MAX_NAME_CHARS)} of {tool.name} is too long",
                    name=tool.name,
                    limit=limit,
                    value=size,
                    hint="a model reads it at every turn: shorten it",
                )


def _texts(value: Any, path: str = "$") -> Iterator[tuple[str, str]]:
    """Every text in plain data, keys too, with a path to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{path}.(key)", key
            yield from _texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{path}[{number}]")


def _parse_json(text: str, limits: HostLimits) -> Any:
    # JSON escapes and white space make text longer than the CBOR it becomes, but not without bound.
    if len(text) > 16 * limits.manifest_bytes:
        raise ModuleRejected(
            "manifest_too_large", "the manifest is too large", limit=limits.manifest_bytes, value=len(text)
        )
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        detail = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise ModuleRejected("manifest_malformed", f"the manifest is not JSON: {detail}") from None
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else inert(str(error), limit=200)
        raise ModuleRejected("manifest_malformed", f"the manifest is not JSON: {why}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {inert(key, limit=_MAX_NAME_CHARS)} is there twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _with_image_bytes(manifest: dict[str, Any]) -> dict[str, Any]:
    """Makes bytes of the base64url text at tools[].examples[].answer.images[].data, in place."""
    for tool in _maps(manifest.get("tools")):
        for example in _maps(tool.get("examples")):
            answer = example.get("answer")
            for image in _maps(answer.get("images")) if isinstance(answer, dict) else ():
                if isinstance(image.get("data"), str):
                    image["data"] = _base64url(image["data"])
    return manifest


def _maps(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _base64url(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ModuleRejected("manifest_invalid", "data of an example's image is not base64url") from None
