"""rho_wasm hosts tools that a model writes while it works.

A tool's source becomes a WebAssembly module; each call of it runs in a fresh sandbox with fuel, a deadline and a memory
cap; host and guest exchange plain CBOR and nothing else; new tools arrive in generations that switch at once and roll
back at once; crashes and exhausted fuel are counted against the tool; and a core tool's name can never be taken.

Start with :class:`Host`; README.md shows the whole of it.
"""

from __future__ import annotations

# First, so that an unsupported platform gets one clear sentence and not a failure inside a dependency.
from rho_wasm.supported import require_supported_platform

require_supported_platform()

from rho_wasm.builtin import builtin_tools
from rho_wasm.calls import CallMeter, RunningCall, ToolCall, ToolContext
from rho_wasm.capabilities import Capability, CapabilityContext, capability
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.generation import Candidate, Generation
from rho_wasm.dynamic.review import Review
from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import (
    BuildError,
    CapabilityError,
    Closed,
    Corrupt,
    Diagnostic,
    GateRejected,
    GenerationConflict,
    GenerationError,
    Locked,
    Malformed,
    ModuleRejected,
    NameInvalid,
    NameReserved,
    NotATool,
    NotPlain,
    PlainError,
    PolicyError,
    PolicyProblem,
    RegistryError,
    RhoError,
    SchemaInvalid,
    StoreError,
    TooLarge,
    ToolError,
    UnknownGeneration,
    VersionMismatch,
)
from rho_wasm.events import (
    CapabilityFailed,
    Event,
    GenerationSwitched,
    SourceFailed,
    StrikeCounted,
    ToolFinished,
    ToolLogged,
    ToolProgress,
    ToolQuarantined,
    ToolRunning,
)
from rho_wasm.executor import DefaultExecutor, ToolExecutor
from rho_wasm.gates import Allow, Block, Gate, allow_all
from rho_wasm.grants import Bounds, Grant
from rho_wasm.host import Host
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.loop import LoopOutcome, ToolLoop, retry
from rho_wasm.manifest import Manifest
from rho_wasm.offered import ToolSnapshot
from rho_wasm.policy import Policy, StrikePolicy
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import AskUser, CallLog, Failed, Halt, Image, LogLine, Ok, ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sources import FilteredSource, PrefixedSource, RefreshingSource, ToolSource
from rho_wasm.toolchains import build
from rho_wasm.tools import Tool, tool
from rho_wasm.workshop import Workshop, WorkshopLimits

__all__ = [
    "Allow",
    "Artifact",
    "AskUser",
    "Block",
    "Bounds",
    "BuildError",
    "CallLog",
    "CallMeter",
    "Candidate",
    "Capability",
    "CapabilityContext",
    "CapabilityError",
    "CapabilityFailed",
    "Closed",
    "Corrupt",
    "DefaultExecutor",
    "Diagnostic",
    "DynamicSource",
    "Event",
    "Failed",
    "FilteredSource",
    "Gate",
    "GateRejected",
    "Generation",
    "GenerationConflict",
    "GenerationError",
    "GenerationSwitched",
    "Grant",
    "Halt",
    "Host",
    "HostLimits",
    "Image",
    "Limits",
    "Locked",
    "LogLine",
    "LoopOutcome",
    "Malformed",
    "Manifest",
    "ModuleRejected",
    "NameInvalid",
    "NameReserved",
    "NativeCache",
    "NotATool",
    "NotPlain",
    "Ok",
    "PlainError",
    "Policy",
    "PolicyError",
    "PolicyProblem",
    "PrefixedSource",
    "RefreshingSource",
    "RegistryError",
    "Review",
    "RhoError",
    "RunningCall",
    "Sandbox",
    "SchemaInvalid",
    "SourceFailed",
    "Store",
    "StoreError",
    "StrikeCounted",
    "StrikePolicy",
    "TooLarge",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolExecutor",
    "ToolFinished",
    "ToolLogged",
    "ToolLoop",
    "ToolProgress",
    "ToolQuarantined",
    "ToolRegistry",
    "ToolResult",
    "ToolRunner",
    "ToolRunning",
    "ToolSnapshot",
    "ToolSource",
    "UnknownGeneration",
    "VersionMismatch",
    "Workshop",
    "WorkshopLimits",
    "allow_all",
    "build",
    "builtin_tools",
    "capability",
    "retry",
    "tool",
]
