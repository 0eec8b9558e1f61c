"""Verbs about recorded calls: list them, look at one, run them again, forget them. They hold users' data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rho_wasm.cli.hosts import with_host
from rho_wasm.cli.options import JsonOption, PolicyOption, StoreOption, artifact_of
from rho_wasm.cli.output import FAILED, WORKED, Output, UsageProblem, utc
from rho_wasm.cli.which_store import DEFAULT_STORE, existing_store, next_command
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.recording import RecordingRow, plain_json
from rho_wasm.dynamic.replay import Replay
from rho_wasm.dynamic.replay_report import ReplayReport
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import Corrupt
from rho_wasm.host import Host
from rho_wasm.untrusted import inert

__all__ = ["add_to", "show_report"]

_VALUE_CHARS = 2_000
"""Of one value that a person is shown; ``--json`` has all of it."""
_VALUE_LINES = 60
_SHORT = 76
_HOST_CALLS_SHOWN = 50
_TOOLS_SHOWN = 20
_COLUMNS = ("id", "tool", "artifact", "gen", "when (UTC)", "ended", "host calls", "fuel", "ms", "bytes")
_ONLY_WHERE_WIDE = ("artifact", "fuel", "bytes")
_DIFFS_SHOWN = 8
_KIND_STYLES = {"ok": "green", "failed": "yellow", "crashed": "red"}

_IdsArgument = Annotated[list[int] | None, typer.Argument(metavar="ID...", show_default=False)]
_ToolOption = Annotated[str | None, typer.Option("--tool", metavar="TOOL", help="All of this tool.")]


def list_recordings(
    tool: Annotated[str | None, typer.Argument(metavar="[TOOL]", help="Only of this tool.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="So many at most.")] = 100,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> int:
    """List recorded calls, the newest first, without what was said in them."""
    output = Output(as_json=as_json)
    existing_store(store)
    with Store.open(store, read_only=True) as opened:
        rows, counts = opened.recordings.rows(tool, limit=limit), opened.recordings.counts()
    output.object({"recordings": [row.as_json() for row in rows]})
    if not rows:
        output.say(_nothing(tool, counts), style="dim")
        return WORKED
    narrow = output.narrow
    columns = [name for name in _COLUMNS if not (narrow and name in _ONLY_WHERE_WIDE)]
    output.table(
        columns,
        [
            [cell for name, cell in zip(_COLUMNS, _cells(row, short=narrow), strict=True) if name in columns]
            for row in rows
        ],
        styles=[_KIND_STYLES[row.kind] for row in rows],
    )
    return WORKED


def show(
    id: Annotated[int, typer.Argument(metavar="ID")],
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> int:
    """Show one recorded call: its arguments, what it asked of the host and was told, its answer."""
    output = Output(as_json=as_json)
    existing_store(store)
    with Store.open(store, read_only=True) as opened:
        try:
            recording = opened.recordings.get(id)
        except Corrupt as damaged:
            return output.error(damaged, steps=[next_command("recordings drop", id, store=store)])
    if recording is None:
        raise _unknown([id], store)
    told = recording.as_json()
    output.object(told)
    version = f"{recording.tool} {recording.artifact[:12]}, generation {recording.generation}, {utc(recording.at)} UTC"
    output.say(f"recording {id}: {version}", style="bold")
    ended = recording.reason or recording.kind
    fuel = "" if recording.fuel is None else f", {recording.fuel} fuel"
    output.say(f"  {ended}{fuel}, {recording.duration_ms:.2f} ms", style=_KIND_STYLES[recording.kind])
    if recording.redacted:
        output.say("  redacted: it was altered before it was written", style="yellow")
    _show_value(output, "  arguments: ", told["arguments"])
    _show_value(output, "  context: ", told["context"], style="dim")
    for number, call in enumerate(told["host_calls"][:_HOST_CALLS_SHOWN], 1):
        _show_value(output, f"  {number}. {call['capability']} ", call["arguments"])
        _show_value(output, "     -> ", call["reply"])
    if (more := len(told["host_calls"]) - _HOST_CALLS_SHOWN) > 0:
        output.say(f"  (and {more} more host calls: --json has them)", style="dim")
    if recording.answer is None:
        output.paragraph("  said: ", recording.detail, style="red")
    else:
        _show_value(output, "  answer: ", told["answer"])
    return WORKED


def replay(
    ids: _IdsArgument = None,
    tool: _ToolOption = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="FILE.wasm|GENERATION", help="Default: what is live.", show_default=False),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run recorded calls again, with the host's recorded answers; nothing is touched and nothing strikes. All calls,
    unless some are named. The exit code is 1 if one crashes where it answered (unless it asked the host otherwise
    before, which decides nothing), or if there is none of that tool."""
    output = Output(as_json=as_json)

    async def job(host: Host) -> tuple[tuple[ReplayReport, ...], dict[str, int]]:
        rows = _rows(host.store, ids or (), tool, where=store)
        return await host.source.replay(rows, against=await _target(against)), host.store.recordings.counts()

    reports, counts = with_host(store, policy, job)
    output.object({"reports": [report.as_json() for report in reports]})
    for report in reports:
        show_report(output, report)
        if report.broken:
            output.say(next_command("recordings show", report.broken[0].id, store=store), style="dim")
    if not reports:
        output.say(_nothing(tool, counts), style="dim")
    unknown = not reports and tool is not None
    return FAILED if unknown or any(report.broken for report in reports) else WORKED


