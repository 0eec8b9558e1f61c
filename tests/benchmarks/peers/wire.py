"""The guest ABI's bytes for the peers that run our guests without us."""

from __future__ import annotations

from typing import Any

import cbor2

from tests.benchmarks.jobs import Job

__all__ = ["FUEL", "MEMORY_BYTES", "answer_of", "request_of"]

FUEL = 10**12
MEMORY_BYTES = 64 * 1024 * 1024


def request_of(job: Job) -> bytes:
    return cbor2.dumps({"abi": 1, "tool": job.tool, "arguments": {"text": job.text}, "context": {}})


def answer_of(data: bytes) -> Any:
    return cbor2.loads(data)["ok"]
