"""``python -m tests.benchmarks``: what a guest call costs here, side by side with others, in one run.

Every contender does the same job in the same process in turns of short blocks; the median of the blocks' medians is
told. Peers get what is in their favour (Extism no CBOR, the plain ones no schema, no gate and nobody who watches
deadlines). Tools in Python and in JavaScript (``--only languages``) are the same source for everybody.
RHO_WASM_WAY says which way ours are called. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from tests.benchmarks.guests import Absent
from tests.benchmarks.peers.signals import settle_signals
from tests.benchmarks.picture import picture, pyplot
from tests.benchmarks.report import Report, table
from tests.benchmarks.sections import ALL_OF, SECTIONS
from tests.benchmarks.sizes import FULL, QUICK, Size


async def run(sections: Sequence[str], size: Size) -> Report:
    """Measures ``sections`` in their order; one that is left out, or for which the time is up, is named, not begun."""
    report = Report()
    settle_signals()
    began = time.monotonic()
    for name in sections:
        if (why := size.left_out.get(name)) is not None:
            report.left_out[name] = why
            continue
        if time.monotonic() - began > size.begin_s:
            report.left_out[name] = "the time of a quick run is up (--only measures it alone)"
            continue
        print(f"{time.monotonic() - began:6.1f} s {name}", file=sys.stderr, flush=True)
        await SECTIONS[name](report, size)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=(__doc__ or "").partition(":")[2])
    parser.add_argument("--quick", action="store_true", help="fewer samples: ends within 50 seconds")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there")
    parser.add_argument("--picture", metavar="FILE", type=Path, help="draw them there (needs the extra bench)")
    groups = [*SECTIONS, *ALL_OF]
    parser.add_argument("--only", metavar="GROUP", action="append", choices=groups, help=f"of {', '.join(groups)}")
    parser.add_argument("--calls", metavar="N", type=int, help="of steady: calls on each way (default 100,000)")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio", help="the event loop")
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else FULL
    if options.calls is not None:
        size = replace(size, calls=options.calls, watched=FULL.watched)
    asked = options.only or list(SECTIONS)
    sections = dict.fromkeys(name for section in asked for name in ALL_OF.get(section, (section,)))
    if options.only:
        # Who names a section by itself means it, however long it takes.
        left_out = {name: why for name, why in size.left_out.items() if name not in asked}
        size = replace(size, left_out=left_out, begin_s=FULL.begin_s)
    try:
        if options.picture is not None:
            pyplot()
        report = anyio.run(run, list(sections), size, backend=options.backend)
        for line in table(report):
            print(line)
        if options.json is not None:
            options.json.write_text(json.dumps(report.as_json(), indent=2) + "\n")
        if options.picture is not None:
            picture(report, options.picture)
    except Absent as absent:
        print(absent, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
