"""A candidate as a person is shown it before saying yes."""

from __future__ import annotations

from collections.abc import Sequence

from rho_wasm.cli.output import Output
from rho_wasm.cli.recordings import show_report
from rho_wasm.dynamic.review import Review, ToolReview

__all__ = ["show_review"]


def show_review(output: Output, review: Review) -> None:
    """Prints what a candidate changes, each module once: what it was made of, what it may do, and then its tools."""
    modules: dict[str, list[ToolReview]] = {}
    for each in review.tools:
        if each.artifact is not None:
            modules.setdefault(each.artifact, []).append(each)
    for artifact, tools in modules.items():
        _show_module(output, artifact, tools)
    for each in review.tools:
        if each.artifact is None:
            output.say(f"removed {each.tool}  {(each.previous_artifact or '')[:12]}", style="bold")


def _show_module(output: Output, artifact: str, tools: Sequence[ToolReview]) -> None:
    """What is granted stands with the module where it is the same for all of its tools, else with each of them."""
    first = tools[0]
    output.say(f"module {artifact[:12]}", style="bold")
    language, toolchain = first.language or "unknown language", first.toolchain or "unknown toolchain"
    output.say(f"  {first.provenance}: {language}, {toolchain}")
    output.say(f"  may ask for: {', '.join(first.capabilities) or 'nothing'}")
    alike = all((each.not_granted, each.grant_changes) == (first.not_granted, first.grant_changes) for each in tools)
    if alike:
        _show_grants(output, first, indent="  ")
    if first.source is None:
        output.say("  no source was given", style="yellow")
    else:
        output.lines(first.source, prefix="  | ", style="dim")
    for each in tools:
        _show_tool(output, each)
        if not alike:
            _show_grants(output, each, indent="    ")


def _show_tool(output: Output, tool: ToolReview) -> None:
    output.say(f"  {tool.change} {tool.tool}; {tool.examples} examples", style="bold")
    output.lines(tool.description, prefix="    > ")
    if tool.quarantines:
        output.say(f"    {tool.quarantines} versions of that name are quarantined", style="red")
    if tool.replay is not None:
        show_report(output, tool.replay, indent="    ")


def _show_grants(output: Output, tool: ToolReview, *, indent: str) -> None:
    if tool.not_granted:
        output.say(f"{indent}is not granted: {', '.join(tool.not_granted)}", style="yellow")
    for change in tool.grant_changes:
        output.say(indent, change.words, style="bold")
