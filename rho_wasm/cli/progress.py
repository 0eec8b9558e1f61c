"""What is shown of work that takes seconds: a bar on a terminal, else a line for each stage, on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from rho_wasm.cli.output import Output
from rho_wasm.toolchains import Progress as Tell

__all__ = ["build_progress", "engine_progress"]


@contextmanager
def engine_progress(output: Output, what: str) -> Iterator[Tell]:
    """What to call with ``(stage, fraction)`` while an engine is made. Nothing is shown before, or with ``--json``."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[stage]}"), TimeElapsedColumn())
    with _shown(output, what, Progress(*columns, console=output.errors, transient=True)) as tell:
        yield tell


@contextmanager
def build_progress(output: Output, what: str) -> Iterator[Tell]:
    """The same while something is built: how long a compiler takes nobody knows, so there is no bar."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[stage]}"),
        TimeElapsedColumn(),
    )
    with _shown(output, what, Progress(*columns, console=output.errors, transient=True)) as tell:
        yield tell


@contextmanager
def _shown(output: Output, what: str, bar: Progress) -> Iterator[Tell]:
    task: TaskID | None = None
    last = ""

    def tell(stage: str, fraction: float) -> None:
        nonlocal task, last
        if output.as_json:
            return
        if not output.errors.is_terminal:
            if stage != last:
                output.aside(f"{what}: {stage}")
                last = stage
            return
        if task is None:
            bar.start()
            task = bar.add_task(what, total=1.0, stage=stage)
        bar.update(task, completed=fraction, stage=stage)

    try:
        yield tell
    finally:
        if task is not None:  # Off a terminal a bar prints a line when it ends, even one that never began.
            bar.stop()
