"""One object that owns the parts of a host and closes them in the right order."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial

import anyio.to_thread

from rho_wasm.builtin import builtin_tools
from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.capabilities.capability import Capability
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.gates import Approve
from rho_wasm.dynamic.outputs import StoreOutputs
from rho_wasm.dynamic.recorder import Redact, check_redact
from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.dynamic.store import Store
from rho_wasm.events import OnEvent, subscriber
from rho_wasm.executor import DefaultExecutor
from rho_wasm.gates import Gate, allow_all
from rho_wasm.host_capabilities import (
    check_grants,
    check_own,
    host_capabilities,
    secrets_of,
    warn_of_rules_without_tools,
)
from rho_wasm.host_threads import HostThreads
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.option_checks import check_flag, check_function, check_items, check_kind
from rho_wasm.policy import Policy
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.images import EngineFinder
from rho_wasm.sandbox.options import check_options
from rho_wasm.sandbox.ways import Way
from rho_wasm.sources import ToolSource, checked_sources
from rho_wasm.toolchains import EngineShelf, ImageBuilder, build
from rho_wasm.toolchains.image_builder import INTERPRETED
from rho_wasm.tools import Tool
from rho_wasm.workshop import Workshop
from rho_wasm.workshop.advice import Advice
from rho_wasm.workshop.workshop import workshop_tools

__all__ = ["Host"]


class Host:
    """A store, a sandbox, the dynamic source, a registry and a runner that belong together. Made by :meth:`open`."""

    def __init__(
        self,
        *,
        policy: Policy,
        limits: HostLimits,
        store: Store,
        sandbox: Sandbox,
        source: DynamicSource,
        registry: ToolRegistry,
        runner: ToolRunner,
        capabilities: tuple[Capability, ...],
    ) -> None:
        self.policy = policy
        self.limits = limits
        self.store = store
        self.sandbox = sandbox
        self.source = source
        self.registry = registry
        self.runner = runner
        self.capabilities = capabilities
        """What there is to grant here."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: str | os.PathLike[str] | Store,
        *,
        core: Iterable[Tool] | None = None,
        sources: Iterable[ToolSource] = (),
        gate: Gate = allow_all,
        policy: Policy | str | os.PathLike[str] | None = None,
        limits: HostLimits | Limits | None = None,
        approve: Approve | None = None,
        capabilities: Iterable[Capability] = (),
        secrets: Mapping[str, str] | None = None,
        redact: Redact | None = None,
        on_event: OnEvent | None = None,
        workers: int = 0,
        way: Way | None = None,
        engines: EngineShelf | EngineFinder | None = None,
        workshop: Workshop | bool = False,
        elsewhere: bool = False,
    ) -> AsyncIterator[Host]:
        """A host on ``store``: a folder (made if it is not there), ``":memory:"``, or a :class:`Store`.

        ``core`` tools come first and their names always win (None: the built-in ones, ``[]``: none); then the dynamic
        source, then ``sources`` in their order. ``gate`` is asked before each call. ``policy`` is a :class:`Policy` or
        the path of its TOML file; None is the default policy. ``limits`` bound the host, or, given :class:`Limits`,
        each call. ``approve`` answers the switch gate ``approval``. ``capabilities`` are the host's own (see
        :func:`rho_wasm.capability`), for policies to grant beside those that ship; ``secrets`` are values of the
        policy's ``[secrets]`` by name, before those that it says where to find. ``redact`` is given each recorded call
        as plain data before it is written, in a thread, and answers what is to be kept of it, or None: where it raises,
        nothing is kept. ``on_event`` hears every event, in the event loop's thread. ``workers`` above 0 is how many
        processes run guests; else this process does. ``way`` is how it calls them (:class:`Sandbox`). ``engines`` has
        the interpreters of tools that are images over one (Python, JavaScript), or is a function that finds them; None
        is this user's own shelf. Nothing is installed there: an image over an engine that is missing is refused.
        ``workshop`` adds core tools with which a model writes tools; True is a :class:`Workshop` as it comes.
        ``elsewhere``: the store and the policy are another program's, and this host looks at them, stages, switches or
        replays. It starts without capabilities, extras and values of secrets that the policy speaks of (only
        ``secrets`` are there): what is not here is denied. A :class:`Store` that was handed in stays open; everything
        else is closed at the end.

        Raises :class:`rho_wasm.errors.PolicyError` and :class:`rho_wasm.errors.StoreError`, and TypeError or ValueError
        for an option that is not what it may be: then nothing was started.
        """
        check_kind(store, (str, os.PathLike, Store), "a store is a Store or the path of its folder")
        if limits is not None:
            check_kind(limits, (HostLimits, Limits), "limits are Limits or HostLimits")
        if policy is not None:
            check_kind(policy, (str, os.PathLike, Policy), "a policy is a Policy or the path of its file")
        check_function(gate, "a gate is a function (call, context)")
        if approve is not None:
            check_function(approve, "approve is a function of a Review")
        check_redact(redact)
        subscriber(on_event)
        if core is not None:
            check_items(core, "core is a list of Tools")
        others = checked_sources(sources)
        own = check_own(capabilities)
        if secrets is not None:
            check_kind(secrets, Mapping, "secrets are a map of names to their values")
        shelf = engines if isinstance(engines, EngineShelf) else EngineShelf.default()
        find = shelf.find if engines is None or isinstance(engines, EngineShelf) else engines
        check_options(workers=workers, way=way, engines=find)
        check_kind(workshop, (Workshop, bool), "a workshop is a Workshop, True or False")
        check_flag(elsewhere, "elsewhere")
        if policy is None:
            policy = Policy()
        loaded = policy if isinstance(policy, Policy) else Policy.load(policy, capabilities=own, elsewhere=elsewhere)
        if not elsewhere:
            check_grants(loaded, own)
        known_secrets = secrets_of(loaded, secrets, elsewhere=elsewhere)
        bounds = HostLimits(call=limits) if isinstance(limits, Limits) else limits or HostLimits()
        opened = store if isinstance(store, Store) else await anyio.to_thread.run_sync(Store.open, store)

        async def run_for(call: ToolCall, caller: ToolContext, timeout_ms: int) -> ToolResult:
            return await runner.run_for(call, caller, timeout_ms)

        try:
            granted = host_capabilities(
                own,
                store=opened,
                run=run_for,
                secrets=known_secrets,
                kv_bytes=bounds.kv_bytes,
                on_event=on_event,
            )
            async with (
                Sandbox(
                    limits=bounds,
                    cache=NativeCache.default(max_bytes=bounds.compiled_cache_bytes),
                    workers=workers,
                    way=way,
                    engines=find,
                ) as sandbox,
                ImageBuilder(shelf=shelf, sandbox=sandbox, install=False) as images,
                DynamicSource(
                    opened,
                    sandbox,
                    policy=loaded,
                    limits=bounds,
                    approve=approve,
                    rebuild=partial(_rebuild, images),
                    capabilities=granted,
                    redact=redact,
                    on_event=on_event,
                ) as source,
                AsyncExitStack() as stack,
            ):
                outputs = stack.enter_context(closing(StoreOutputs(opened, max_bytes=bounds.output_bytes)))
                hearing, advise = on_event, None
                if workshop:
                    bench = (Workshop() if workshop is True else workshop).bench(
                        source=source, sandbox=sandbox, images=images, policy=loaded, limits=bounds
                    )
                    await stack.enter_async_context(bench)
                    core = [*(builtin_tools() if core is None else core), *workshop_tools(bench)]
                    hearing, advise = bench.hearing(subscriber(on_event)), Advice(source)
                registry = ToolRegistry(core, sources=(source, *others), outputs=outputs, on_event=on_event)
                if not elsewhere:
                    core_names = [tool.name for tool in registry.core_tools()]
                    warn_of_rules_without_tools(loaded, source.live().tools, core=core_names)
                runner = ToolRunner(
                    registry,
                    gate=gate,
                    executor=DefaultExecutor(threads=HostThreads(max_abandoned=bounds.max_abandoned_handlers)),
                    max_concurrent=bounds.max_concurrent_calls,
                    max_result_chars=bounds.max_result_chars,
                    on_event=hearing,
                    advise=advise,
                )
                yield cls(
                    policy=loaded,
                    limits=bounds,
                    store=opened,
                    sandbox=sandbox,
                    source=source,
                    registry=registry,
                    runner=runner,
                    capabilities=granted,
                )
        finally:
            if opened is not store:
                opened.close()


async def _rebuild(images: ImageBuilder, artifact: Artifact) -> bytes:
    """What this host makes of an artifact's source: a claim that is the same byte for byte becomes ``built here``."""
    source, language = artifact.source or "", artifact.language
    if language is not None and language in INTERPRETED:
        return (await images.build(source, language=language, manifest=artifact.manifest)).wasm
    return (await build(source, language=language, manifest=artifact.manifest)).wasm
