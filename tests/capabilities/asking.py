"""Calls of a tool that ask for capabilities, as the sandbox asks for a guest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.capabilities import Capability
from rho_wasm.capabilities.granted import Granted, GrantedCapabilities
from rho_wasm.limits import Limits
from rho_wasm.results import NOTHING_LOGGED, LogLine
from rho_wasm.sandbox.state import LATER

__all__ = ["Asking"]


class Asking:
    """One call of ``tool``, to which all of ``capabilities`` are granted; ``bounds`` narrow those that have such."""

    def __init__(self, capabilities: Iterable[Capability], *, tool: str = "t", **bounds: int) -> None:
        self.call = ToolCall("1", tool)
        self._granted = GrantedCapabilities(
            {
                each.name: Granted(
                    each, each.bounds(**{name: bounds[name] for name in bounds.keys() & each.bounds.model_fields})
                )
                for each in capabilities
            },
            tool=tool,
            artifact="0" * 64,
            generation=1,
            context=ToolContext(call=self.call, session_id="s"),
            limits=Limits(),
        )

    def now(self, capability: str, /, **arguments: Any) -> Any:
        """What is answered at once."""
        answer = self._granted.answer_now(capability, arguments, remaining_ms=5_000.0)
        assert answer is not LATER
        return answer

    async def later(self, capability: str, /, **arguments: Any) -> Any:
        """What has to be waited for."""
        assert self._granted.answer_now(capability, arguments, remaining_ms=5_000.0) is LATER
        return await self._granted.answer(capability, arguments, remaining_ms=5_000.0)

    async def either(self, capability: str, /, **arguments: Any) -> Any:
        """What is answered, at once or later."""
        return await self._granted.answer(capability, arguments, remaining_ms=5_000.0)

    def log(self) -> tuple[LogLine, ...]:
        """What was logged so far."""
        return self._granted.finish(NOTHING_LOGGED).lines
