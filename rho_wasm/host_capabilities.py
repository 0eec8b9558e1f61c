"""All capabilities of a host: those that ship, on this host's store, runner and events, and those of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
from rho_wasm.grants import BOUNDS, HttpBounds, is_reserved
from rho_wasm.policy import Policy
from rho_wasm.untrusted import type_name

__all__ = ["check_own", "host_capabilities", "secrets_of", "with_kv_of"]


def check_own(capabilities: Iterable[Capability]) -> tuple[Capability, ...]:
    """A host's own capabilities, as they were given.

    Raises TypeError for anything else, ValueError for a name that is the host's or stands there twice.
    """
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


def secrets_of(policy: Policy, given: Mapping[str, str] | None) -> Secrets:
    """The secrets that grants name, with their values. Raises :class:`PolicyError` for one that has none."""
    needed = {
        name
        for entry in policy.tools.values()
        for bounds in entry.grants.values()
        if isinstance(bounds, HttpBounds)
        for name in bounds.secrets
    }
    return Secrets.load(policy.secrets, given=given, needed=needed)


def host_capabilities(
    own: Iterable[Capability],
    *,
    policy: Policy,
    store: Store,
    run: RunTool,
    secrets: Secrets,
    kv_bytes: int,
    on_event: OnEvent | None,
) -> tuple[Capability, ...]:
    """Everything that this host can grant.

    Raises :class:`PolicyError` where ``policy`` grants something else: the host does not start with less than its
    operator wrote down.
    """
    found = (
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
    by_name = {each.name: each for each in found}
    for pattern, entry in policy.tools.items():
        for name, bounds in entry.grants.items():
            if name not in by_name:
                detail, reason = "this host has no capability of this name", "policy_unknown_capability"
                if name in BOUNDS:
                    detail, reason = "install the extra 'http': pip install 'rho-wasm[http]'", "missing_extra"
                raise policy.refusal(("tools", pattern, "grants", name), detail, reason=reason)
            if type(bounds) is not by_name[name].bounds:
                detail = "its bounds are those of another capability of this name"
                raise policy.refusal(("tools", pattern, "grants", name), detail)
    return found


def with_kv_of(store: Store, capabilities: Iterable[Capability]) -> tuple[Capability, ...]:
    """``capabilities`` with what tools keep in ``store``, in place of where they keep it else."""
    kept = kv_capabilities(StoreKv(store.kv))
    names = {each.name for each in kept}
    return (*(each for each in capabilities if each.name not in names), *kept)
