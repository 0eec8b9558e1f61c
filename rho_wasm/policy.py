"""What the operator allows: one frozen model, one TOML file.

A file that cannot be read, an unknown key or an unknown capability refuses to start: a policy that was mistyped must
not mean "no policy". An empty list means none, never all.

Of the entries of ``tools`` that match a tool's name the most specific one that says something about a limit decides
that limit: the exact name before the longest prefix (``weather_*``) before ``*``. Grants are decided whole: those of
the most specific entry that has ``grants`` are all that the tool has, and ``grants = {}`` means none.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StrictStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rho_wasm.errors import PolicyError
from rho_wasm.frozen import FrozenMap
from rho_wasm.grants import BOUNDS, Bounds, HttpBounds, SecretName, ToolCallBounds, UncheckedBounds
from rho_wasm.limits import MIB, Limits, NaturalInt, PositiveInt
from rho_wasm.patterns import ToolPattern, matches
from rho_wasm.policy_file import PolicyFile
from rho_wasm.policy_grants import KnownCapabilities, KnownCapability, at, checked_grants, refusal
from rho_wasm.results import KINDS
from rho_wasm.secret_policy import SecretPolicy
from rho_wasm.spelling import did_you_mean
from rho_wasm.toml_text import toml_text
from rho_wasm.untrusted import inert

__all__ = [
    "GatePolicy",
    "GuestPolicy",
    "IsolationPolicy",
    "Policy",
    "RecordingPolicy",
    "SecretPolicy",
    "StrikePolicy",
    "ToolPolicy",
]

KNOWN_GATES: Final = ("examples", "replay", "approval")
_MAX_FILE_BYTES: Final = 1024 * 1024


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _known_gates(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in KNOWN_GATES:
            known = did_you_mean(name, KNOWN_GATES) or f" (known: {', '.join(KNOWN_GATES)})"
            raise ValueError(f"unknown gate {inert(name, limit=80)!r}{known}")
    if len(set(names)) < len(names):
        raise ValueError("a gate is named twice")
    return names


def _crashes(reasons: tuple[str, ...] | None) -> tuple[str, ...] | None:
    known = sorted(reason for reason, kind in KINDS.items() if kind == "crashed")
    for reason in reasons or ():
        if reason not in known:
            words = did_you_mean(reason, known) or f" (known: {', '.join(known)})"
            raise ValueError(f"{inert(reason, limit=80)!r} is no crash{words}")
    return reasons


def _some_limits(limits: Mapping[str, Any]) -> Mapping[str, int]:
    wrong = []
    known = {name: value for name, value in limits.items() if name in Limits.model_fields}
    for name in limits.keys() - known.keys():
        allowed = did_you_mean(name, Limits.model_fields) or f" (known: {', '.join(sorted(Limits.model_fields))})"
        words = f"unknown limit {inert(name, limit=80)!r}{allowed}"
        wrong.append(at((name,), PydanticCustomError("unknown_limit", "{words}", {"words": words})))
    try:
        checked = Limits.model_validate(known)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False, include_context=False):
            wrong.append(at(each["loc"], PydanticCustomError("limit_invalid", "{words}", {"words": each["msg"]})))
    if wrong:
        raise refusal(wrong)
    return FrozenMap({name: getattr(checked, name) for name in limits})


class GatePolicy(_Frozen):
    """The switch gates that a candidate must pass beside ``admission``, which is always on."""

    on: Annotated[tuple[StrictStr, ...], AfterValidator(_known_gates)] = ("examples",)
    """Of ``examples`` (its own pass), ``replay`` (recorded calls that answered do not crash; what asked the host
    otherwise first waits for a person) and ``approval`` (a person says yes)."""


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
    """The reasons that strike; where none are said, every reason of the kind ``crashed``."""
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
    grants: Mapping[str, Bounds] = FrozenMap()
    """Capability -> bounds: all that the tools have, where no more specific entry has ``grants``."""

    @field_validator("grants", mode="plain")
    @classmethod
    def _known_grants(cls, given: Any, info: ValidationInfo) -> Mapping[str, Bounds]:
        return checked_grants(given, (info.context or {}).get("known", KnownCapabilities()))


class RecordingPolicy(_Frozen):
    """What is kept of calls, to replay them against a candidate. Recordings hold users' data."""

    on: StrictBool = False
    """Whether calls are recorded."""
    per_tool: PositiveInt = 100
    """Calls kept of one tool; the oldest go first."""
    bytes_per_tool: PositiveInt = 4 * MIB
    """All that is kept of one tool. A call that is larger alone, or than 1 MiB, is not kept."""
    skip: tuple[ToolPattern, ...] = ()
    """Tools of which nothing is kept, also not through a tool that called them: names, or prefixes ending in ``*``."""
    gate_calls: NaturalInt = 50
    """How many of a tool's latest calls the gate ``replay`` runs on a candidate; failed ones come last."""

    def records(self, tool: str) -> bool:
        """Whether calls of ``tool`` are kept."""
        return self.on and not any(matches(pattern, tool) for pattern in self.skip)


