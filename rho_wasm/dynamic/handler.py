"""The handler of a guest's tool: one call of one version, with the bounds that hold for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from rho_wasm.calls import CallMeter, ToolContext
from rho_wasm.capabilities.granted import Granted, GrantedCapabilities, TellFailure
from rho_wasm.dynamic.generation import ToolVersion, VersionKey
from rho_wasm.dynamic.granting import both_granted
from rho_wasm.dynamic.guard import Guard, Refusal
from rho_wasm.dynamic.modules import ModulePool
from rho_wasm.dynamic.recorder import Recorder
from rho_wasm.dynamic.transcript import Transcript
from rho_wasm.envelope import MAX_QUESTION_CHARS
from rho_wasm.errors import Closed, ModuleRejected, StoreError, ToolError
from rho_wasm.frozen import thaw
from rho_wasm.limits import MAX_DEADLINE_MS, Limits
from rho_wasm.manifest import ToolDeclaration
from rho_wasm.plain import Copied
from rho_wasm.policy import Policy
from rho_wasm.results import AskUser, Failed, Halt, HandlerResult, Ok
from rho_wasm.sandbox import Sandbox
from rho_wasm.untrusted import inert

__all__ = ["GuestHandler", "effective_limits"]

_ALWAYS_PERMITTED = (Ok, Failed)


def effective_limits(declaration: ToolDeclaration, version: ToolVersion, *, policy: Policy, limits: Limits) -> Limits:
    """The bounds of one call: of the host's, today's policy's, the manifest's and the generation's the lowest."""
    deadline = declaration.timeout_ms
    declared = None if deadline is None else {"deadline_ms": min(deadline, MAX_DEADLINE_MS)}
    return policy.limits_for(declaration.name, limits).lowest(declared, version.limits)


