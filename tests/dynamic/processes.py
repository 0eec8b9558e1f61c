"""Other processes for tests: forked from one that has everything imported, so that each costs milliseconds."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

__all__ = ["SOMEBODY", "WAIT_S", "ForkServerProcess", "answer_of_process", "become_somebody", "begin"]

WAIT_S = 60
"""How long a test waits for another process before it fails."""

SOMEBODY = 4321
"""A user that is not root, and need not exist."""


def begin(target: Callable[..., Any], *arguments: Any) -> tuple[ForkServerProcess, Connection]:
    """Starts ``target(connection, *arguments)``; it talks through the other end of the connection that is answered."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rho_wasm.dynamic.source", "tests.dynamic.guests"])
    here, there = context.Pipe()
    process = context.Process(target=target, args=(there, *arguments), daemon=True)
    process.start()
    there.close()
    return process, here


def answer_of_process(target: Callable[..., Any], *arguments: Any) -> Any:
    """What ``target(*arguments)`` returns in another process; its exception is a failed assertion here."""
    process, connection = begin(_answer, target, arguments)
    assert connection.poll(WAIT_S), "the other process did not answer"
    answer = connection.recv()
    process.join(WAIT_S)
    assert process.exitcode == 0
    connection.close()
    process.close()
    return answer


def _answer(connection: Connection, target: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    connection.send(target(*arguments))
    connection.close()


def become_somebody() -> None:
    """Gives up root, which may write anywhere."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(SOMEBODY, SOMEBODY, SOMEBODY)
        os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
