"""What a grant may be narrowed to: the bounds of each capability that ships, one frozen model each.

An operator's policy says them (``grants = { "kv.put" = { bytes = 65_536 } }``), a generation keeps those that it was
staged with, and what holds for a call is where both meet. What a policy does not say has the default here. An empty
list means none. Units are in the names; there is no way to say unlimited.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, Final, Self, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr, model_validator

from rho_wasm.errors import NotPlain
from rho_wasm.frozen import FrozenMap, freeze
from rho_wasm.limits import KIB, MAX_DEADLINE_MS, MIB
from rho_wasm.patterns import ToolPattern, narrower
from rho_wasm.untrusted import inert
from rho_wasm.url_rules import UrlRule

__all__ = [
    "BOUNDS",
    "HTTP_METHODS",
    "READING_METHODS",
    "Bounds",
    "CapabilityName",
    "FilesBounds",
    "Grant",
    "HttpBounds",
    "HttpMethods",
    "KvReadBounds",
    "KvWriteBounds",
    "NoBounds",
    "NoEffect",
    "RandomBounds",
    "SecretName",
    "ToolCallBounds",
    "UncheckedBounds",
    "capability_name",
    "is_reserved",
]

HTTP_METHODS: Final = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Those that change nothing (RFC 9110, section 9.2.1)."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CAPABILITY: Final = re.compile(r"(?=.{3,64}\Z)[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_MOST_RULES: Final = 100
_MOST_BYTES: Final = 64 * MIB

Item = TypeVar("Item")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _up_to(most: int, *, least: int = 0) -> Any:
    return Field(strict=True, ge=least, le=most)


def capability_name(name: str) -> str:
    """``name`` itself, if it is two or more lower-case words joined by dots, at most 64 characters. Else ValueError."""
    if _CAPABILITY.fullmatch(name) is None:
        shown = inert(name, limit=80)
        raise ValueError(f"{shown!r} is no name of a capability: lower-case words joined by dots (invoice.lookup)")
    return name


CapabilityName = Annotated[StrictStr, AfterValidator(capability_name)]


def _frozen_map(value: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return FrozenMap(freeze(value))
    except NotPlain as error:
        raise ValueError(str(error)) from None


class Grant(BaseModel):
    """A yes to one capability that was given when a generation was staged, within ``bounds`` (fields of its model).

    Data of a store: whether there is such a capability and its bounds are any is asked whenever the tool is offered.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    capability: CapabilityName
    bounds: Annotated[Mapping[str, Any], AfterValidator(_frozen_map)] = FrozenMap()


