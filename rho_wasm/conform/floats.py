"""Whether a guest reads floats of every precision that a host sends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rho_wasm.conform.answers import ToolAnswers
from rho_wasm.conform.arguments import FloatPlace
from rho_wasm.conform.probe import Probe
from rho_wasm.conform.report import Findings
from rho_wasm.conform.requests import WIDTHS, request_of_float

__all__ = ["FLOATS", "check_floats"]

FLOATS: Final = "plain.floats"

_ANSWERS: Final = frozenset({"ok", "failed", "ask_user", "halt"})
_REFUSALS: Final = frozenset({"failed", "raised", "trapped"})
_FINER: Final[Mapping[str, float]] = {"single": 2.0**-13, "double": 2.0**-30}
"""What makes of a half below 1,024 a float whose shortest form is that precision, and nearly the same number."""
_AGAIN: Final = "conform again"


async def check_floats(probe: Probe, tool: str, place: FloatPlace, found: Findings, answers: ToolAnswers) -> None:
    """Calls ``tool`` with one number in each precision. Raises what :meth:`Probe.send` raises.

    The number is the same, so a guest that takes it in one precision and refuses it in another cannot read that one.
    Longer forms than the shortest are never sent by a host: a guest that refuses such a form fails only where it also
    refuses, in its shortest form, a number that needs that precision.
    """
    floats = _Floats(probe, tool, place, answers)
    kinds = {width: await floats.ended(place.value, width) for width in WIDTHS}
    if None in kinds.values() or not any(kind in _ANSWERS for kind in kinds.values()):
        found.skipped([FLOATS], f"{tool} takes a number with a fraction in no precision, or meets a limit with it")
        return
    for width, kind in kinds.items():
        if await floats.refused(width, kinds):
            other = next(name for name in ("double", "single", "half") if kinds[name] in _ANSWERS and name != width)
            found.failed(
                FLOATS,
                f"{tool} with the number {place.value} in {width} precision ends in {kind}, in {other} precision in "
                f"{kinds[other]}; read half (f9), single (fa) and double (fb)",
            )
            return
    found.passed(FLOATS)


@dataclass(frozen=True, slots=True)
class _Floats:
    probe: Probe
    tool: str
    place: FloatPlace
    answers: ToolAnswers

    async def ended(self, value: float, width: str, **more: Any) -> str | None:
        data = request_of_float(self.tool, self.place.arguments, self.place.name, value, width=width, **more)
        if data is None:
            return None
        ended = await self.probe.send(data)
        if value == self.place.value:
            await self.answers.call(ended, f"{self.tool} with the number {value}")
        return ended.kind

    async def refused(self, width: str, kinds: Mapping[str, str | None]) -> bool:
        """It refuses this precision, and that is no matter of the number, of the longer form or of chance."""
        if not _worse(kinds[width], (kinds[name] for name in WIDTHS if name != width)):
            return False
        if width in _FINER:
            finer = await self.ended(self.place.value + _FINER[width], width)
            if not _worse(finer, (kinds[name] for name in WIDTHS if name != width)):
                return False
        # What is random in a guest is drawn from the request: another id is another chance.
        again = {name: await self.ended(self.place.value, name, call_id=_AGAIN) for name in WIDTHS}
        return again == dict(kinds)


def _worse(kind: str | None, others: Iterable[str | None]) -> bool:
    """It is refused, and what was asked in another precision is not, or less so."""
    if kind not in _REFUSALS:
        return False
    better = {"ok", "ask_user", "halt"} if kind == "failed" else _ANSWERS
    return any(other in better for other in others)