def drop(
    ids: _IdsArgument = None,
    tool: _ToolOption = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> int:
    """Forget recorded calls: those named, or all of a tool. Their bytes are overwritten. The exit code is 1 if there
    was none of that tool."""
    output = Output(as_json=as_json)
    if not ids and tool is None:
        raise UsageProblem("drop which? Name recordings, or all of a tool with --tool")
    existing_store(store)
    with Store.open(store) as opened:
        known = {row.id for row in opened.recordings.find(ids or ())}
        if unknown := [id for id in ids or () if id not in known]:
            raise _unknown(unknown, store)
        counts = opened.recordings.counts()
        gone = opened.recordings.drop(ids or (), tool=tool)
    output.object({"dropped": gone})
    if not gone:
        output.say(_nothing(tool, counts), style="yellow")
        return FAILED
    output.say(f"recordings forgotten: {gone}")
    return WORKED


def show_report(output: Output, report: ReplayReport, *, indent: str = "") -> None:
    """Prints what became of one tool's recorded calls, with a diff of the first ones that ended otherwise."""
    notable = report.differing or report.diverged or report.costly
    style = "red" if report.broken else "yellow" if notable else "green"
    output.say(indent, report.summary(), style=style)
    for line in report.skipped:
        output.say(f"{indent}  skipped: ", line, style="dim")
    told = [each for each in report.replays if not each.same or each.diverged is not None or each.costly]
    for each in told[:_DIFFS_SHOWN]:
        _show_replay(output, each, indent=indent + "  ")
    if len(told) > _DIFFS_SHOWN:
        output.say(f"{indent}  (and {len(told) - _DIFFS_SHOWN} more: --json has them)", style="dim")


def _show_replay(output: Output, each: Replay, *, indent: str) -> None:
    fuel = "" if each.fuel_ratio is None else f", fuel x{each.fuel_ratio:.2f}"
    then, now = each.recorded_reason or each.recorded_kind, each.reason or each.kind
    output.say(f"{indent}recording {each.id}: {then} -> {now}{fuel}", style="red" if each.broke else "yellow")
    if each.detail:
        output.say(f"{indent}  ", each.detail)
    for place in each.backtrace[:3]:
        output.say(f"{indent}  in ", place, style="dim")
    if each.diverged is not None:
        output.say(f"{indent}  at host call {each.diverged.index + 1} it asked otherwise:", style="yellow")
        output.say(f"{indent}    recorded: ", _asked(each.diverged.recorded))
        output.say(f"{indent}    asked:    ", _asked(each.diverged.asked))
        if each.diverged.asked is not None:
            output.say(f"{indent}    which is not in the recording: a replay denies that, granted or not", style="dim")
    for line in each.diff.splitlines():
        output.say(f"{indent}  ", line, style="green" if line[:1] == "+" else "red" if line[:1] == "-" else "dim")


def _asked(asked: list[Any] | None) -> str:
    return "nothing more" if asked is None else f"{asked[0]} {_shown(asked[1])}"


def _shown(value: Any) -> str:
    return inert(_json(value), limit=_VALUE_CHARS)


def _show_value(output: Output, label: str, value: Any, *, style: str | None = None) -> None:
    """In the label's line if it is short, else below it, as much of it as a person reads."""
    text = _json(value)
    if len(label) + len(text) <= _SHORT:
        output.say(label, text, style=style)
        return
    output.say(label.rstrip(), style=style)
    indent = " " * (len(label) - len(label.lstrip()) + 2)
    lines = _json(value, indent=2).split("\n")
    for line in lines[:_VALUE_LINES]:
        begins = len(line) - len(line.lstrip())
        output.paragraph(indent + line[:begins], inert(line[begins:], limit=_VALUE_CHARS), style=style)
    if len(lines) > _VALUE_LINES:
        output.say(f"{indent}(and {len(lines) - _VALUE_LINES} more lines: --json has them)", style="dim")


def _json(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(plain_json(value), ensure_ascii=False, indent=indent)


def _cells(row: RecordingRow, *, short: bool) -> tuple[str, ...]:
    """In the order of ``_COLUMNS``."""
    return (
        str(row.id),
        row.tool,
        row.artifact[:12],
        str(row.generation),
        utc(row.at)[5:] if short else utc(row.at),
        row.reason or row.kind,
        str(row.host_calls),
        "" if row.fuel is None else str(row.fuel),
        f"{row.duration_ms:.2f}",
        str(row.bytes),
    )


def _nothing(tool: str | None, counts: Mapping[str, int]) -> str:
    """Why there is nothing to show."""
    if not counts:
        return "nothing is recorded; calls are where a policy says: [recordings] on = true"
    shown = ", ".join(f"{name} ({number})" for name, number in list(counts.items())[:_TOOLS_SHOWN])
    more = "" if len(counts) <= _TOOLS_SHOWN else f" and {len(counts) - _TOOLS_SHOWN} more tools"
    return f"nothing is recorded of {tool}; there are calls of {shown}{more}"


def _rows(store: Store, ids: Sequence[int], tool: str | None, *, where: Path) -> tuple[RecordingRow, ...]:
    if not ids:
        return store.recordings.rows(tool, limit=-1)
    rows = store.recordings.find(ids)
    known = {row.id for row in rows}
    if unknown := [id for id in ids if id not in known]:
        raise _unknown(unknown, where)
    return tuple(row for row in rows if tool is None or row.tool == tool)


async def _target(against: str | None) -> int | Artifact | None:
    if against is None:
        return None
    if against.isascii() and against.isdecimal():
        return int(against)
    return await artifact_of(Path(against))


def _unknown(ids: Sequence[int], store: Path) -> UsageProblem:
    step = next_command("recordings list", store=store)
    return UsageProblem(f"no such recording: {', '.join(map(str, ids))}; {step} has those there are")


def add_to(app: typer.Typer) -> None:
    verbs = typer.Typer(help="Recorded calls: list, show, replay and drop them.", no_args_is_help=True)
    for name, verb in (("list", list_recordings), ("show", show), ("replay", replay), ("drop", drop)):
        verbs.command(name)(verb)
    app.add_typer(verbs, name="recordings")
