"""What the operator allows: one frozen model, one TOML file.

A file that cannot be read, an unknown key or an unknown capability refuses to start: a policy that was mistyped must
not mean "no policy". An empty list means none, never all.

Of the entries of ``tools`` that match a tool's name the most specific one that says something about a key decides that
key: the exact name before the longest prefix (``weather_*``) before ``*``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, StrictBool, StrictStr, ValidationError
from pydantic_core import PydanticCustomError

from rho_wasm.errors import NotPlain, PolicyError
from rho_wasm.frozen import FrozenMap, freeze
from rho_wasm.limits import Limits, PositiveInt
from rho_wasm.policy_file import PolicyFile
from rho_wasm.results import KINDS
from rho_wasm.untrusted import inert

__all__ = [
    "GatePolicy",
    "Grant",
    "GuestPolicy",
    "IsolationPolicy",
    "Policy",
    "StrikePolicy",
    "ToolPolicy",
]

KNOWN_GATES: Final = ("examples", "approval")
KNOWN_CAPABILITIES: Final[tuple[str, ...]] = ()
_MAX_FILE_BYTES: Final = 1024 * 1024


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _known_capability(name: str) -> str:
    if name not in KNOWN_CAPABILITIES:
        known = ", ".join(KNOWN_CAPABILITIES) or "this version knows none"
        detail = {"name": inert(name, limit=80), "known": known}
        raise PydanticCustomError("unknown_capability", "unknown capability '{name}' (known: {known})", detail)
    return name


def _known_gates(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name == "replay":
            raise ValueError("the gate 'replay' is not available in this version")
        if name not in KNOWN_GATES:
            raise ValueError(f"unknown gate {inert(name, limit=80)!r} (known: {', '.join(KNOWN_GATES)})")
    if len(set(names)) < len(names):
        raise ValueError("a gate is named twice")
    return names


def _crashes(reasons: tuple[str, ...] | None) -> tuple[str, ...] | None:
    known = sorted(reason for reason, kind in KINDS.items() if kind == "crashed")
    for reason in reasons or ():
        if reason not in known:
            raise ValueError(f"{inert(reason, limit=80)!r} is no crash (known: {', '.join(known)})")
    return reasons


def _some_limits(limits: Mapping[str, Any]) -> Mapping[str, int]:
    for name in limits:
        if name not in Limits.model_fields:
            detail = {"name": inert(name, limit=80), "known": ", ".join(sorted(Limits.model_fields))}
            raise PydanticCustomError("unknown_limit", "unknown limit '{name}' (known: {known})", detail)
    try:
        checked = Limits.model_validate(dict(limits))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ValueError(f"{first['loc'][0]}: {first['msg']}") from None
    return FrozenMap({name: getattr(checked, name) for name in limits})


def _frozen_map(value: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return FrozenMap(freeze(value))
    except NotPlain as error:
        raise ValueError(str(error)) from None


def _patterns(tools: Mapping[str, ToolPolicy]) -> Mapping[str, ToolPolicy]:
    for pattern in tools:
        if not pattern or "*" in pattern[:-1]:
            raise ValueError(f"{inert(pattern, limit=80)!r} is no tool name, prefix ending in * or *")
    return FrozenMap(tools)


class Grant(_Frozen):
    """The operator's yes to one capability, within ``bounds`` (the capability says what they mean)."""

    capability: Annotated[StrictStr, AfterValidator(_known_capability)]
    bounds: Annotated[Mapping[str, Any], AfterValidator(_frozen_map)] = FrozenMap()


class GatePolicy(_Frozen):
    """The switch gates that a candidate must pass beside ``admission``, which is always on."""

    on: Annotated[tuple[StrictStr, ...], AfterValidator(_known_gates)] = ("examples",)


class StrikePolicy(_Frozen):
    """When the crashes of a version take it out of service."""

    limit: PositiveInt = 3
    """Strikes in the window that quarantine a version."""
    window_s: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = 600
    """How long a strike counts (seconds)."""
    min_ratio: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.2
    """Strikes per call in the window below which a busy tool stays."""
    sessions: PositiveInt = 1
    """From how many sessions strikes must come; below, the version is withheld from that session. 2 on shared hosts."""
    kinds: Annotated[tuple[StrictStr, ...] | None, AfterValidator(_crashes)] = None
    """The reasons that strike; None: every reason of the kind ``crashed``."""
    artifact_limit: PositiveInt = 9
    """Strikes in the window of an artifact's tools together, at least ``limit`` of them, that quarantine each of these:
    a fault must not hide in many tools, below ``limit`` in each. A tool below ``min_ratio`` is not among them."""
    on_strikes: Literal["revert", "suspend"] = "revert"
    """Return to the last good version, or back off and let one trial call decide."""