class GuestHandler:
    """Calls one version of a tool in the sandbox. Async; takes the call's context.

    Raises :class:`ToolError` with the reasons of ``results.KINDS``, and only those: what a host cannot load is
    ``not_found``, so that no fault of the host's is ever a strike. ``refusal()`` says whether the version may run at
    all, also from a snapshot that was taken before it was quarantined.
    """

    trusted_errors = True
    takes_copies = True

    __slots__ = (
        "_deadline_ms",
        "_failed",
        "_granted",
        "_granted_now",
        "_modules",
        "_policy",
        "_recorder",
        "_sandbox",
        "_siblings",
        "_standalone_limits",
        "generation",
        "guard",
        "limits",
        "refusal",
        "version",
    )

    def __init__(
        self,
        version: VersionKey,
        *,
        generation: int,
        limits: Limits,
        policy: Policy,
        modules: ModulePool,
        sandbox: Sandbox,
        guard: Guard,
        standalone_limits: Limits | None = None,
        granted: Mapping[str, Granted] | None = None,
        granted_now: Callable[[VersionKey], Mapping[str, Granted] | None] | None = None,
        recorder: Recorder | None = None,
        failed: TellFailure | None = None,
        siblings: tuple[str, ...] = (),
    ) -> None:
        """``standalone_limits`` hold in place of ``limits`` where the module proves to be a standalone one. The
        deadline is the same. ``granted`` is what its host calls may ask for, None: nothing; ``granted_now`` answers
        what the version has in the live generation, None where it is not there. ``recorder`` keeps its calls,
        ``failed`` hears of capabilities that fail in them. ``siblings`` are all tools that the artifact declares."""
        self.version = version
        self.generation = generation
        self.limits = limits
        self._deadline_ms = limits.deadline_ms
        self._standalone_limits = standalone_limits
        self._granted = granted or None
        self._granted_now = granted_now
        self._policy = policy
        self._recorder = recorder
        self._failed = failed
        self._siblings = siblings
        self._modules = modules
        self._sandbox = sandbox
        self.guard = guard
        """Of the source that made this handler."""
        self.refusal: Callable[[], Refusal | None] = partial(guard.refusal, version)
        """``(reason, what to do)`` while the version is quarantined, else None."""

    async def __call__(
        self, arguments: Mapping[str, Any], context: ToolContext, copied: Copied | None = None
    ) -> HandlerResult:
        """``copied`` is what ``arguments`` are the value of, where nobody can have altered them meanwhile."""
        meter = context.meter
        meter.generation = self.generation
        meter.artifact = self.version.artifact
        if meter.clock.timeout_ms < self._deadline_ms:
            meter.own_bound = False
        self._enter(context)
        told = self._told(context)
        recorder = self._recorder
        if recorder is not None and context.caller is not None:
            # Else a guest could push what users asked out of another tool's recordings.
            recorder = None
        capabilities = None if self._granted is None else self._capabilities(self._granted, context)
        transcript = None if recorder is None else recorder.transcript(capabilities)
        # The sandbox keeps the deadline itself, and waiting for a slot or a compilation is not the tool's time: the
        # runner's clock stands still for all of this.
        try:
            used = self._modules.enter(self.version.artifact)
            try:
                module = used.module
                if module is None:
                    module = await self._modules.load(used)
                    self._enter(context)
                standalone = self._standalone_limits if module.standalone else None
                answer = await self._sandbox.call(
                    module,
                    tool=self.version.tool,
                    arguments=arguments,
                    context=told,
                    limits=standalone or self.limits,
                    meter=meter,
                    capabilities=capabilities if transcript is None else transcript,
                    copied=copied,
                    waited=partial(self._enter, context),
                    holding=0 if context.caller is None else sum(1 for _ in context.callers()),
                )
            finally:
                self._modules.leave(used)
                if capabilities is not None:
                    meter.log = capabilities.finish(meter.log)
        except ToolError as error:
            error.generation = self.generation
            if transcript is not None:
                await self._keep(transcript, error, arguments, copied, told, meter)
            raise
        except (ModuleRejected, StoreError, Closed) as error:
            raise self._error("not_found", f"its module cannot be loaded: {error}") from None
        if transcript is not None:
            await self._keep(transcript, answer, arguments, copied, told, meter)
        return answer if type(answer) in _ALWAYS_PERMITTED else self._permitted(answer)

    def _capabilities(self, granted: Mapping[str, Granted], context: ToolContext) -> GrantedCapabilities:
        now = None if self._granted_now is None else self._granted_now(self.version)
        return GrantedCapabilities(
            # What was taken from the version since this handler was made is gone in old snapshots too.
            granted if now is None else both_granted(granted, now),
            tool=self.version.tool,
            artifact=self.version.artifact,
            generation=self.generation,
            context=context,
            limits=self.limits,
            failed=self._failed,
            siblings=self._siblings,
        )

    async def _keep(
        self,
        transcript: Transcript,
        outcome: HandlerResult | ToolError,
        arguments: Mapping[str, Any],
        copied: Copied | None,
        told: Mapping[str, Any],
        meter: CallMeter,
    ) -> None:
        assert self._recorder is not None, "it made the transcript"
        await self._recorder.keep(
            self.version,
            generation=self.generation,
            arguments=arguments,
            copied=copied,
            context=told,
            transcript=transcript,
            outcome=outcome,
            meter=meter,
        )

    def _enter(self, context: ToolContext) -> None:
        """Raises what refuses the call. Asked again after each wait: what struck out meanwhile does not run."""
        refused = self.guard.enter(self.version, session_id=context.session_id, token=context.meter)
        if refused is not None:
            reason, detail = refused
            raise self._error(reason, detail)

    def _told(self, context: ToolContext) -> dict[str, Any]:
        """What of the host's context crosses: the call's id and the plain values; the other ids by policy alone."""
        told: dict[str, Any] = {"call_id": context.call.id}
        if context.values:
            told["values"] = thaw(context.values)
        if self._policy.guests.session_ids:
            told |= {"session_id": context.session_id, "request_id": context.request_id}
        return told

    def _permitted(self, answer: HandlerResult) -> HandlerResult:
        if isinstance(answer, AskUser):
            if not self._policy.guests.ask_user:
                raise self._error("invalid_return", "the policy lets no guest ask the user")
            # A person must see who asks, and that it is not the host.
            question = inert(f"{self.version.tool} asks: {answer.question}", limit=MAX_QUESTION_CHARS, newlines=True)
            return replace(answer, question=question)
        if isinstance(answer, Halt) and not self._policy.guests.halt:
            raise self._error("invalid_return", "the policy lets no guest halt the loop")
        return answer

    def _error(self, reason: str, detail: str) -> ToolError:
        return ToolError(reason, tool=self.version.tool, detail=detail, generation=self.generation)
