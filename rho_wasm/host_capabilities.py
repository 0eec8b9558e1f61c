"""All capabilities of a host: those that ship, on this host's store, runner and events, and those of its own."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from rho_wasm.capabilities.capability import Capability
from rho_wasm.capabilities.clock import clock_capabilities
from rho_wasm.capabilities.files import files_capabilities
from rho_wasm.capabilities.http import http_capabilities
from rho_wasm.capabilities.kv import kv_capabilities
from rho_wasm.capabilities.log import log_capabilities
from rho_wasm.capabilities.progress import progress_capabilities
from rho_wasm.capabilities.random import random_capabilities
from rho_wasm.capabilities.secrets import Secrets
from rho_wasm.capabilities.tools import RunTool, tool_capabilities
from rho_wasm.dynamic.kv import StoreKv
from rho_wasm.dynamic.store import Store
from rho_wasm.events import OnEvent
from rho_wasm.grants import BOUNDS, HttpBounds, UncheckedBounds, is_reserved
from rho_wasm.option_checks import check_items
from rho_wasm.policy import Policy
from rho_wasm.untrusted import type_name

__all__ = [
    "check_grants",
    "check_own",
    "granted_secrets",
    "host_capabilities",
    "needs_of_calls",
    "secrets_of",
    "warn_of_rules_without_tools",
    "with_kv_of",
]

_log = logging.getLogger("rho_wasm")
_HTTP_NAMES: Final = frozenset({"http.fetch"})


def check_own(capabilities: Iterable[Capability]) -> tuple[Capability, ...]:
    """A host's own capabilities, as they were given.

    Raises TypeError for anything else, ValueError for a name that is the host's or stands there twice.
    """
    check_items(capabilities, "capabilities are a list of what @capability made")
    own = tuple(capabilities)
    for each in own:
        if not isinstance(each, Capability):
            raise TypeError(f"a {type_name(each)} is not a Capability: make one with @capability")
        if is_reserved(each.name):
            raise ValueError(f"{each.name}: the name is one of the host's own capabilities")
    names = [each.name for each in own]
    if len(set(names)) < len(names):
        raise ValueError("two of the capabilities have one name")
    return own


def granted_secrets(policy: Policy) -> frozenset[str]:
    """The secrets that grants name: only these need a value."""
    return frozenset(
        name
        for entry in policy.tools.values()
        for bounds in entry.grants.values()
        if isinstance(bounds, HttpBounds)
        for name in bounds.secrets
    )


def secrets_of(policy: Policy, given: Mapping[str, str] | None, *, elsewhere: bool = False) -> Secrets:
    """The secrets of ``policy`` with their values. Raises :class:`PolicyError` for one that a grant names and that has
    none. ``elsewhere``: only those that are ``given``, and none is looked for."""
    if elsewhere:
        described = {name: each for name, each in policy.secrets.items() if given is not None and name in given}
        return Secrets.load(described, given=given)
    return Secrets.load(policy.secrets, given=given, needed=granted_secrets(policy))


def needs_of_calls(policy: Policy) -> dict[str, str]:
    """The values of secrets that a host which is ``elsewhere`` is given all the same, for it is to call guests.

    Raises :class:`PolicyError` for a missing extra, and for a secret that a grant names and that has no value here.
    """
    check_grants(policy, (), elsewhere=True)
    found = secrets_of(policy, None)
    return {name: secret.value for name in policy.secrets if (secret := found.named(name)) is not None}


def check_grants(policy: Policy, own: Iterable[Capability], *, elsewhere: bool = False) -> None:
    """Raises :class:`PolicyError` where ``policy`` grants what a host with ``own`` has not.

    It does not start with less than its operator wrote down. What only another program has is passed over where the
    policy is ``elsewhere``'s; a missing extra is not.
    """
    known = {**BOUNDS, **{each.name: each.bounds for each in own}}
    missing = frozenset() if http_capabilities() else _HTTP_NAMES
    for pattern, entry in policy.tools.items():
        for name, bounds in entry.grants.items():
            key = ("tools", pattern, "grants", name)
            if name in missing:
                words = "needs the extra 'http': pip install 'rho-wasm[http]'"
                raise policy.refusal(key, words, reason="missing_extra")
            if elsewhere and isinstance(bounds, UncheckedBounds):
                continue
            if name not in known:
                words = "this host has no capability of this name: only a program that has it calls tools with it"
                raise policy.refusal(key, words, reason="policy_unknown_capability")
            if type(bounds) is not known[name]:
                raise policy.refusal(key, "its bounds are those of another capability of this name")


def warn_of_rules_without_tools(policy: Policy, tools: Collection[str], *, core: Collection[str]) -> None:
    """Logs each rule of ``policy`` that means none of ``tools``. Where there are none yet, none is missing."""
    if not tools:
        return
    for line, words in policy.unmatched({*tools, *core}):
        where = "" if policy.source is None else f" {policy.source}"
        _log.warning("policy%s%s: %s", where, "" if line is None else f", line {line}", words)


def host_capabilities(
    own: Iterable[Capability], *, store: Store, run: RunTool, secrets: Secrets, kv_bytes: int, on_event: OnEvent | None
) -> tuple[Capability, ...]:
    """Everything that this host can grant."""
    return (
        *log_capabilities(on_event),
        *progress_capabilities(on_event),
        *clock_capabilities(),
        *random_capabilities(),
        *kv_capabilities(StoreKv(store.kv, max_bytes=kv_bytes)),
        *http_capabilities(secrets=secrets),
        *files_capabilities(),
        *tool_capabilities(run),
        *own,
    )


def with_kv_of(store: Store, capabilities: Iterable[Capability]) -> tuple[Capability, ...]:
    """``capabilities`` with what tools keep in ``store``, in place of where they keep it else."""
    kept = kv_capabilities(StoreKv(store.kv))
    names = {each.name for each in kept}
    return (*(each for each in capabilities if each.name not in names), *kept)