class IsolationPolicy(_Frozen):
    """Where guests run. This version has threads of the host's process."""

    mode: Literal["thread"] = "thread"


class GuestPolicy(_Frozen):
    """What answers of guests may do, and what they may know."""

    ask_user: StrictBool = True
    """False: a guest's ``ask_user`` is ``invalid_return``."""
    halt: StrictBool = True
    """False: a guest's ``halt`` is ``invalid_return``."""
    session_ids: StrictBool = False
    """True: session and request ids cross to guests."""


class ToolPolicy(_Frozen):
    """What the tools that one pattern matches may use."""

    limits: Annotated[Mapping[StrictStr, Any], AfterValidator(_some_limits)] = FrozenMap()
    """Some fields of :class:`rho_wasm.Limits`. They only lower."""
    grants: Mapping[Annotated[StrictStr, AfterValidator(_known_capability)], Mapping[StrictStr, Any]] = FrozenMap()
    """Capability -> bounds."""


class Policy(_Frozen):
    """Everything that the operator decided. The default is what a file without a line means."""

    gates: GatePolicy = GatePolicy()
    strikes: StrikePolicy = StrikePolicy()
    isolation: IsolationPolicy = IsolationPolicy()
    guests: GuestPolicy = GuestPolicy()
    tools: Annotated[Mapping[StrictStr, ToolPolicy], AfterValidator(_patterns)] = FrozenMap()

    _file: PolicyFile | None = PrivateAttr(default=None)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The policy in a TOML file of at most 1 MiB, never a pipe or a device, which might be waited for without end.

        Raises :class:`PolicyError`, which names file, line and key.
        """
        name = os.fspath(path)
        if Path(name).exists() and not Path(name).is_file():
            raise PolicyError("cannot be read: it is no regular file", reason="policy_unreadable", source=name)
        try:
            with Path(name).open("rb") as stream:
                data = stream.read(_MAX_FILE_BYTES + 1)
        except OSError as error:
            raise PolicyError(f"cannot be read: {error.strerror}", reason="policy_unreadable", source=name) from None
        if len(data) > _MAX_FILE_BYTES:
            raise PolicyError(f"has more than {_MAX_FILE_BYTES} bytes", reason="policy_unreadable", source=name)
        try:
            text = data.decode()
            values = tomllib.loads(text)
        except (UnicodeDecodeError, RecursionError):
            raise PolicyError("is not TOML in UTF-8", reason="policy_unreadable", source=name) from None
        except tomllib.TOMLDecodeError as error:
            detail = f"is not TOML: {inert(str(error), limit=200)}"
            raise PolicyError(detail, reason="policy_unreadable", source=name) from None
        file = PolicyFile(name, text)
        try:
            policy = cls.model_validate(values)
        except ValidationError as error:
            raise file.refusal(error, cls) from None
        policy._file = file
        return policy

    def without_gates(self) -> Self:
        """The same with no switch gate but ``admission``."""
        return self.model_copy(update={"gates": GatePolicy(on=())})

    def limits_for(self, tool: str, base: Limits) -> Limits:
        """``base``, lowered to what the policy says about ``tool``. It never raises a limit."""
        return base.lowest({name: value for name, (_, value) in self._decided(tool, "limits").items()})

    def explain(self, tool: str) -> list[tuple[int | None, str]]:
        """What the policy says about ``tool``: the line of the file (None without one), and the words.

        Only what was said, not what is default. ``tool`` need not exist.
        """
        said: list[tuple[int | None, str]] = []
        for section in ("limits", "grants"):
            for name, (pattern, value) in self._decided(tool, section).items():
                words = f'tools."{pattern}" {section}.{name} = {inert(_toml(value), limit=500)}'
                said.append((self._line("tools", pattern, section, name), words))
        for section in ("gates", "strikes", "isolation", "guests"):
            part: BaseModel = getattr(self, section)
            for name in sorted(part.model_fields_set):
                words = f"{section}.{name} = {inert(_toml(getattr(part, name)), limit=500)}"
                said.append((self._line(section, name), words))
        return said

    def _line(self, *key: str) -> int | None:
        return self._file.line_of(key) if self._file is not None else None

    def _decided(self, tool: str, section: str) -> dict[str, tuple[str, Any]]:
        """Each key of ``section`` with the pattern that decides it and its value."""
        decided: dict[str, tuple[str, Any]] = {}
        matching = [p for p in self.tools if p == tool or (p.endswith("*") and tool.startswith(p[:-1]))]
        for pattern in sorted(matching, key=lambda p: (p == tool, len(p))):
            for name, value in getattr(self.tools[pattern], section).items():
                decided[name] = (pattern, value)
        return decided


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return str(value)
