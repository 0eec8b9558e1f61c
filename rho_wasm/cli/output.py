"""What the command line prints, and the exit codes that scripts rely on."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rho_wasm.errors import (
    BuildError,
    CapabilityError,
    Closed,
    GenerationError,
    ModuleRejected,
    PolicyError,
    RegistryError,
    RhoError,
    SchemaInvalid,
    StoreError,
    ToolError,
)
from rho_wasm.untrusted import inert, unsafe_characters

__all__ = ["FAILED", "FAULT", "REFUSED", "USAGE", "WORKED", "Output", "UsageProblem", "exit_code", "utc"]

WORKED = 0
FAILED = 1
"""The tool failed or crashed, or the call was refused."""
USAGE = 2
"""Wrong usage, bad JSON, a missing extra."""
REFUSED = 3
"""A module, a candidate, a policy or a build was refused."""
FAULT = 4
"""The store or the host."""

_USAGE_REASONS = ("missing_extra", "missing_toolchain", "language_unknown", "compiler_unknown")
_LINE_CHARS = 20_000
"""Of one text in a line that a person is shown."""
_WIDE = 110
"""Columns of a terminal that shows the widest tables."""
_UNBOUNDED = 100_000


_NOT_ASCII = re.compile(r"[^\x20-\x7e\n]")


def _escaped(match: re.Match[str]) -> str:
    """JSON leaves C1 controls, DEL, bidirectional and invisible characters as they are; a terminal obeys them."""
    character = match[0]
    return character if unsafe_characters(character) is None else json.dumps(character)[1:-1]


def _line(parts: Iterable[str | Text]) -> Text:
    line = Text()
    for part in parts:
        line.append_text(part if isinstance(part, Text) else Text(inert(part, limit=_LINE_CHARS)))
    return line


def utc(at: float) -> str:
    """A POSIX time as tables show it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


class UsageProblem(RhoError):
    """The command was given something that it cannot use."""

    reason = "usage"


def exit_code(error: BaseException) -> int:
    """The exit code for an error that ended a verb."""
    if isinstance(error, UsageProblem) or getattr(error, "reason", None) in _USAGE_REASONS:
        return USAGE
    if isinstance(error, ToolError | CapabilityError):
        return FAILED
    if isinstance(error, ModuleRejected | BuildError | PolicyError | RegistryError | GenerationError | SchemaInvalid):
        return REFUSED
    if isinstance(error, StoreError | Closed | OSError):
        return FAULT
    return USAGE if isinstance(error, RhoError) else FAULT


class Output:
    """Prints for a person, or as one JSON object with ``--json``. Guests' text reaches a terminal only inert."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.console = Console(highlight=False, soft_wrap=True)
        self.errors = Console(stderr=True, highlight=False, soft_wrap=True)

    def object(self, value: Mapping[str, Any]) -> None:
        """Prints ``value`` as JSON, indented on a terminal. Nothing without ``--json``."""
        if self.as_json:
            indent = 2 if sys.stdout.isatty() else None
            text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
            sys.stdout.write(_NOT_ASCII.sub(_escaped, text) + "\n")

    def say(self, *parts: str | Text, style: str | None = None) -> None:
        """Prints one line for a person, and never more than one: each text is made inert. Nothing with ``--json``.

        A :class:`rich.text.Text` is the host's own and printed as it is.
        """
        if not self.as_json:
            self.console.print(_line(parts), style=style)

    def aside(self, *parts: str | Text, style: str | None = "dim") -> None:
        """The same on standard error: the host's words beside a tool's text, which has standard output to itself."""
        if not self.as_json:
            self.errors.print(_line(parts), style=style)

    @property
    def narrow(self) -> bool:
        """Whether this is a terminal on which a wide table cannot be read."""
        return self.console.is_terminal and self.console.width < _WIDE

    def paragraph(self, first: str, text: str, *, style: str | None = None) -> None:
        """Prints a long text after ``first``: on a terminal in lines that begin below it, else in one. Made inert."""
        text = inert(text, limit=_LINE_CHARS)
        if not self.console.is_terminal:
            self.say(first, text, style=style)
            return
        indent = " " * (len(first) - len(first.lstrip()) + 2)
        words = textwrap.TextWrapper(self.console.width, subsequent_indent=indent, break_on_hyphens=False)
        for line in words.wrap(inert(first) + text):
            self.say(line, style=style)

    def lines(self, text: str, *, prefix: str = "", style: str | None = None) -> None:
        """Prints somebody's text line by line, each inert and after ``prefix``. Nothing with ``--json``."""
        for line in text.splitlines() or [""]:
            self.say(prefix, line, style=style)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        title: str | None = None,
        styles: Sequence[str] | None = None,
    ) -> None:
        """Prints a table for a person; every cell is made inert. ``styles`` are the rows'. Nothing with ``--json``.

        Cells are folded to the width of a terminal; for a pipe each row is one line, however long.
        """
        if self.as_json:
            return
        table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for number, row in enumerate(rows):
            style = styles[number] if styles else None
            table.add_row(*(Text(inert(cell, newlines=True)) for cell in row), style=style)
        if self.console.is_terminal:
            self.console.print(table)
            return
        unfolded = Console(file=io.StringIO(), width=_UNBOUNDED, color_system=None)
        with unfolded.capture() as capture:
            unfolded.print(table)
        for line in capture.get().splitlines():
            self.console.print(Text(line.rstrip()))

    def error(self, error: BaseException, *, steps: Sequence[str] = ()) -> int:
        """Prints ``error`` (never a traceback, unless ``RHO_WASM_DEBUG`` is set) and answers the exit code.

        ``steps`` are commands that go on from there: with ``--json`` they are ``next`` beside the error.
        """
        if os.environ.get("RHO_WASM_DEBUG"):
            self.errors.print_exception()
        code = exit_code(error)
        if isinstance(error, RhoError):
            told = error.as_json()
        elif isinstance(error, OSError):
            told = {"type": type(error).__name__, "reason": "os_error", "message": str(error)}
        else:
            told = {"type": type(error).__name__, "reason": "internal", "message": f"{error} (set RHO_WASM_DEBUG=1)"}
        try:
            if self.as_json:
                self.object({"error": told} | ({"next": list(steps)} if steps else {}))
                sys.stdout.flush()
            else:
                self.errors.print(Text(f"rho-wasm: {inert(told['message'], newlines=True)}", style="red"))
                for step in steps:
                    self.aside(step)
        except OSError as broken:
            # Standard output is full or gone, and perhaps that was the error. The exit code still says so.
            with suppress(OSError):
                sys.stderr.write(f"rho-wasm: {broken.strerror}\n")
        return code
