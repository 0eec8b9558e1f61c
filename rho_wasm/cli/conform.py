"""``conform``: whether a module keeps the guest ABI, clause by clause, for the CI of whoever writes guests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.text import Text

from rho_wasm.cli.options import JsonOption, is_source, read_bytes
from rho_wasm.cli.output import REFUSED, USAGE, WORKED, Output, UsageProblem
from rho_wasm.conform import ClauseResult, ConformReport, conform
from rho_wasm.limits import MIB
from rho_wasm.toolchains import EngineShelf
from rho_wasm.untrusted import inert

__all__ = ["add_to"]

_WORDS = {"pass": "pass", "fail": "FAIL", "warning": "should", "not_applicable": "-"}
_STYLES = {"pass": "green", "fail": "red", "warning": "yellow", "not_applicable": "dim"}


def conform_file(
    module: Annotated[Path, typer.Argument(metavar="FILE.wasm", help="A built module.")],
    strict: Annotated[bool, typer.Option("--strict", help="What a module only should do must be done too.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Say, clause by clause, whether a module keeps the guest ABI: by looking, and by calling it in a sandbox.

    Exit code 0: it does; 3: it does not; 2: it could not be called, since the engine that it needs is not installed,
    or since no arguments could be made of its schemas.
    """
    output = Output(as_json=as_json)
    if is_source(module):
        raise UsageProblem(f"{module}: is a source; conform looks at what it becomes: rho-wasm build {module}")
    data = read_bytes(module, limit=64 * MIB)
    with output.errors.status(Text("looking")) as status:

        def progress(doing: str) -> None:
            status.update(Text(inert(doing)))

        report = anyio.run(lambda: conform(data, engines=EngineShelf.default().find, progress=progress))
    kept = report.ok and not (strict and report.of("warning"))
    output.object(report.as_json() | {"file": str(module), "strict": strict})
    _show(output, module, report)
    if not kept:
        return REFUSED
    return WORKED if report.called else USAGE


def _show(output: Output, module: Path, report: ConformReport) -> None:
    output.say(str(module), style="bold")
    output.say(f"sha256 {report.sha256}", style="dim")
    section = ""
    for clause in report.clauses:
        if clause.section != section:
            section = clause.section
            output.say(section, style="bold")
        output.say(_word(clause), f" {clause.id}  {clause.text}")
        if clause.reason and clause.status != "not_applicable":
            output.say(" " * 9, clause.reason, style=_STYLES[clause.status])
    _show_why_not(output, report)
    counts = [
        f"{len(report.of('pass'))} clauses pass",
        f"{len(report.of('fail'))} fail",
        f"{len(report.of('warning'))} should be kept and are not",
        f"{len(report.of('not_applicable'))} do not apply",
    ]
    output.say(f"{', '.join(counts)}; {report.calls} calls", style="bold green" if report.ok else "bold red")
    if not report.called:
        [reason] = (clause.reason for clause in report.clauses if clause.id == "calls.answered")
        output.say(reason, style="yellow")


def _show_why_not(output: Output, report: ConformReport) -> None:
    """What was not looked at, by the reason why: most clauses share one."""
    reasons = Counter(clause.reason for clause in report.of("not_applicable"))
    if reasons:
        output.say("Clauses with -, by reason", style="bold")
    for reason, count in reasons.most_common():
        output.say(Text(f"  {count:6}", style="dim"), f" {reason}")


def _word(clause: ClauseResult) -> Text:
    return Text(f"  {_WORDS[clause.status]:6}", style=_STYLES[clause.status])


def add_to(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("conform")(conform_file)