class Bounds(BaseModel):
    """What one capability may do at most. A host's own bounds derive from it; their defaults hold where a policy says
    nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @property
    def only_reads(self) -> bool:
        """Whether nothing outside the call can be changed within these bounds. The hints of a tool follow from it."""
        return False

    def meet(self, other: Self) -> Self:
        """What is allowed by both: of numbers the lower, of yes and no the no, of lists and maps what stands in both.

        Raises ValueError where nothing is (two different texts).
        """
        met = {name: self._met(name, getattr(self, name), getattr(other, name)) for name in type(self).model_fields}
        # Not a copy of self, which would carry along what self computed once of its own lists.
        return cast("Self", type(self).model_construct(self.model_fields_set | other.model_fields_set, **met))

    def _met(self, name: str, mine: Any, theirs: Any) -> Any:
        """Of one field. Models whose lists hold rules say here what two of these have in common."""
        if isinstance(mine, bool):
            return mine and theirs
        if isinstance(mine, (int, float)):
            return min(mine, theirs)
        if isinstance(mine, Mapping):
            return FrozenMap({key: item for key, item in mine.items() if key in theirs and theirs[key] == item})
        if isinstance(mine, (tuple, list, frozenset)):
            return type(mine)(item for item in mine if item in theirs)
        if mine == theirs:
            return mine
        raise ValueError(f"{name}: the two have nothing in common")


class NoBounds(Bounds):
    """Of a capability that is granted or not."""


class NoEffect(NoBounds):
    """The same, of one that changes nothing outside the call: clocks, the log, news of progress."""

    @property
    def only_reads(self) -> bool:
        return True


class UncheckedBounds(Bounds):
    """Of a capability that only another program has: what a policy says of it, as it was said.

    Nothing is granted by them: no capability has these bounds. That program reads what was said by its own model.
    """

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, given: Any) -> Any:
        return dict(_frozen_map(given)) if isinstance(given, Mapping) else given

    def meet(self, other: Self) -> Self:
        mine, theirs = self.model_extra or {}, other.model_extra or {}
        both = {**mine, **theirs}
        for name in mine.keys() & theirs.keys():
            if type(mine[name]) is not type(theirs[name]):
                raise ValueError(f"{name}: the two have nothing in common")
            both[name] = self._met(name, mine[name], theirs[name])
        return type(self).model_validate(both)


class RandomBounds(NoEffect):
    """Of ``random.bytes``."""

    max_bytes: Annotated[int, _up_to(MIB)] = 4_096
    """Random bytes that one call of the tool may take through the capability. Beyond: ``quota``."""


class KvReadBounds(Bounds):
    """Of ``kv.get`` and ``kv.list``."""

    value_bytes: Annotated[int, _up_to(_MOST_BYTES)] = 64 * KIB
    """One value. Beyond: ``quota``."""
    key_bytes: Annotated[int, _up_to(4 * KIB, least=1)] = 512
    """One key in UTF-8. Beyond: ``invalid_arguments``."""

    @property
    def only_reads(self) -> bool:
        return True


class KvWriteBounds(KvReadBounds):
    """Of ``kv.put`` and ``kv.delete``."""

    keys: Annotated[int, _up_to(1_000_000)] = 1_000
    """Keys that the tool may have. Beyond: ``quota``."""
    bytes: Annotated[int, _up_to(1024 * MIB)] = 1 * MIB
    """All keys and values of the tool together. Beyond: ``quota``."""

    @property
    def only_reads(self) -> bool:
        return False


def _url_rules(rules: tuple[str, ...]) -> tuple[str, ...]:
    return _once(str(UrlRule.parse(rule)) for rule in rules)


def _methods(methods: tuple[str, ...]) -> tuple[str, ...]:
    for method in methods:
        if method not in HTTP_METHODS:
            raise ValueError(f"{inert(method, limit=40)!r} is no method (known: {', '.join(HTTP_METHODS)})")
    return _once(methods)


def _networks(networks: tuple[str, ...]) -> tuple[str, ...]:
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            shown = inert(network, limit=80)
            raise ValueError(
                f"{shown!r} is no network such as 127.0.0.0/8 or ::1/128, without bits of a host"
            ) from None
    return _once(str(ipaddress.ip_network(network)) for network in networks)


def _named(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{inert(name, limit=80)!r} is no name: 1 to 64 of A-Z a-z 0-9 _ -")
    return name


HttpMethods = Annotated[tuple[StrictStr, ...], AfterValidator(_methods)]
SecretName = Annotated[StrictStr, AfterValidator(_named)]


class HttpBounds(Bounds):
    """Of ``http.fetch``. Each redirect is held to the same rules."""

    hosts: Annotated[tuple[StrictStr, ...], Field(max_length=_MOST_RULES), AfterValidator(_url_rules)] = ()
    """``https://HOST[:PORT][/PATH]``, with ``*.`` before the host for every name below it (:class:`UrlRule`)."""
    methods: HttpMethods = ("GET",)
    """Of GET, HEAD, OPTIONS, POST, PUT, PATCH and DELETE."""
    networks: Annotated[tuple[StrictStr, ...], Field(max_length=_MOST_RULES), AfterValidator(_networks)] = ()
    """Addresses that are not public and may be reached all the same, as networks: ``127.0.0.0/8``. Default: none."""
    request_bytes: Annotated[int, _up_to(_MOST_BYTES)] = 64 * KIB
    """Body of one request."""
    response_bytes: Annotated[int, _up_to(_MOST_BYTES)] = 1 * MIB
    """Body of one response, after decompression."""
    header_bytes: Annotated[int, _up_to(MIB, least=1)] = 32 * KIB
    """All header fields of one response."""
    timeout_ms: Annotated[int, _up_to(MAX_DEADLINE_MS, least=1)] = 10_000
    """One fetch with its redirects; the call's own deadline holds too."""
    redirects: Annotated[int, _up_to(20)] = 5
    """Redirects that one fetch follows."""
    requests: Annotated[int, _up_to(1_000)] = 20
    """Requests in one call of the tool, redirects among them. Beyond: ``quota``."""
    secrets: Annotated[tuple[SecretName, ...], Field(max_length=_MOST_RULES)] = ()
    """Names of the policy's ``[secrets]`` that it may have sent along."""

    @cached_property
    def rules(self) -> tuple[UrlRule, ...]:
        """``hosts``, parsed."""
        return tuple(map(UrlRule.parse, self.hosts))

    @cached_property
    def allowed_networks(self) -> tuple[Network, ...]:
        """``networks``, parsed."""
        return tuple(map(ipaddress.ip_network, self.networks))

    @property
    def only_reads(self) -> bool:
        return READING_METHODS.issuperset(self.methods)

    def _met(self, name: str, mine: Any, theirs: Any) -> Any:
        if name == "hosts":
            return _pairwise(map(UrlRule.parse, mine), map(UrlRule.parse, theirs), UrlRule.meet)
        if name == "networks":
            return _pairwise(map(ipaddress.ip_network, mine), map(ipaddress.ip_network, theirs), _network_meet)
        return super()._met(name, mine, theirs)


