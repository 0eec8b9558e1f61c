"""Python itself: a new isolated interpreter a call, and a plain function."""

from __future__ import annotations

import json
import subprocess as processes
import sys
from collections.abc import Callable

from rho_wasm import Host
from tests.benchmarks.jobs import Job
from tests.benchmarks.measure import SyncContender

__all__ = ["function", "subprocess"]


async def function(host: Host | None, job: Job, callers: int) -> SyncContender:
    def call() -> object:
        return job.python(job.text)

    # Not called to check it first: the loop takes many seconds. The answer of a slow job is checked where it is timed.
    return SyncContender([_checked(call, job)] * callers)


async def subprocess(host: Host | None, job: Job, callers: int) -> SyncContender:
    work = job.program if "\n" in job.program else f"text = {job.program}"
    program = f"import json, sys\ntext = json.load(sys.stdin)\n{work}\njson.dump(text, sys.stdout)\n"

    def call() -> object:
        done = processes.run(
            [sys.executable, "-I", "-c", program],
            input=json.dumps(job.text),
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    return SyncContender([_checked(call, job)] * callers)


def _checked(call: Callable[[], object], job: Job) -> Callable[[], object]:
    def once() -> object:
        answer = call()
        job.check(answer)
        return answer

    return once