class Policy(_Frozen):
    """Everything that the operator decided. The default is what a file without a line means.

    Refuses grants of capabilities that it does not know: those that ship, and those named to :meth:`load` and
    :meth:`parse`. Each secret that a grant names must be described in ``secrets``.
    """

    gates: GatePolicy = GatePolicy()
    strikes: StrikePolicy = StrikePolicy()
    isolation: IsolationPolicy = IsolationPolicy()
    guests: GuestPolicy = GuestPolicy()
    recordings: RecordingPolicy = RecordingPolicy()
    secrets: Annotated[Mapping[SecretName, SecretPolicy], AfterValidator(FrozenMap)] = FrozenMap()
    tools: Annotated[Mapping[ToolPattern, ToolPolicy], AfterValidator(FrozenMap)] = FrozenMap()

    _file: PolicyFile | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _secrets_described(self) -> Self:
        wrong = []
        for pattern, tool in self.tools.items():
            for capability, bounds in tool.grants.items():
                for name in bounds.secrets if isinstance(bounds, HttpBounds) else ():
                    if name not in self.secrets:
                        where = ("tools", pattern, "grants", capability, "secrets")
                        words = f"there is no [secrets.{name}], which says where it is and what it is for"
                        words += did_you_mean(name, self.secrets)
                        wrong.append(at(where, PydanticCustomError("unknown_secret", "{words}", {"words": words})))
        if wrong:
            raise refusal(wrong)
        return self

    @classmethod
    def parse(
        cls, values: Mapping[str, Any], *, capabilities: Iterable[KnownCapability] = (), elsewhere: bool = False
    ) -> Self:
        """The policy that ``values`` say, as a TOML file does.

        ``capabilities`` are a host's own, beside those that ship. ``elsewhere``: another program, which may have more,
        goes by it. Then grants of what is not known here are kept as they were said (:attr:`elsewhere`), unless the
        name is like one that ships. Raises pydantic's ``ValidationError``.
        """
        known = {**BOUNDS, **{own.name: own.bounds for own in capabilities}}
        return cls.model_validate(values, context={"known": KnownCapabilities(known, elsewhere)})

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        capabilities: Iterable[KnownCapability] = (),
        elsewhere: bool = False,
    ) -> Self:
        """The policy in a TOML file of at most 1 MiB, never a pipe or a device, which might be waited for without end.

        ``capabilities`` are a host's own: grants of others than those and the ones that ship are refused, unless the
        policy is ``elsewhere``'s (see :meth:`parse`). Raises :class:`PolicyError`, which names file, line and key.
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
            policy = cls.parse(values, capabilities=capabilities, elsewhere=elsewhere)
        except ValidationError as error:
            raise file.refusal(error, cls) from None
        policy._file = file
        return policy

    def without_gates(self) -> Self:
        """The same with no switch gate but ``admission``."""
        return self.model_copy(update={"gates": GatePolicy(on=())})

    def limits_for(self, tool: str, base: Limits) -> Limits:
        """``base``, lowered to what the policy says about ``tool``. It never raises a limit."""
        return base.lowest({name: value for name, (_, value) in self._lowering(tool).items()})

    def grants_for(self, tool: str) -> Mapping[str, Bounds]:
        """What the policy grants to ``tool``, by capability."""
        entry = self._granting(tool)
        return FrozenMap() if entry is None else self.tools[entry].grants

    @property
    def elsewhere(self) -> tuple[tuple[str, str], ...]:
        """Pattern and capability of each grant of what only another program has. It grants nothing here."""
        return tuple(
            (pattern, name)
            for pattern, entry in self.tools.items()
            for name, bounds in entry.grants.items()
            if isinstance(bounds, UncheckedBounds)
        )

    def explain(self, tool: str) -> list[tuple[int | None, str]]:
        """What the policy says about ``tool``: the line of the file (None without one), and the words.

        Only what was said, not what is default. ``tool`` need not exist.
        """
        said: list[tuple[int | None, str]] = []
        for name, (pattern, value) in self._lowering(tool).items():
            words = f'tools."{pattern}" limits.{name} = {inert(toml_text(value), limit=500)}'
            said.append((self.line("tools", pattern, "limits", name), words))
        entry = self._granting(tool)
        if entry is not None:
            grants = self.tools[entry].grants
            for name, bounds in grants.items():
                words = f'tools."{entry}" grants."{name}" = {inert(toml_text(bounds), limit=500)}'
                said.append((self.line("tools", entry, "grants", name), words))
            if not grants:
                said.append((self.line("tools", entry, "grants"), f'tools."{entry}" grants = {{}}'))
        for section in ("gates", "strikes", "isolation", "guests", "recordings"):
            part: BaseModel = getattr(self, section)
            for name in sorted(part.model_fields_set):
                words = f"{section}.{name} = {inert(toml_text(getattr(part, name)), limit=500)}"
                said.append((self.line(section, name), words))
        return said

    def unmatched(self, tools: Iterable[str]) -> list[tuple[int | None, str]]:
        """Rules that mean none of ``tools``, the names of those that exist: line (None without a file), and words."""
        names = tuple(tools)
        rules: list[tuple[tuple[str, ...], str]] = [(("tools", pattern), pattern) for pattern in self.tools]
        rules += [(("recordings", "skip"), pattern) for pattern in self.recordings.skip]
        for entry, tool in self.tools.items():
            for capability, bounds in tool.grants.items():
                if isinstance(bounds, ToolCallBounds):
                    where = ("tools", entry, "grants", capability, "tools")
                    rules += [(where, pattern) for pattern in bounds.tools]
        return [
            (self.line(*where), f"{'.'.join(where)}: {_no_tool(where, pattern)}")
            for where, pattern in rules
            if not any(matches(pattern, name) for name in names)
        ]

    @property
    def source(self) -> str | None:
        """The policy's file; None without one."""
        return None if self._file is None else self._file.name

    def line(self, *key: str) -> int | None:
        """Where ``key`` stands in the policy's file, or the nearest table around it; None without a file."""
        return self._file.line_of(key) if self._file is not None else None

    def refusal(self, key: Sequence[str], detail: str, *, reason: str = "policy_invalid") -> PolicyError:
        """What is wrong with ``key``, which only a host can see: an error that names file, line and key."""
        words = f"{inert('.'.join(key), limit=200)}: {detail}"
        return PolicyError(words, reason=reason, source=None if self._file is None else self._file.place(key))

    def _matching(self, tool: str) -> list[str]:
        """The patterns that mean ``tool``, the most specific one last."""
        return sorted((p for p in self.tools if matches(p, tool)), key=lambda p: (p == tool, len(p)))

    def _granting(self, tool: str) -> str | None:
        """The pattern whose grants hold for ``tool``."""
        granting = [pattern for pattern in self._matching(tool) if "grants" in self.tools[pattern].model_fields_set]
        return granting[-1] if granting else None

    def _lowering(self, tool: str) -> dict[str, tuple[str, int]]:
        """Each limit that the policy lowers for ``tool``, with the pattern that decides it."""
        decided: dict[str, tuple[str, int]] = {}
        for pattern in self._matching(tool):
            for name, value in self.tools[pattern].limits.items():
                decided[name] = (pattern, value)
        return decided


def _no_tool(where: Sequence[str], pattern: str) -> str:
    if where[-1] == "tools" and len(where) > 1:
        return f"no tool of the store and no core tool here matches {pattern!r}; a program may have more"
    return f"no tool matches {pattern!r}"
