"""A candidate as a person is shown it before saying yes."""

from __future__ import annotations

from rho_wasm.cli.output import Output
from rho_wasm.cli.recordings import show_report
from rho_wasm.dynamic.review import Review

__all__ = ["show_review"]


def show_review(output: Output, review: Review) -> None:
    """Prints each tool that a candidate changes: what it was made of, what it may do, what became of recorded calls."""
    for each in review.tools:
        output.say(f"{each.change} {each.tool}  {(each.artifact or each.previous_artifact or '')[:12]}", style="bold")
        if each.change == "removed":
            continue
        output.lines(each.description, prefix="  > ")
        output.say(
            f"  {each.provenance}: {each.language or 'unknown language'}, {each.toolchain or 'unknown toolchain'}"
        )
        output.say(f"  may ask for: {', '.join(each.capabilities) or 'nothing'}; {each.examples} examples")
        if each.not_granted:
            output.say(f"  is not granted: {', '.join(each.not_granted)}", style="yellow")
        for change in each.grant_changes:
            output.say("  ", change.words, style="bold")
        if each.quarantines:
            output.say(f"  {each.quarantines} versions of that name are quarantined", style="red")
        if each.replay is not None:
            show_report(output, each.replay, indent="  ")
        if each.source is None:
            output.say("  no source was given", style="yellow")
        else:
            output.lines(each.source, prefix="  | ", style="dim")
