"""What one call says of the clauses that hold for every call, whatever was asked."""

from __future__ import annotations

from rho_wasm import plain
from rho_wasm.conform.probe import Ended
from rho_wasm.conform.report import Findings
from rho_wasm.envelope import BadAnswer
from rho_wasm.errors import Malformed, TooLarge
from rho_wasm.results import Ok
from rho_wasm.sandbox.abi import ALLOC, CALL
from rho_wasm.sandbox.faults import CallFailed

__all__ = ["judge"]

_REPLACED = "\N{REPLACEMENT CHARACTER}"


def judge(ended: Ended, asked: str, found: Findings, *, large: bool = False) -> bool:
    """Whether the call ended in an answer of the ABI; ``found`` hears what it says of each clause.

    ``asked`` names the call in a few words. ``large``: its request is one that many guests have no room for.
    """
    _host_calls(ended, asked, found)
    _log(ended, asked, found)
    if isinstance(ended.outcome, CallFailed):
        _broken_off(ended, ended.outcome, asked, found, large=large)
        return False
    _reached(found)
    found.passed("answer.empty")
    found.passed("answer.bounds")
    if isinstance(ended.outcome, BadAnswer):
        found.failed(_clause_of(ended.outcome, ended.answer), f"{asked}: {ended.outcome.detail}")
        return False
    for clause in ("answer.plain", "answer.shape", "answer.limits"):
        found.passed(clause)
    if isinstance(ended.outcome, Ok) and ended.outcome.images:
        found.passed("answer.images")
    return True


def _reached(found: Findings) -> None:
    """rho_call was entered."""
    for clause in ("calls.begin", "alloc.room", "alloc.bounds"):
        found.passed(clause)


def _broken_off(ended: Ended, failed: CallFailed, asked: str, found: Findings, *, large: bool) -> None:
    told = f"{asked}: {failed.reason}: {failed.detail}"
    if ended.stage == CALL:
        _reached(found)
        if failed.reason == "bad_answer":
            clause = "answer.bounds" if failed.limit is None else "answer.limits"
            found.failed("answer.empty" if failed.detail == "the answer is empty" else clause, told)
    elif ended.stage == ALLOC and large:
        pass  # What it says is another clause's.
    elif ended.stage == ALLOC:
        found.passed("calls.begin")
        if failed.reason == "bad_answer":
            found.failed("alloc.bounds", f"{told}; answer room inside the memory, growing it if need be, or 0")
        else:
            found.failed("alloc.room", f"{told}; rho_alloc must give room for every request within a host's bounds")
    else:
        found.failed("calls.begin", f"{told} in {ended.stage}")


def _clause_of(bad: BadAnswer, answer: bytes) -> str:
    if bad.limit is not None or bad.value is not None:
        return "answer.limits"
    try:
        value = plain.decode(answer, max_bytes=len(answer))
    except TooLarge:
        return "answer.limits"
    except Malformed:
        return "answer.plain"
    known = isinstance(value, dict) and "ok" in value and "images" in value
    return "answer.images" if known and "image" in bad.detail else "answer.shape"


def _host_calls(ended: Ended, asked: str, found: Findings) -> None:
    taken_from_nothing = isinstance(ended.outcome, CallFailed) and "no reply waiting" in ended.outcome.detail
    if taken_from_nothing:
        found.failed("host_call.take", f"{asked}: {ended.why}; one host_take for each host_call")
    if not ended.host_calls:
        return
    kinds = ended.host_kinds
    for kind, clause, why in (
        (
            "invalid_arguments",
            "host_call.request",
            "a host-request is a map of capability (text) and arguments (a map)",
        ),
        ("undeclared", "host_call.declared", "name every capability in the manifest"),
    ):
        if kind in kinds:
            found.failed(clause, f"{asked}: a host call was answered {kind}; {why}")
        else:
            found.passed(clause)
    if ended.kind == "too_many_host_calls":
        found.failed("host_call.count", f"{asked}: it went on asking after the kind quota")
    else:
        found.passed("host_call.count")
    if taken_from_nothing:
        return
    found.passed("host_call.take")
    if kinds:
        if ended.answered:
            found.passed("host_call.denied")
        elif ended.kind != "too_many_host_calls":
            found.failed(
                "host_call.denied", f"{asked}: after the reply {kinds[0]}: {ended.why}; answer error or raised"
            )


def _log(ended: Ended, asked: str, found: Findings) -> None:
    if not ended.log.lines:
        return
    if any(_REPLACED in line.text for line in ended.log.lines):
        found.failed("log.text", f"{asked}: a line of the log is not UTF-8")
    else:
        found.passed("log.text")
