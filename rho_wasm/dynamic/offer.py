"""What is offered of a generation: its tools as a model and a client see them, each with its handler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from rho_wasm.capabilities.capability import Capability
from rho_wasm.capabilities.granted import Granted, TellFailure
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.generation import Generation, ToolVersion, VersionKey
from rho_wasm.dynamic.granting import effective_grants
from rho_wasm.dynamic.guard import Guard
from rho_wasm.dynamic.handler import GuestHandler, effective_limits
from rho_wasm.dynamic.modules import ModulePool
from rho_wasm.dynamic.recorder import Recorder
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import Corrupt, StoreError
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import Manifest, ToolDeclaration
from rho_wasm.policy import Policy
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.abi import ENGINE_EXTENSION
from rho_wasm.tools import Tool
from rho_wasm.untrusted import exception_text

__all__ = ["Offer", "OfferMaker", "hints"]


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of one generation at one moment. ``switch`` is the number of the switch that made it live.

    ``damaged`` says, for each tool that cannot be offered, why.
    """

    switch: int
    generation: Generation
    tools: Mapping[str, Tool]
    listed: tuple[Tool, ...]
    damaged: Mapping[str, str]

    @property
    def artifacts(self) -> frozenset[str]:
        """The hashes of what is offered."""
        return frozenset(self.generation.tools[name].artifact for name in self.tools)


class _Bounds(NamedTuple):
    """Of the calls of a version, and of those of one that proves to be the standalone module that it claims to be."""

    limits: Limits
    standalone: Limits | None
    granted: Mapping[str, Granted]
    siblings: tuple[str, ...]


