"""What is no fault of a policy and surely not what its author meant, and what a host would miss where this runs."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from rho_wasm.capabilities.http_addresses import may_reach
from rho_wasm.capabilities.secrets import Secrets
from rho_wasm.errors import PolicyError
from rho_wasm.grants import Bounds, FilesBounds, Grant, HttpBounds, UncheckedBounds
from rho_wasm.host_capabilities import check_grants, granted_secrets
from rho_wasm.limits import HostLimits
from rho_wasm.policy import Policy
from rho_wasm.untrusted import inert
from rho_wasm.url_rules import UrlRule

__all__ = ["Advice", "advice", "advice_here", "given_elsewhere", "missing_here", "not_shipped"]

_FOR_WHAT: Final[Mapping[str, str]] = MappingProxyType(
    {"http.fetch": "hosts", "files.read": "folders", "files.list": "folders", "tool.call": "tools"}
)
"""Which list or table says for what a capability is granted."""
_LOOPBACK: Final = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))
_OTHERS: Final = 0o077


class Advice(NamedTuple):
    """One line, and which of the file's it is about. ``reason`` is a :class:`PolicyError`'s for what is missing."""

    line: int | None
    message: str
    reason: str = "advice"

    def as_json(self) -> dict[str, Any]:
        return {"line": self.line, "message": self.message, "reason": self.reason}


def advice(policy: Policy, *, own: Collection[str]) -> Iterator[Advice]:
    """What holds wherever the policy is used. ``own`` are names of capabilities that its program is known to have."""
    if "replay" in policy.gates.on and not policy.recordings.on:
        words = "gates.on: the gate replay runs recorded calls, and none are recorded: [recordings] on = true"
        yield Advice(policy.line("gates", "on"), words)
    yield from _lowering_nothing(policy)
    for pattern, name, bounds in _grants(policy):
        key = ("tools", pattern, "grants", name)
        where, line = ".".join(key), policy.line(*key)
        if (pattern, name) in policy.elsewhere and name not in own:
            yield Advice(line, f"{where}: {not_shipped(name)}")
        listed = _FOR_WHAT.get(name)
        if listed is not None and not getattr(bounds, listed):
            yield Advice(line, f"{where}: grants nothing: its list or table {listed!r} is empty")
        for rule in bounds.rules if isinstance(bounds, HttpBounds) else ():
            if isinstance(bounds, HttpBounds) and _is_closed(rule, bounds):
                words = f"{rule} is no public address, and no entry of 'networks' opens it: each request is denied"
                yield Advice(policy.line(*key, "hosts"), f"{where}.hosts: {words}")


def advice_here(policy: Policy) -> Iterator[Advice]:
    """What holds where this runs: folders that are not there, files of secrets that others can read."""
    for pattern, name, bounds in _grants(policy):
        key = ("tools", pattern, "grants", name, "folders")
        for folder in bounds.folders.values() if isinstance(bounds, FilesBounds) else ():
            if not Path(folder).is_dir() or not os.access(folder, os.R_OK | os.X_OK):
                words = f"there is no folder here that can be read at {inert(folder, limit=200)}"
                yield Advice(policy.line(*key), f"{'.'.join(key)}: {words}")
    for name, secret in policy.secrets.items():
        try:
            mode = 0 if secret.file is None else Path(secret.file).stat().st_mode & 0o777
        except OSError:
            continue  # Whether a value is needed and missing is said of the secret itself.
        if mode & _OTHERS:
            words = f"others than its owner may use the file {inert(secret.file or '', limit=200)} (mode {mode:04o})"
            yield Advice(policy.line("secrets", name, "file"), f"secrets.{name}.file: {words}: chmod 600")


def missing_here(policy: Policy) -> Iterator[Advice]:
    """Why a host that goes by ``policy`` would not start here: a missing extra, each secret without a usable value."""
    try:
        check_grants(policy, (), elsewhere=True)
    except PolicyError as error:
        yield Advice(None, error.detail, error.reason)
    for name in sorted(granted_secrets(policy)):
        try:
            Secrets.load({name: policy.secrets[name]})
        except PolicyError as error:
            yield Advice(policy.line("secrets", name), error.detail, error.reason)


def not_shipped(name: str) -> str:
    """What is said of a grant that only another program can give."""
    return f"{name} is not one that ships; its program must give it"


def given_elsewhere(policy: Policy, tool: str, grants: Iterable[Grant]) -> list[str]:
    """Of what a version of ``tool`` may ask for, what only the operator's program can answer."""
    allowed = policy.grants_for(tool)
    return [each.capability for each in grants if isinstance(allowed.get(each.capability), UncheckedBounds)]


def _lowering_nothing(policy: Policy) -> Iterator[Advice]:
    """Limits that are higher than a host has for any guest, unless its program raised its own."""
    native, engines = HostLimits().call, HostLimits().engine_call
    for pattern, entry in policy.tools.items():
        for name, value in entry.limits.items():
            most, of_engines = getattr(native, name), getattr(engines, name)
            if value > max(most, of_engines):
                has = f"{most}" if most == of_engines else f"{most}, for Python and JavaScript {of_engines}"
                key = ("tools", pattern, "limits", name)
                words = f"{'.'.join(key)}: lowers nothing where a host has its default ({has}): a policy only lowers"
                yield Advice(policy.line(*key), f"{words}, a program raises with Host.open(limits=...)")


def _grants(policy: Policy) -> Iterator[tuple[str, str, Bounds]]:
    for pattern, entry in policy.tools.items():
        for name, bounds in entry.grants.items():
            yield pattern, name, bounds


def _is_closed(rule: UrlRule, bounds: HttpBounds) -> bool:
    """Whether the rule's host, as far as its name alone tells, is an address that the grant does not open."""
    if rule.host == "localhost" or rule.host.endswith(".localhost"):
        return not any(may_reach(address, bounds.allowed_networks) for address in _LOOPBACK)
    try:
        address = ipaddress.ip_address(rule.host)
    except ValueError:
        return False
    return not may_reach(address, bounds.allowed_networks)