def _folders(folders: Mapping[str, str]) -> Mapping[str, str]:
    for name, folder in folders.items():
        _named(name)
        path = PurePosixPath(folder)
        if not path.is_absolute() or ".." in path.parts or "\0" in folder:
            raise ValueError(f"{inert(name, limit=64)}: a folder is an absolute path without '..'")
    return FrozenMap({name: str(PurePosixPath(folder)) for name, folder in folders.items()})


class FilesBounds(NoEffect):
    """Of ``files.read`` and ``files.list``."""

    folders: Annotated[Mapping[StrictStr, StrictStr], Field(max_length=_MOST_RULES), AfterValidator(_folders)] = (
        FrozenMap()
    )
    """The name by which guests say it -> the folder's absolute path."""
    file_bytes: Annotated[int, _up_to(_MOST_BYTES)] = 1 * MIB
    """One file. Beyond: ``quota``."""
    entries: Annotated[int, _up_to(100_000)] = 1_000
    """Entries of one answer of ``files.list``, which has 3,000 at most; the others are asked for page by page."""


class ToolCallBounds(Bounds):
    """Of ``tool.call``."""

    tools: Annotated[tuple[ToolPattern, ...], Field(max_length=_MOST_RULES)] = ()
    """Names, or prefixes ending in ``*``, of tools that may be called."""
    calls: Annotated[int, _up_to(1_000)] = 20
    """Calls of other tools in one call of the tool. Beyond: ``quota``."""

    def _met(self, name: str, mine: Any, theirs: Any) -> Any:
        return _pairwise(mine, theirs, narrower) if name == "tools" else super()._met(name, mine, theirs)


def _once(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))


def _pairwise(
    mine: Iterable[Item], theirs: Iterable[Item], meet: Callable[[Item, Item], Item | None]
) -> tuple[str, ...]:
    """What each two rules have in common, as text."""
    others = tuple(theirs)
    return _once(str(met) for one in mine for other in others if (met := meet(one, other)) is not None)


def _network_meet(one: Network, other: Network) -> Network | None:
    if one.version != other.version or not one.overlaps(other):
        return None
    return one if one.prefixlen > other.prefixlen else other


BOUNDS: Mapping[str, type[Bounds]] = MappingProxyType(
    {
        "log.write": NoEffect,
        "progress.report": NoEffect,
        "clock.now": NoEffect,
        "clock.monotonic": NoEffect,
        "random.bytes": RandomBounds,
        "kv.get": KvReadBounds,
        "kv.list": KvReadBounds,
        "kv.put": KvWriteBounds,
        "kv.delete": KvWriteBounds,
        "http.fetch": HttpBounds,
        "files.read": FilesBounds,
        "files.list": FilesBounds,
        "tool.call": ToolCallBounds,
    }
)
"""The bounds of each capability that ships, by its name."""

_RESERVED: Final = frozenset(name.partition(".")[0] for name in BOUNDS)


def is_reserved(name: str) -> bool:
    """Whether ``name`` begins as those of the capabilities that ship do (``kv.``), which a host's own never do."""
    return name.partition(".")[0] in _RESERVED