class OfferMaker:
    """Makes offers. Keeps what it made of each version, so that a switch of one tool among many is cheap.

    Not for two threads at once.
    """

    def __init__(
        self,
        store: Store,
        sandbox: Sandbox,
        *,
        modules: ModulePool,
        guard: Guard,
        policy: Policy,
        limits: HostLimits,
        capabilities: Mapping[str, Capability],
        recorder: Recorder | None = None,
        failed: TellFailure | None = None,
    ) -> None:
        self._store = store
        self._sandbox = sandbox
        self._modules = modules
        self._guard = guard
        self._policy = policy
        self._limits = limits
        self._capabilities = capabilities
        self._recorder = recorder
        self._failed = failed
        self._made: dict[VersionKey, tuple[ToolVersion, Tool, _Bounds]] = {}

    def make(self, switch: int, generation: Generation) -> Offer:
        """What ``generation`` offers now: without quarantined versions, and without tools whose artifact is damaged."""
        made, tools, damaged = {}, {}, {}
        artifacts: dict[str, Artifact | StoreError] = {}
        for name, version in generation.tools.items():
            key = generation.key(name)
            known = self._made.get(key)
            if known is None or known[0] != version:
                try:
                    known = self._base(key, version, generation.number, artifacts)
                except (StoreError, ValueError) as error:
                    # One tool that this version cannot offer must not take the others along.
                    damaged[name] = str(error) if isinstance(error, StoreError) else exception_text(error)
                    continue
            made[key] = known
            held = self._guard.held(key)
            if held is None or held.mode == "suspend":
                _, tool, bounds = known
                # A validated copy would check the same schema again for every tool at every switch.
                tools[name] = tool.model_copy(update={"handler": self._handler(key, generation.number, bounds)})
        self._made = made
        return Offer(switch, generation, MappingProxyType(tools), tuple(tools[name] for name in sorted(tools)), damaged)

    def limits(
        self, declaration: ToolDeclaration, version: ToolVersion, manifest: Manifest, standalone: bool = False
    ) -> Limits:
        """The bounds that calls of a version have here. ``manifest`` is the one that ``declaration`` stands in.

        ``standalone`` is what its module, which was loaded, says of itself.
        """
        base = self._limits.call_of(image=manifest.is_image, standalone=standalone)
        return effective_limits(declaration, version, policy=self._policy, limits=base)

    def reads_only(self, declaration: ToolDeclaration, version: ToolVersion, manifest: Manifest) -> bool:
        """Whether a version is offered as one that changes nothing. ``manifest`` as in :meth:`limits`."""
        return hints(declaration, self._granted(declaration.name, version, manifest))["read_only"]

    def _granted(self, tool: str, version: ToolVersion, manifest: Manifest) -> Mapping[str, Granted]:
        return effective_grants(
            tool,
            version.grants,
            declared=manifest.capabilities,
            policy=self._policy,
            capabilities=self._capabilities,
        )

    def _granted_now(self, key: VersionKey) -> Mapping[str, Granted] | None:
        """From any thread: ``make`` puts another map in place of this one, and alters none."""
        known = self._made.get(key)
        return None if known is None else known[2].granted

    def _base(
        self, key: VersionKey, version: ToolVersion, generation: int, artifacts: dict[str, Artifact | StoreError]
    ) -> tuple[ToolVersion, Tool, _Bounds]:
        artifact = artifacts.get(version.artifact)
        if artifact is None:
            try:
                artifact = self._store.artifact(version.artifact)
            except StoreError as error:
                artifact = error
            artifacts[version.artifact] = artifact
        if isinstance(artifact, StoreError):
            raise artifact.with_traceback(None)
        declaration = artifact.manifest.tool(key.tool)
        if declaration is None:
            raise Corrupt(f"the artifact {version.artifact} declares no tool {key.tool}")
        manifest = artifact.manifest
        limits = self.limits(declaration, version, manifest)
        claims = ENGINE_EXTENSION in (manifest.extensions or {})
        granted = self._granted(key.tool, version, manifest)
        standalone = self.limits(declaration, version, manifest, standalone=True) if claims else None
        siblings = tuple(each.name for each in manifest.tools) if granted else ()
        bounds = _Bounds(limits, standalone, granted, siblings)
        tool = Tool(
            name=key.tool,
            description=declaration.description,
            input_schema=declaration.input_schema,
            output_schema=declaration.output_schema,
            timeout_ms=limits.deadline_ms,
            untrusted=True,
            metadata={
                # The host's word comes last: a guest cannot say it in its place.
                **(declaration.metadata or {}),
                "rho_wasm": {
                    "artifact": version.artifact,
                    "language": artifact.language or manifest.language,
                    **({"grants": sorted(granted)} if granted else {}),
                },
            },
            handler=self._handler(key, generation, bounds),
            **hints(declaration, granted),
        )
        return version, tool, bounds

    def _handler(self, key: VersionKey, generation: int, bounds: _Bounds) -> GuestHandler:
        return GuestHandler(
            key,
            generation=generation,
            limits=bounds.limits,
            standalone_limits=bounds.standalone,
            policy=self._policy,
            modules=self._modules,
            sandbox=self._sandbox,
            guard=self._guard,
            granted=bounds.granted,
            granted_now=self._granted_now,
            recorder=None if self._recorder is None else self._recorder.of(key.tool),
            failed=self._failed,
            siblings=bounds.siblings,
        )


def hints(declaration: ToolDeclaration, granted: Mapping[str, Granted]) -> dict[str, bool]:
    """What clients are told of a tool's effects. Grants decide; a manifest may only make it sound stricter.

    Without a grant nothing outside the sandbox can be reached, and with grants that only read, as far as they are
    granted (``http.fetch`` of ``GET`` alone, ``kv.get``), nothing is changed there: calling again has no further
    effect. With any other grant the strictest is said.
    """
    harmless = all(grant.capability.only_reads(grant.bounds) for grant in granted.values())
    destructive = not harmless or declaration.destructive is True
    return {
        "read_only": harmless and not destructive and declaration.read_only is not False,
        "destructive": destructive,
        "idempotent": harmless and declaration.idempotent is not False,
    }
