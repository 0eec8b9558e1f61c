"""The settings of a workshop, and the workshop on one host that is made of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.limits import HostLimits
from rho_wasm.policy import Policy
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import ImageBuilder, languages, tinycc
from rho_wasm.toolchains.image_builder import INTERPRETED
from rho_wasm.toolchains.pipeline import missing
from rho_wasm.tools import Tool
from rho_wasm.workshop.authors import Authors
from rho_wasm.workshop.bench import Bench
from rho_wasm.workshop.limits import WorkshopLimits
from rho_wasm.workshop.rates import Rates
from rho_wasm.workshop.read_tool import read_tool
from rho_wasm.workshop.roll_back_tools import roll_back_tools
from rho_wasm.workshop.switch_tools import switch_tools
from rho_wasm.workshop.test_tool import test_tool
from rho_wasm.workshop.tool_status import tool_status
from rho_wasm.workshop.write_tool import write_tool

__all__ = ["Workshop", "workshop_tools"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What a host's workshop may do: ``Host.open(..., workshop=Workshop(...))``.

    ``languages`` are those that may be written; None is every one whose build is sandboxed itself and whose extra is
    installed: Python, JavaScript, TypeScript, WebAssembly text, and C where TinyCC is. Further ones must be named:
    their compilers are native programs, confined by the kernel (Landlock), and what cannot be confined is not built.
    ``author`` begins the author of every generation that is written here; nobody else may stage under it. ``shared``:
    every session may change what any session of the workshop wrote; else each only what it wrote itself. ``clock``
    answers seconds, for the rates.

    Raises ValueError for a language that there is not, and for no author.
    """

    languages: Sequence[str] | None = None
    author: str = "workshop"
    shared: bool = True
    limits: WorkshopLimits = field(default_factory=WorkshopLimits)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.languages or ()) - languages().keys()):
            raise ValueError(f"no such language: {', '.join(unknown)}; there are {', '.join(languages())}")
        if not self.author or len(self.author) > 64 or ":" in self.author:
            raise ValueError("the author of a workshop is 1 to 64 characters without ':'")

    def bench(
        self, *, source: DynamicSource, sandbox: Sandbox, images: ImageBuilder, policy: Policy, limits: HostLimits
    ) -> Bench:
        """The workshop of one host. Raises ValueError where not one of its languages can be built here."""
        return Bench(
            source=source,
            sandbox=sandbox,
            images=images,
            policy=policy,
            host_limits=limits,
            limits=self.limits,
            languages=self.usable(),
            authors=Authors(self.author, self.shared),
            rates=Rates(self.clock),
        )

    def usable(self) -> Sequence[str]:
        """Of its languages those that can be built here, once their engine is made. Raises ValueError for none."""
        sandboxed = [*INTERPRETED, *(("c",) if tinycc.is_installed() else ()), "wat"]
        wanted = sandboxed if self.languages is None else list(dict.fromkeys(self.languages))
        confined = landlock_version() > 0
        found = [each for each in wanted if (each in sandboxed or confined) and missing(each) is None]
        if not found:
            raise ValueError(f"nothing can be built here in {', '.join(wanted)}: rho-wasm doctor says what is missing")
        return found


def workshop_tools(bench: Bench) -> list[Tool]:
    """The tools of a workshop, for a registry's core."""
    return [make(bench) for make in (write_tool, test_tool, read_tool, switch_tools, roll_back_tools, tool_status)]
