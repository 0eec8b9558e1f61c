"""What the answers of one tool say together: whether any is well, and whether they are what the tool declares."""

from __future__ import annotations

from typing import Any, Final

import anyio.to_thread

from rho_wasm.conform.probe import Ended, Probe
from rho_wasm.conform.report import Findings
from rho_wasm.envelope import Raised
from rho_wasm.errors import PlainError, SchemaInvalid
from rho_wasm.frozen import thaw
from rho_wasm.manifest import ToolDeclaration
from rho_wasm.plain import jsonable
from rho_wasm.results import Ok
from rho_wasm.schema import ArgumentSchema

__all__ = ["ToolAnswers"]

_OUTPUT: Final = "answer.output_schema"
_SUCCEED: Final = "calls.succeed"


class ToolAnswers:
    """Hears of each call of ``tool`` with arguments that its schema takes. For one task at a time."""

    def __init__(self, tool: ToolDeclaration, probe: Probe, found: Findings) -> None:
        self._tool = tool
        self._probe = probe
        self._found = found
        self._schema: ArgumentSchema | None = None
        self._succeeded = False
        self._raised: str | None = None
        self._denied = False

    async def call(self, ended: Ended, asked: str) -> None:
        """One call ended so. Raises :class:`OutOfTime`."""
        if isinstance(ended.outcome, Raised):
            self._raised = self._raised or f"{asked}: {ended.outcome.message}"
            self._denied = self._denied or bool(ended.host_kinds)
        elif ended.answered:
            self._succeeded = True
        if isinstance(ended.outcome, Ok):
            await self._value(ended.outcome.value, asked)

    def example_kept(self, answer: Any) -> None:
        """An example was answered with this ``answer``, as it says."""
        self._succeeded = self._succeeded or "raised" not in answer

    async def of_examples(self) -> None:
        """The answers that the manifest's examples promise. Raises :class:`OutOfTime`."""
        for number, example in enumerate(self._tool.examples, 1):
            if "ok" in example.answer:
                await self._value(thaw(example.answer["ok"]), f"{self._tool.name}: the answer of example {number}")

    def together(self) -> None:
        """No more calls are made."""
        if self._succeeded:
            self._found.passed(_SUCCEED)
        elif self._denied:
            self._found.skipped([_SUCCEED], f"{self._tool.name} raises, and the host calls that it made were denied")
        elif self._raised is not None:
            self._found.failed(
                _SUCCEED,
                f"every call of {self._tool.name} raised, at first {self._raised}; answer error for what its caller "
                "can mend, or give it an example that is answered",
            )

    async def _value(self, value: Any, where: str) -> None:
        if self._tool.output_schema is None:
            return
        with self._probe.timed():
            problems = await anyio.to_thread.run_sync(self._problems, value)
        if problems:
            self._found.failed(_OUTPUT, f"{where}: it does not fit the tool's own output_schema: {'; '.join(problems)}")
        else:
            self._found.passed(_OUTPUT)

    def _problems(self, value: Any) -> tuple[str, ...]:
        """As JSON has the value, which is what a host looks at: bytes are text."""
        try:
            if self._schema is None:
                self._schema = ArgumentSchema(self._tool.output_schema or {}, of_arguments=False)
            return self._schema.problems(jsonable(value))
        except (SchemaInvalid, PlainError) as error:
            return (str(error),)
