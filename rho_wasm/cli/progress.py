"""A bar on standard error for what takes seconds: making an engine at its first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from rho_wasm.cli.output import Output
from rho_wasm.toolchains import Progress as Tell

__all__ = ["engine_progress"]


@contextmanager
def engine_progress(output: Output, what: str) -> Iterator[Tell]:
    """What to call with ``(stage, fraction)``. The bar appears at the first call and is gone at the end.

    Nothing is shown with ``--json`` or where standard error is no terminal.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[stage]}"), TimeElapsedColumn())
    shown = not output.as_json and output.errors.is_terminal
    bar = Progress(*columns, console=output.errors, transient=True, disable=not shown)
    task: TaskID | None = None

    def tell(stage: str, fraction: float) -> None:
        nonlocal task
        if task is None:
            bar.start()
            task = bar.add_task(what, total=1.0, stage=stage)
        bar.update(task, completed=fraction, stage=stage)

    try:
        yield tell
    finally:
        bar.stop()
