"""What was measured, as a picture."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tests.benchmarks.guests import Absent
from tests.benchmarks.peers import OURS
from tests.benchmarks.report import Report

__all__ = ["picture", "pyplot"]


def pyplot() -> Any:
    """matplotlib without a display. Raises :class:`Absent` where it is not installed."""
    try:
        importlib.import_module("matplotlib").use("Agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise Absent("matplotlib is not installed: pip install 'rho-wasm[bench]'") from None


def picture(report: Report, path: Path) -> None:
    """Medians of every group, and how the cost grows, on logarithmic scales. The suffix says the format."""
    plot = pyplot()
    panels = len(report.groups) + len(report.growth)
    if panels == 0:
        raise Absent("this run has nothing that a picture could show")
    columns = min(panels, 4)
    rows = -(-panels // columns)
    drawn, axes = plot.subplots(rows, columns, figsize=(4.5 * columns, 3.6 * rows), squeeze=False)
    places = iter(axes.flat)
    for group in report.groups:
        names = list(reversed(group.figures))
        colours = ["tab:red" if name == OURS else "tab:gray" for name in names]
        place = next(places)
        medians = [group.figures[name].median_us for name in names]
        place.bar_label(place.barh(names, medians, color=colours), fmt="{:,.1f}", padding=2, fontsize=7)
        # A bar has no true start on such a scale; far from the shortest it exaggerates no difference.
        place.set(title=group.title, xlabel="median, us", xscale="log", xlim=(min(medians) / 10, max(medians) * 10))
    for growth in report.growth:
        place = next(places)
        medians = [point["median_us"] for point in growth.points.values()]
        place.plot(list(growth.points), medians, "o-", color="tab:red")
        place.set(title=growth.name, xlabel=growth.unit, ylabel="median, us", xscale="log", yscale="log")
        place.set_ylim(min(medians) / 10, max(medians) * 10)
    for place in places:
        place.axis("off")
    drawn.suptitle(", ".join(f"{name}: {value}" for name, value in report.machine().items()), fontsize=8)
    drawn.tight_layout()
    drawn.savefig(path)
    plot.close(drawn)
