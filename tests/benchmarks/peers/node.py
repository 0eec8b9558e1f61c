"""Node: a new process for each call, without limits."""

from __future__ import annotations

import json
import shutil
import subprocess as processes

from rho_wasm import Host
from tests.benchmarks.guests import Absent
from tests.benchmarks.language_jobs import LanguageJob
from tests.benchmarks.measure import SyncContender

__all__ = ["node"]

_READ = 'JSON.parse(require("fs").readFileSync(0, "utf8"))'


async def node(host: Host | None, job: LanguageJob, callers: int) -> SyncContender:
    program = shutil.which("node")
    if program is None:
        raise Absent("there is no node on the PATH")
    source = f"{job.code}\nprocess.stdout.write(JSON.stringify(run({_READ})));"

    def once() -> object:
        done = processes.run(
            [program, "-e", source], input=json.dumps(job.text), capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    job.check(once())
    return SyncContender([once] * callers)
